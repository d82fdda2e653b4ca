"""The growing WAV file: a header of our own whose sizes are patched in place.

Layout: RIFF, JUNK(28), fmt (16), data. When the file passes 4 GiB the reserved JUNK becomes ds64
and RIFF becomes RF64 (EBU Tech 3306), in place. Whoever reads the file at any moment finds the
sizes of a second ago. Standard library only, because recovery runs in the daemon.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from ambientd.errors import StoreError, WriteError
from ambientd.units import SAMPLE_BYTES, frames_to_ms

DATA_OFFSET_BYTES = 80
"""Where the samples begin: RIFF 12 + JUNK 36 + fmt 24 + data 8."""

_MAX_32_BITS = 0xFFFFFFFF
_JUNK_BYTES = 28


class Length(NamedTuple):
    """How long a file is."""

    rate_hz: int
    frames: int

    @property
    def ms(self) -> int:
        """The same as time."""
        return frames_to_ms(self.frames, self.rate_hz)


def header(rate_hz: int, data_bytes: int) -> bytes:
    """Return the first DATA_OFFSET_BYTES of a mono 16-bit file.

    Args:
        rate_hz: sample rate.
        data_bytes: length of the samples.
    """
    riff_bytes = DATA_OFFSET_BYTES - 8 + data_bytes
    fmt = struct.pack(
        "<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, rate_hz * SAMPLE_BYTES, SAMPLE_BYTES, 16
    )
    if riff_bytes <= _MAX_32_BITS:
        riff = struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE")
        spare = struct.pack("<4sI28x", b"JUNK", _JUNK_BYTES)
        data = struct.pack("<4sI", b"data", data_bytes)
    else:
        riff = struct.pack("<4sI4s", b"RF64", _MAX_32_BITS, b"WAVE")
        frames = data_bytes // SAMPLE_BYTES
        spare = struct.pack("<4sIQQQI", b"ds64", _JUNK_BYTES, riff_bytes, data_bytes, frames, 0)
        data = struct.pack("<4sI", b"data", _MAX_32_BITS)
    return riff + spare + fmt + data


def repair(path: Path, *, extend_to_frames: int = 0) -> Length:
    """Make a file of ours that was not closed playable: sizes by its length, whole frames only.

    Args:
        path: the file; links are not followed.
        extend_to_frames: if it is shorter, it ends with a hole up to here.

    Returns:
        How long it is then.

    Raises:
        StoreError: it cannot be opened or is no capture of ours.
        WriteError: the disk did not take it.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"cannot repair {path}: {error.strerror}") from error
    try:
        rate_hz, frames = measure(fd)
        frames = max(frames, extend_to_frames)
        data_bytes = frames * SAMPLE_BYTES
        os.ftruncate(fd, DATA_OFFSET_BYTES + data_bytes)
        os.pwrite(fd, header(rate_hz, data_bytes), 0)
        os.fsync(fd)
    except ValueError as error:
        raise StoreError(f"cannot repair {path}: {error}") from None
    except OSError as error:
        raise WriteError(path.name, error) from error
    finally:
        os.close(fd)
    return Length(rate_hz, frames)


def measure(fd: int) -> Length:
    """Return the rate of a file of ours, and how many whole frames it holds by its length.

    Raises:
        ValueError: it is no file of ours.
        OSError: it cannot be read.
    """
    head = os.pread(fd, DATA_OFFSET_BYTES, 0)
    is_ours = head[:4] in (b"RIFF", b"RF64") and head[12:16] in (b"JUNK", b"ds64")
    if len(head) < DATA_OFFSET_BYTES or not is_ours:
        raise ValueError("it has no header of ours")
    rate_hz = int(struct.unpack_from("<I", head, 60)[0])
    return Length(rate_hz, (os.fstat(fd).st_size - DATA_OFFSET_BYTES) // SAMPLE_BYTES)
