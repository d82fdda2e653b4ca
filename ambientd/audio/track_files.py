"""The two files of a track while it is captured, kept at the same position in time.

Every write goes to a known offset, and an offset moves only by what was written: after a failure
the same call can be made again, and no block is written twice or by half.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from ambientd.audio import wav
from ambientd.audio.resample import Resampler
from ambientd.store import layout
from ambientd.units import SAMPLE_BYTES, SPOOL_RATE_HZ, frames_to_ms

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_REOPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

_FILL_FRAMES = 1 << 16


class TrackFiles:
    """A native WAV and, if wanted, the 16 kHz spool. Build it with ``create`` or ``reopen``.

    ``add``, ``add_hole`` and ``finish`` only queue; ``flush`` writes what is queued. Frames that
    are added are the device's. A device whose rate is not the file's is converted.

    Attributes:
        rate_hz: the native file's rate.
        device_rate_hz: the device's rate.
        start_frames: position of the device's first frame in the native file.
        queued_frames: native frames added, holes included, those it held included.
    """

    def __init__(
        self, native: _Sink, spool: _Sink | None, rate_hz: int, device_rate_hz: int
    ) -> None:
        self.rate_hz = rate_hz
        self.device_rate_hz = device_rate_hz
        self._native = native
        self._spool = spool
        self.start_frames = self.queued_frames = self.frames
        self._device_frames = 0
        self._start_resampling()

    @classmethod
    def create(cls, folder_fd: int, track: str, rate_hz: int, *, spool: bool) -> TrackFiles:
        """Create the files of a new track.

        Args:
            folder_fd: the session's opened audio folder.
            track: the track's name.
            rate_hz: the device's rate.
            spool: whether to write the spool.

        Raises:
            OSError: a file cannot be created; none is left behind.
        """
        with contextlib.ExitStack() as undo:
            native = _open(folder_fd, layout.native_wav(track), _CREATE, wav.DATA_OFFSET_BYTES)
            undo.callback(_discard, native, folder_fd, layout.native_wav(track))
            _hold(native)
            spool_sink = None
            if spool:
                spool_sink = _open(folder_fd, layout.spool(track), _CREATE, 0)
                undo.callback(_discard, spool_sink, folder_fd, layout.spool(track))
            files = cls(native, spool_sink, rate_hz, rate_hz)
            files.patch_header()
            undo.pop_all()
        return files

    @classmethod
    def reopen(cls, folder_fd: int, track: str, device_rate_hz: int, *, spool: bool) -> TrackFiles:
        """Go on with the files that a capture before this one left.

        What it left may be torn: the native file is cut to whole frames, and a spool that is
        behind is made good from it.

        Args:
            folder_fd: as for ``create``.
            track: as for ``create``.
            device_rate_hz: rate of the device that goes on.
            spool: as for ``create``.

        Raises:
            OSError: the files cannot be opened, or the capture before this one still has them.
        """
        with contextlib.ExitStack() as undo:
            native = _open(folder_fd, layout.native_wav(track), _REOPEN, wav.DATA_OFFSET_BYTES)
            undo.callback(native.close)
            _hold(native)
            try:
                rate_hz, frames = wav.measure(native.fd)
            except ValueError as error:
                raise OSError(errno.EINVAL, str(error)) from None
            native.cut(wav.DATA_OFFSET_BYTES + frames * SAMPLE_BYTES)
            spool_sink = None
            if spool:
                spool_sink = _open(folder_fd, layout.spool(track), _REOPEN | os.O_CREAT, 0)
                undo.callback(spool_sink.close)
                _make_good(spool_sink, native, rate_hz, frames)
            files = cls(native, spool_sink, rate_hz, device_rate_hz)
            undo.pop_all()
        return files

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

    def start_after(self, frames: int) -> None:
        """Queue a hole of so many native frames before the first frame of the device."""
        self.start_frames = self.queued_frames + frames
        self.add_hole(0)

    def add(self, samples: bytes) -> None:
        """Queue a block."""
        self._device_frames += len(samples) // SAMPLE_BYTES
        self._add_native(self._converter.process(samples))

    def add_hole(self, frames: int) -> None:
        """Queue a stretch without audio: zeros that take no room."""
        self._end_resampling()
        self._device_frames += frames
        self.queued_frames = self._target()
        self._native.skip_to(wav.DATA_OFFSET_BYTES + self.queued_frames * SAMPLE_BYTES)
        if self._spool is not None:
            self._spool.skip_to(self._spool_bytes(self.queued_frames))
        self._start_resampling()

    def finish(self) -> None:
        """Queue what the resamplers still hold; nothing may be added after it."""
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
        """Forget what is still queued, and end both files at the same whole frame.

        A spool that is a block behind ends with zeros, which take no room on a full disk.
        """
        self._native.cut(self._native.offset - self._native.offset % SAMPLE_BYTES)
        if self._spool is not None:
            self._spool.cut(self._spool_bytes(self.frames))

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

    def _add_native(self, samples: bytes) -> None:
        self.queued_frames += len(samples) // SAMPLE_BYTES
        self._native.add(samples)
        if self._spool is not None:
            self._spool.add(self._resampler.process(samples))

    def _start_resampling(self) -> None:
        self._converter = Resampler(self.device_rate_hz, self.rate_hz)
        self._resampler = Resampler(self.rate_hz, SPOOL_RATE_HZ)

    def _end_resampling(self) -> None:
        self._add_native(self._converter.finish())
        # A resampler may round one frame up.
        self.queued_frames = min(self.queued_frames, self._target())
        self._native.cut_queue_at(wav.DATA_OFFSET_BYTES + self.queued_frames * SAMPLE_BYTES)
        if self._spool is not None:
            self._spool.add(self._resampler.finish())
            self._spool.cut_queue_at(self._spool_bytes(self.queued_frames))

    def _target(self) -> int:
        return self.start_frames + self._device_frames * self.rate_hz // self.device_rate_hz

    def _spool_bytes(self, frames: int) -> int:
        return frames * SPOOL_RATE_HZ // self.rate_hz * SAMPLE_BYTES


class _Sink:
    """A file that is written at offsets of our own keeping."""

    def __init__(self, fd: int, offset: int) -> None:
        self.fd = fd
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
        """Drop queued bytes behind an offset."""
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

    def cut(self, offset: int) -> None:
        """Forget what is queued, and have the file end at an offset."""
        self._queue.clear()
        self.offset = self._end = offset
        os.ftruncate(self.fd, offset)

    def close(self) -> None:
        os.close(self.fd)


def _open(folder_fd: int, name: str, flags: int, offset: int) -> _Sink:
    return _Sink(os.open(name, flags, 0o600, dir_fd=folder_fd), offset)


def _hold(native: _Sink) -> None:
    """Lock the file for as long as it is open: recovery and a successor wait for that."""
    fcntl.flock(native.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _discard(sink: _Sink, folder_fd: int, name: str) -> None:
    sink.close()
    os.unlink(name, dir_fd=folder_fd)


def _make_good(spool: _Sink, native: _Sink, rate_hz: int, frames: int) -> None:
    """Make a spool as long as its native file, from the audio that it lacks."""
    wanted_bytes = frames * SPOOL_RATE_HZ // rate_hz * SAMPLE_BYTES
    have_bytes = min(os.fstat(spool.fd).st_size // SAMPLE_BYTES * SAMPLE_BYTES, wanted_bytes)
    spool.cut(have_bytes)
    if have_bytes == wanted_bytes:
        return
    # Whole seconds, so that the position is exact at every rate, and one for the filter to settle.
    start_s = max(0, have_bytes // (SPOOL_RATE_HZ * SAMPLE_BYTES) - 1)
    position = start_s * SPOOL_RATE_HZ * SAMPLE_BYTES
    resampler = Resampler(rate_hz, SPOOL_RATE_HZ)
    read_frames = start_s * rate_hz
    while read_frames < frames:
        count = min(_FILL_FRAMES, frames - read_frames)
        offset = wav.DATA_OFFSET_BYTES + read_frames * SAMPLE_BYTES
        made = resampler.process(os.pread(native.fd, count * SAMPLE_BYTES, offset))
        read_frames += count
        if read_frames == frames:
            made += resampler.finish()
        if position + len(made) > have_bytes:
            spool.add(made[max(0, have_bytes - position) :])
            spool.flush()
        position += len(made)
    spool.cut(wanted_bytes)
