"""The two files of a track while it is captured, kept at the same position in time.

Every write goes to a known offset, and an offset moves only by what was written: after a failure
the same call can be made again, and no block is written twice or by half.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from ambientd.audio import wav
from ambientd.audio.resample import Resampler
from ambientd.store import layout
from ambientd.units import SAMPLE_BYTES, SPOOL_RATE_HZ, frames_to_ms

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TrackFiles:
    """A native WAV and, if wanted, the 16 kHz spool.

    ``add``, ``add_hole`` and ``finish`` only queue; ``flush`` writes what is queued.

    Args:
        folder_fd: the session's opened audio folder.
        track: the track's name.
        rate_hz: the device's rate.
        spool: whether to write the spool.

    Attributes:
        queued_frames: native frames added, holes included.

    Raises:
        OSError: a file cannot be created; none is left behind.
    """

    def __init__(self, folder_fd: int, track: str, rate_hz: int, *, spool: bool) -> None:
        self.rate_hz = rate_hz
        self.queued_frames = 0
        self._spool: _Sink | None = None
        with contextlib.ExitStack() as undo:
            self._native = _Sink(folder_fd, layout.native_wav(track), wav.DATA_OFFSET_BYTES)
            undo.callback(self._native.discard, folder_fd)
            # Held for as long as the file is open: recovery waits for it.
            fcntl.flock(self._native.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if spool:
                self._spool = _Sink(folder_fd, layout.spool(track), 0)
                undo.callback(self._spool.discard, folder_fd)
            self._resampler = Resampler(rate_hz)
            self.patch_header()
            undo.pop_all()

    @property
    def frames(self) -> int:
        """Native frames written, holes included."""
        return (self._native.offset - wav.DATA_OFFSET_BYTES) // SAMPLE_BYTES

    @property
    def spool_frames(self) -> int:
        """Spool frames that are in the file and may be read."""
        return 0 if self._spool is None else self._spool.offset // SAMPLE_BYTES

    @property
    def queued_ms(self) -> int:
        """Track time up to which audio was added."""
        return frames_to_ms(self.queued_frames, self.rate_hz)

    def add(self, samples: bytes) -> None:
        """Queue a block."""
        self.queued_frames += len(samples) // SAMPLE_BYTES
        self._native.add(samples)
        if self._spool is not None:
            self._spool.add(self._resampler.process(samples))

    def add_hole(self, frames: int) -> None:
        """Queue a stretch without audio: zeros that take no room."""
        self._end_resampling()
        self.queued_frames += frames
        self._native.skip_to(wav.DATA_OFFSET_BYTES + self.queued_frames * SAMPLE_BYTES)
        if self._spool is not None:
            self._spool.skip_to(self._spool_target())
        self._resampler = Resampler(self.rate_hz)

    def finish(self) -> None:
        """Queue what the resampler still holds; nothing may be added after it."""
        self._end_resampling()

    def flush(self) -> None:
        """Write everything queued.

        Raises:
            OSError: the disk did not take it all; call again.
        """
        self._native.flush()
        if self._spool is not None:
            self._spool.flush()

    def give_up(self) -> None:
        """Forget what is still queued and cut both files back to whole frames."""
        for sink in self._sinks():
            sink.give_up()

    def patch_header(self) -> None:
        """Make the WAV's sizes those of what is written."""
        os.pwrite(self._native.fd, wav.header(self.rate_hz, self.frames * SAMPLE_BYTES), 0)

    def sync(self) -> None:
        """Wait until the disk has what is written; only ever called from a thread of its own."""
        for sink in self._sinks():
            os.fdatasync(sink.fd) if hasattr(os, "fdatasync") else os.fsync(sink.fd)

    def touch(self) -> None:
        """Show readers that the capture is open, also when nothing arrives."""
        os.utime(self._native.fd)

    def close(self) -> None:
        """Close both files."""
        for sink in self._sinks():
            sink.close()

    def _sinks(self) -> list[_Sink]:
        return [self._native] if self._spool is None else [self._native, self._spool]

    def _end_resampling(self) -> None:
        if self._spool is not None:
            self._spool.add(self._resampler.finish())
            self._spool.cut_queue_at(self._spool_target())

    def _spool_target(self) -> int:
        return self.queued_frames * SPOOL_RATE_HZ // self.rate_hz * SAMPLE_BYTES


class _Sink:
    """A file that is written at offsets of our own keeping."""

    def __init__(self, folder_fd: int, name: str, offset: int) -> None:
        self._name = name
        self.fd = os.open(name, _CREATE, 0o600, dir_fd=folder_fd)
        self.offset = offset
        self._queue: list[tuple[int, bytes]] = []
        self._end = offset

    def add(self, data: bytes) -> None:
        if data:
            self._queue.append((self._end, data))
            self._end += len(data)

    def skip_to(self, offset: int) -> None:
        self._end = max(self._end, offset)
        # An empty block marks the place, so that a file may end with a hole.
        self._queue.append((self._end, b""))

    def cut_queue_at(self, offset: int) -> None:
        """Drop queued bytes behind an offset: a resampler may round one frame up."""
        if self._end > offset and self._queue:
            start, data = self._queue[-1]
            self._queue[-1] = (start, data[: max(0, offset - start)])
            self._end = max(start, offset)

    def flush(self) -> None:
        while self._queue:
            start, data = self._queue[0]
            if not data:
                if os.fstat(self.fd).st_size < start:
                    os.ftruncate(self.fd, start)
                self.offset = max(self.offset, start)
            else:
                written = os.pwrite(self.fd, data, start)
                self.offset = start + written
                if written < len(data):
                    self._queue[0] = (start + written, data[written:])
                    continue
            del self._queue[0]

    def give_up(self) -> None:
        self._queue.clear()
        self.offset -= self.offset % SAMPLE_BYTES
        self._end = self.offset
        os.ftruncate(self.fd, self.offset)

    def close(self) -> None:
        os.close(self.fd)

    def discard(self, folder_fd: int) -> None:
        self.close()
        os.unlink(self._name, dir_fd=folder_fd)
