"""`python -m ambientd.audio.respool WAV SPOOL FROM_MS`: makes a spool anew from a recording.

What a crash left of a spool may be shorter than the recording. Made from FROM_MS on, sparse before
it and where the recording is, in bounded memory: a night without a device costs no time and no
room. Prints ``{"spool_frames": n, "holes": [[start_ms, end_ms], ...]}``.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ambientd import units
from ambientd.audio import wav
from ambientd.audio.resample import Resampler

READ_FRAMES = 1 << 16


def respool(recording: Path, spool: Path, from_ms: int) -> tuple[int, list[tuple[int, int]]]:
    """Write the spool.

    Args:
        recording: a mono 16-bit WAV whose header is in order.
        spool: where the 16 kHz samples go; replaced if it is there.
        from_ms: track time before which nothing will be read.

    Returns:
        The spool's length in frames, and where it has nothing behind FROM_MS, as
        (start_ms, end_ms); holes shorter than a second are not told.
    """
    import soundfile

    holes = []
    spool.unlink(missing_ok=True)
    fd = os.open(spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as out, soundfile.SoundFile(recording) as sound:
        rate_hz = sound.samplerate
        from_s = heard_s = min(from_ms // 1000, sound.frames // rate_hz)
        for start_s, end_s in _stretches(recording, from_s, rate_hz * units.SAMPLE_BYTES):
            if start_s > heard_s:
                holes.append((heard_s * 1000, start_s * 1000))
            heard_s = end_s
            resampler = Resampler(rate_hz, units.SPOOL_RATE_HZ)
            sound.seek(start_s * rate_hz)
            out.seek(start_s * units.SPOOL_RATE_HZ * units.SAMPLE_BYTES)
            end = min(end_s * rate_hz, sound.frames)
            while (left := end - sound.tell()) > 0:
                samples = sound.read(min(left, READ_FRAMES), dtype="int16")
                out.write(resampler.process(samples.tobytes()))
            out.write(resampler.finish())
        frames = int(sound.frames * units.SPOOL_RATE_HZ // rate_hz)
        out.truncate(frames * units.SAMPLE_BYTES)
    end_ms = units.frames_to_ms(frames, units.SPOOL_RATE_HZ)
    if end_ms > heard_s * 1000:
        holes.append((heard_s * 1000, end_ms))
    return frames, holes


def _stretches(recording: Path, from_s: int, second_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield where the file is no hole, as (start_s, end_s), apart and in order.

    Widened to whole seconds, so that a position is exact at every rate and a filter that rings has
    room; a header shorter than ours only widens them a little more. One may be empty, and the last
    may reach beyond the end.
    """
    fd = os.open(recording, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        start_s = end_s = from_s
        position = from_s * second_bytes
        while (data := _next_data(fd, position)) is not None:
            position = os.lseek(fd, data, os.SEEK_HOLE)
            next_s = max(from_s, (data - wav.DATA_OFFSET_BYTES) // second_bytes)
            if next_s > end_s:
                yield start_s, end_s
                start_s = next_s
            end_s = -(-position // second_bytes)
        yield start_s, end_s
    finally:
        os.close(fd)


def _next_data(fd: int, position: int) -> int | None:
    """Return where a file's next bytes are that are no hole (lseek(2)); None behind the last."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


if __name__ == "__main__":
    count, missing = respool(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps({"spool_frames": count, "holes": missing}) + "\n")
