"""A sound file as the microphone: the same blocks, the same ring, the same writer."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

from ambientd import clock
from ambientd.audio.ring import Ring
from ambientd.audio.source import BLOCK_MS, Anchor, Input, Instant, State
from ambientd.errors import CaptureError

RING_S = 30
FULL_PAUSE_S = 0.002
"""How long a reader at full speed waits for the writer before it looks again."""

MIN_RATE_HZ = 4_000
MAX_RATE_HZ = 384_000


class Replay:
    """A file as a source; see ``ambientd.audio.source.Source``.

    Args:
        path: anything libsndfile reads.
        speed: 1 is real time, 2 twice as fast; 0 is as fast as the writer takes it.
    """

    is_microphone = False

    def __init__(self, path: Path, speed: float) -> None:
        self.rate_hz = 0
        self.ring = Ring(0)
        self.anchor = Anchor(0, 0)
        self.overflows = 0
        self._path = path
        self._speed = speed
        self._file: Any = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._ended = False

    def open(self) -> Instant:
        """Open the file; it starts when a session begins."""
        import soundfile

        _check_readable(self._path)
        try:
            self._file = soundfile.SoundFile(self._path)
        except soundfile.LibsndfileError as error:
            raise _bad(self._path, error.error_string.rstrip(".").lower()) from None
        rate_hz = self._file.samplerate
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise _bad(self._path, f"cannot use a rate of {rate_hz} Hz")
        if self._file.frames == 0:
            raise _bad(self._path, "it holds no audio")
        self.rate_hz = rate_hz
        self.ring = Ring(RING_S * rate_hz)
        now = Instant(time.time_ns(), clock.boot_ns())
        self.anchor = Anchor(0, now.boot_ns)
        return now

    def begin(self, position_frames: int) -> None:
        """Start playing, where the file and the track are at the same position."""
        self._file.seek(min(position_frames, self._file.frames))
        self._thread = threading.Thread(target=self._play, name="replay", daemon=True)
        self._thread.start()

    def state(self) -> State:
        """Tell whether the file has been played."""
        return State.ENDED if self._ended else State.ALIVE

    def input(self) -> Input:
        """Tell what it is."""
        return Input(self._path.name)

    def close(self) -> None:
        """Stop playing."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._file is not None:
            self._file.close()

    def _play(self) -> None:
        try:
            self._play_to_the_end()
        finally:
            # Also when the file turns out to be broken in the middle.
            self._ended = True

    def _play_to_the_end(self) -> None:
        block_frames = self.rate_hz * BLOCK_MS // 1000
        start_s = time.monotonic()
        played = 0
        while not self._closing.is_set():
            samples = self._file.read(block_frames, dtype="int16", always_2d=True)
            frames = len(samples)
            if frames == 0:
                break
            mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1).astype("int16")
            played += frames
            if self._speed:
                # A block is delivered when its last frame has been "heard".
                self._closing.wait(start_s + played / self.rate_hz / self._speed - time.monotonic())
            else:
                while not self.ring.has_room(frames) and not self._closing.wait(FULL_PAUSE_S):
                    pass
            self.ring.push(mono.tobytes(), frames)
            self.anchor = Anchor(self.ring.position_frames, clock.boot_ns())


def _check_readable(path: Path) -> None:
    # libsndfile says "system error" to everything, and waits for ever for a pipe's writer.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _bad(path, (error.strerror or "it cannot be opened").lower()) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _bad(path, "it is not a regular file")
    finally:
        os.close(fd)


def _bad(path: Path, reason: str) -> CaptureError:
    return CaptureError(
        f"cannot play {path}: {reason}", "give a WAV, FLAC, OGG or MP3 file", code="bad_source"
    )
