"""The thread that carries audio from the ring to the disk, and the one that syncs it.

Nothing here waits for a model, a client or the daemon. When the disk does not take audio it stays
in the ring, half a minute of it, and the same bytes are tried again.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from ambientd.audio.level import Meter
from ambientd.audio.ring import Hole
from ambientd.audio.source import BLOCK_MS, Source, State
from ambientd.audio.track_files import TrackFiles
from ambientd.units import SAMPLE_BYTES, frames_to_ms

BATCH_S = 0.04
"""How long audio is gathered before it is written: two blocks."""

REPORT_S = 0.06
IDLE_REPORT_S = 1.0
HEADER_S = 1.0
SYNC_S = 1.0
TOUCH_S = 4.0
RETRY_S = 0.5
LAST_TRIES = 4
METER_MS = 300
STATE_CHECK_S = 0.25
LOST_LOOKS = 3

Send = Callable[..., None]


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
        self._failing = False
        self._ended = False
        self._last_report_s = 0.0
        self._reported_frames = -1
        self._last_header_s = 0.0
        self._last_check_s = 0.0
        self._overflows = 0
        self._lost_looks = 0
        self._threads = [
            threading.Thread(target=self._write_until_stopped, name="writer"),
            threading.Thread(target=self._sync_until_stopped, name="sync"),
        ]

    def start(self) -> None:
        """Begin to write."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Write the rest and close the files; after the source was closed.

        What the disk refuses to the end is given up: the file stays valid and shorter.
        """
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._source.ring.close()
        for attempt in range(LAST_TRIES):
            # An error that passes must not cost what still waits in the ring.
            if attempt:
                time.sleep(RETRY_S)
            if self._try(self._files.flush):
                self._drain()
            if self._source.ring.is_empty() and not self._failing:
                break
        self._files.finish()
        if self._try(self._files.flush) and self._source.ring.is_empty():
            self._try(self._files.sync)
        else:
            self._say_what_is_missing()
        self._patch_header()
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
        while not self._stop.wait(RETRY_S if self._failing else BATCH_S):
            if not self._failing or self._try(self._files.flush):
                self._drain()
            self._report(time.monotonic())

    def _drain(self) -> None:
        while True:
            piece = self._source.ring.take()
            if piece is None:
                break
            if isinstance(piece, Hole):
                self._skip(piece)
            else:
                self._files.add(piece)
                self._meter.add(piece)
            if not self._try(self._files.flush):
                return
            self._report_if_due()

    def _say_what_is_missing(self) -> None:
        missing_frames = 0
        while (piece := self._source.ring.take()) is not None:
            missing_frames += (
                piece.frames if isinstance(piece, Hole) else len(piece) // SAMPLE_BYTES
            )
        rate_hz = self._files.rate_hz
        end_ms = self._files.queued_ms + frames_to_ms(missing_frames, rate_hz)
        start_ms = frames_to_ms(self._files.frames, rate_hz)
        self._send("gap", start_ms=start_ms, end_ms=end_ms, reason="disk_full")

    def _skip(self, hole: Hole) -> None:
        start_ms = self._files.queued_ms
        self._files.add_hole(hole.frames)
        self._send("gap", start_ms=start_ms, end_ms=self._files.queued_ms, reason=hole.reason)

    def _try(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError as error:
            if not self._failing:
                self._failing = True
                reason = error.strerror or "it failed"
                self._send("disk", state="failing", message=f"audio cannot be written: {reason}")
            return False
        if self._failing:
            self._failing = False
            self._send("disk", state="ok", message="audio is written again")
        return True

    def _patch_header(self) -> None:
        try:
            self._files.patch_header()
        except OSError:
            pass  # whether the disk takes audio decides; the sizes are set again in a second

    def _report_if_due(self) -> None:
        now_s = time.monotonic()
        if now_s - self._last_report_s >= REPORT_S:
            self._report(now_s)

    def _report(self, now_s: float) -> None:
        if now_s - self._last_header_s >= HEADER_S:
            self._last_header_s = now_s
            self._patch_header()
        due_s = REPORT_S if self._files.frames != self._reported_frames else IDLE_REPORT_S
        if now_s - self._last_report_s >= due_s:
            self._last_report_s = now_s
            self._reported_frames = self._files.frames
            rms_dbfs, peak_dbfs = self._meter.read()
            self._send("progress", **self._counts(), rms_dbfs=rms_dbfs, peak_dbfs=peak_dbfs)
        if now_s - self._last_check_s >= STATE_CHECK_S:
            self._last_check_s = now_s
            self._check_source()

    def _check_source(self) -> None:
        if self._source.overflows > self._overflows:
            self._overflows = self._source.overflows
            self._send("overflow", at_ms=self._files.queued_ms)
        state = self._source.state()
        if state is State.ALIVE or self._ended or not self._source.ring.is_empty():
            self._lost_looks = 0
            return
        self._lost_looks += 1
        # Twice: if this process was stopped for a while, the next block is on its way.
        if state is State.LOST and self._lost_looks < LOST_LOOKS:
            return
        self._ended = True
        what = "the file has ended" if state is State.ENDED else "the microphone went away"
        self._send("ended", reason=state.value, message=what)

    def _counts(self) -> dict[str, Any]:
        return {
            "frames": self._files.frames,
            "spool_frames": self._files.spool_frames,
            "lost_frames": self._source.ring.lost_frames,
        }

    def _sync_until_stopped(self) -> None:
        last_touch_s = time.monotonic()
        while not self._stop.wait(SYNC_S):
            try:
                self._files.sync()
                if time.monotonic() - last_touch_s >= TOUCH_S:
                    self._files.touch()
                    last_touch_s = time.monotonic()
            except OSError as error:
                # The writer's own errors decide; this is only said.
                self._send("disk", state="failing", message=f"cannot sync: {error.strerror}")
