"""What is heard while nothing is recorded: the last two seconds, in memory alone.

The frames go to the voice detector through a pipe. When a session begins, those two seconds become
the head of its files.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque

from ambientd import clock
from ambientd.audio.attention import Attention
from ambientd.audio.disk import Send
from ambientd.audio.level import Meter
from ambientd.audio.resample import Resampler
from ambientd.audio.ring import Hole
from ambientd.audio.source import BLOCK_MS, Instant, Source
from ambientd.units import SAMPLE_BYTES, SPOOL_RATE_HZ, frames_to_ms, ms_to_frames

KEEP_MS = 2000
STEP_S = 0.25
"""What is heard is taken and told so often: a session begins that much later at most, and with the
two seconds before it. Every step costs."""

STEPS_PER_REPORT = 2

PIPE_BYTES = 4096
"""A write of so much goes into a pipe whole or not at all (PIPE_BUF of Linux, pipe(7)); less than
that on other systems goes through by the same rule as long as samples are not cut: 512 is the
least, and 2 divides it."""


class Preroll:
    """Takes what a source delivers, from ``start`` until ``stop``.

    Args:
        source: an open source.
        send: sends an event to the daemon: ``level``, and what ``Attention`` says.
        ear_fd: the pipe to the voice detector, which gets int16 samples at 16 kHz. What it does not
            take in time it does not hear; nothing waits for it.
    """

    def __init__(self, source: Source, send: Send, ear_fd: int) -> None:
        self._source = source
        self._send = send
        self._ear_fd = ear_fd
        self._attention = Attention(source, send)
        self._meter = Meter(int(STEPS_PER_REPORT * STEP_S * 1000) // BLOCK_MS)
        self._resampler = Resampler(source.rate_hz, SPOOL_RATE_HZ)
        self._kept: deque[bytes | Hole] = deque()
        self._kept_frames = 0
        self._seen_frames = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preroll", daemon=True)
        os.set_blocking(ear_fd, False)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> Instant:
        """Listen no more, and leave what was kept to whoever records.

        Returns:
            When the first frame that was kept was heard.
        """
        self._stop.set()
        self._thread.join()
        ring, anchor = self._source.ring, self._source.anchor
        ring.origin_frames = self._seen_frames - self._kept_frames
        ring.put_back(self._kept)
        behind_frames = anchor.position_frames - ring.origin_frames
        boot_ns = anchor.boot_ns - behind_frames * 1_000_000_000 // self._source.rate_hz
        return Instant(time.time_ns() - (clock.boot_ns() - boot_ns), boot_ns)

    def _run(self) -> None:
        steps = 0
        while not self._stop.wait(STEP_S):
            steps += 1
            self._take()
            self._attention.look(0, may_end=True)
            if steps % STEPS_PER_REPORT == 0:
                self._report()

    def _take(self) -> None:
        keep_frames = ms_to_frames(KEEP_MS, self._source.rate_hz)
        while (piece := self._source.ring.take()) is not None:
            if isinstance(piece, Hole):
                # The machine slept: what was before it is of another time.
                self._seen_frames += piece.frames
                self._kept.clear()
                self._kept_frames = 0
                continue
            frames = len(piece) // SAMPLE_BYTES
            self._seen_frames += frames
            self._kept_frames += frames
            self._kept.append(piece)
            self._meter.add(piece)
            self._tell(self._resampler.process(piece))
            while self._kept_frames - len(self._kept[0]) // SAMPLE_BYTES >= keep_frames:
                self._kept_frames -= len(self._kept.popleft()) // SAMPLE_BYTES

    def _tell(self, samples: bytes) -> None:
        try:
            for start in range(0, len(samples), PIPE_BYTES):
                os.write(self._ear_fd, samples[start : start + PIPE_BYTES])
        except (BlockingIOError, BrokenPipeError):
            pass  # it hangs or is being replaced

    def _report(self) -> None:
        rms_dbfs, peak_dbfs = self._meter.read()
        zero_frames = self._meter.zero_frames if self._source.is_microphone else 0
        zero_ms = frames_to_ms(zero_frames, self._source.rate_hz)
        self._send("level", rms_dbfs=rms_dbfs, peak_dbfs=peak_dbfs, zero_ms=zero_ms)
