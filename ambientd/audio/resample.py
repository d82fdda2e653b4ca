"""From one rate to another, block by block with carried state."""

from __future__ import annotations

from typing import Any


class Resampler:
    """Turns a stream of int16 samples into one of another rate.

    Frame k of what comes out belongs to time k / to_hz of what went in; it comes up to 40 ms late,
    which ``finish`` makes good.

    Args:
        from_hz: rate of what goes in.
        to_hz: rate of what comes out.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self._stream: Any = None
        if from_hz != to_hz:
            import soxr

            self._stream = soxr.ResampleStream(from_hz, to_hz, 1, dtype="int16", quality="HQ")

    def process(self, samples: bytes) -> bytes:
        """Take a block and return what is ready."""
        return self._run(samples, last=False)

    def finish(self) -> bytes:
        """Return the rest; nothing may be processed after it."""
        return self._run(b"", last=True)

    def _run(self, samples: bytes, *, last: bool) -> bytes:
        if self._stream is None:
            return samples
        import numpy

        block = numpy.frombuffer(samples, dtype=numpy.int16)
        result: bytes = self._stream.resample_chunk(block, last=last).tobytes()
        return result
