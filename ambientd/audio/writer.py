"""The thread that carries audio from the ring to the disk.

Nothing here waits for a model, a client or the daemon. When the disk does not take audio it stays
in the ring, half a minute of it, and the same bytes are tried again.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from typing import Any

from ambientd.audio.attention import Attention
from ambientd.audio.disk import Disk, Send
from ambientd.audio.level import Meter
from ambientd.audio.ring import Hole
from ambientd.audio.source import BLOCK_MS, Source
from ambientd.audio.sync import Syncer
from ambientd.audio.track_files import TrackFiles
from ambientd.units import SAMPLE_BYTES, frames_to_ms

BATCH_S = 0.05
"""How long audio is gathered before it is written and said to be there: on average half of this is
added to the delay of a turn, and each time wakes three processes."""

IDLE_REPORT_S = 1.0
HEADER_S = 1.0
RETRY_S = 0.5
LAST_TRIES = 4
"""How often the rest is tried at the end: the daemon waits 10 s for a capture that closes."""

METER_MS = 300
STATE_CHECK_S = 0.25

WRITTEN = "written"


class Writer:
    """Writes one track from ``start`` until ``finish``.

    Args:
        source: what delivers.
        files: where it goes.
        send: sends an event to the daemon.
    """

    def __init__(self, source: Source, files: TrackFiles, send: Send) -> None:
        self._source = source
        self._files = files
        self._send = send
        self._meter = Meter(METER_MS // BLOCK_MS)
        self._stop = threading.Event()
        self._disk = Disk(send, self._heard_ms)
        self._syncer = Syncer(files, self._disk)
        self._last_report_s = 0.0
        self._reported_frames = -1
        self._last_header_s = 0.0
        self._last_check_s = 0.0
        self._attention = Attention(source, send)
        self._thread = threading.Thread(
            target=self._write_until_stopped, name="writer", daemon=True
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()
        self._syncer.start()

    def finish(self) -> None:
        """Write the rest and close the files; after ``start``, and after the source was closed.

        What the disk refuses to the end is given up: the file stays valid and shorter.
        """
        self._stop.set()
        self._thread.join()
        self._source.ring.end_hole()
        is_whole = self._drain_at_last()
        self._files.finish()
        if not (is_whole and self._flush()):
            self._give_up()
        self._patch_header()
        self._syncer.finish()
        self._files.close()
        self._send("closed", **self._counts())

    def _write_until_stopped(self) -> None:
        try:
            self._write()
        except Exception:  # noqa: BLE001 - whatever it is, this process must not look alive
            # The daemon mends the files of a capture that is gone.
            traceback.print_exc()
            os._exit(1)

    def _write(self) -> None:
        while not self._stop.wait(RETRY_S if self._disk.refusal(WRITTEN) else BATCH_S):
            self._drain()
            self._report(time.monotonic())

    def _flush(self) -> bool:
        is_taken = self._disk.takes(WRITTEN, self._files.flush)
        self._source.ring.full_reason = self._disk.refusal(WRITTEN) or "overflow"
        return is_taken

    def _drain(self) -> bool:
        """Write what is queued and what is in the ring; False if the disk did not take it all."""
        if not self._flush():
            return False
        while (piece := self._source.ring.take()) is not None:
            if isinstance(piece, Hole):
                self._skip(piece)
            else:
                self._files.add(piece)
                self._meter.add(piece)
            if not self._flush():
                return False
            self._report_if_due()
        return True

    def _drain_at_last(self) -> bool:
        for _ in range(LAST_TRIES - 1):
            if self._drain():
                return True
            time.sleep(RETRY_S)
        return self._drain()

    def _give_up(self) -> None:
        self._disk.takes("cut to whole frames", self._files.give_up)
        end_frames = self._files.queued_frames
        while (piece := self._source.ring.take()) is not None:
            end_frames += piece.frames if isinstance(piece, Hole) else len(piece) // SAMPLE_BYTES
        start_ms = frames_to_ms(self._files.frames, self._files.rate_hz)
        end_ms = frames_to_ms(end_frames, self._files.rate_hz)
        if end_ms > start_ms:
            reason = self._disk.refusal(WRITTEN)
            self._send("gap", start_ms=start_ms, end_ms=end_ms, reason=reason)

    def _skip(self, hole: Hole) -> None:
        start_ms = self._files.queued_ms
        self._files.add_hole(hole.frames)
        self._send("gap", start_ms=start_ms, end_ms=self._files.queued_ms, reason=hole.reason)

    def _heard_ms(self) -> int:
        """Return the track time up to which audio came in, on disk or not."""
        files = self._files
        ring = self._source.ring
        came_frames = ring.position_frames - ring.origin_frames
        came_ms = frames_to_ms(came_frames, files.device_rate_hz)
        return frames_to_ms(files.start_frames, files.rate_hz) + came_ms

    def _patch_header(self) -> None:
        try:
            self._files.patch_header()
        except OSError:
            pass  # whether the disk takes audio decides; the sizes are set again in a second

    def _report_if_due(self) -> None:
        now_s = time.monotonic()
        if now_s - self._last_report_s >= BATCH_S:
            self._report(now_s)

    def _report(self, now_s: float) -> None:
        if now_s - self._last_header_s >= HEADER_S:
            self._last_header_s = now_s
            self._patch_header()
        is_news = self._files.frames != self._reported_frames
        if is_news or now_s - self._last_report_s >= IDLE_REPORT_S:
            self._last_report_s = now_s
            self._reported_frames = self._files.frames
            rms_dbfs, peak_dbfs = self._meter.read()
            self._send("progress", **self._counts(), rms_dbfs=rms_dbfs, peak_dbfs=peak_dbfs)
        if now_s - self._last_check_s >= STATE_CHECK_S:
            self._last_check_s = now_s
            self._check_source()

    def _check_source(self) -> None:
        # What is in memory can wait for the disk, but not through a close.
        may_end = not self._disk.refusal(WRITTEN)
        self._attention.look(self._files.queued_ms, may_end=may_end)

    def _counts(self) -> dict[str, Any]:
        zero_frames = self._meter.zero_frames if self._source.is_microphone else 0
        return {
            "frames": self._files.frames,
            "spool_frames": self._files.spool_frames,
            "lost_frames": self._source.ring.lost_frames,
            "heard_ns": self._heard_ns(),
            "zero_ms": frames_to_ms(zero_frames, self._files.device_rate_hz),
        }

    def _heard_ns(self) -> int:
        """Return when the last frame that is on disk was heard, as ``clock.boot_ns``."""
        files = self._files
        written_frames = (files.frames - files.start_frames) * files.device_rate_hz // files.rate_hz
        anchor = self._source.anchor
        heard_frames = anchor.position_frames - self._source.ring.origin_frames
        behind_frames = heard_frames - written_frames
        return anchor.boot_ns - behind_frames * 1_000_000_000 // files.device_rate_hz
