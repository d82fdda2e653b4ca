"""`python -m ambientd.audio.respool WAV SPOOL FROM_MS`: makes a spool anew from a recording.

What a crash left of a spool may be shorter than the recording. Made from FROM_MS on, sparse before
it, in bounded memory. Prints ``{"spool_frames": n}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ambientd import units
from ambientd.audio.resample import Resampler

READ_FRAMES = 1 << 16


def respool(recording: Path, spool: Path, from_ms: int) -> int:
    """Write the spool.

    Args:
        recording: a mono 16-bit WAV whose header is in order.
        spool: where the 16 kHz samples go; replaced if it is there.
        from_ms: track time before which nothing will be read.

    Returns:
        The spool's length in frames.
    """
    import soundfile

    spool.unlink(missing_ok=True)
    fd = os.open(spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as out, soundfile.SoundFile(recording) as wav:
        rate_hz = wav.samplerate
        resampler = Resampler(rate_hz, units.SPOOL_RATE_HZ)
        # Whole seconds, so that the position is exact at every rate.
        start_s = min(from_ms // 1000, wav.frames // rate_hz)
        wav.seek(start_s * rate_hz)
        out.seek(start_s * units.SPOOL_RATE_HZ * units.SAMPLE_BYTES)
        while len(samples := wav.read(READ_FRAMES, dtype="int16")):
            out.write(resampler.process(samples.tobytes()))
        out.write(resampler.finish())
        frames = int(wav.frames * units.SPOOL_RATE_HZ // rate_hz)
        out.truncate(frames * units.SAMPLE_BYTES)
    return frames


if __name__ == "__main__":
    count = respool(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps({"spool_frames": count}) + "\n")
