"""How loud it is: RMS and peak of the last moments, in dB of full scale."""

from __future__ import annotations

import math
from collections import deque

from ambientd.units import SILENCE_DBFS

FULL_SCALE = 32768.0


class Meter:
    """Keeps the level of the last blocks.

    Args:
        blocks: how many blocks to look back.

    Attributes:
        zero_frames: length of the run of exact zeros that the last block ends, or 0.
    """

    def __init__(self, blocks: int) -> None:
        self.zero_frames = 0
        self._seen: deque[tuple[float, int, int]] = deque(maxlen=blocks)

    def add(self, samples: bytes) -> None:
        """Take a block of int16 samples."""
        import numpy

        block = numpy.frombuffer(samples, dtype=numpy.int16).astype(numpy.float64)
        if len(block):
            peak = int(numpy.abs(block).max())
            self.zero_frames = 0 if peak else self.zero_frames + len(block)
            self._seen.append((float(numpy.dot(block, block)), len(block), peak))

    def read(self) -> tuple[float, float]:
        """Return RMS and peak in dBFS, rounded to a tenth; SILENCE_DBFS for digital zero."""
        frames = sum(count for _, count, _ in self._seen)
        energy = sum(power for power, _, _ in self._seen)
        rms = math.sqrt(energy / frames) if frames else 0.0
        peak = max((peak for _, _, peak in self._seen), default=0)
        return _dbfs(rms), _dbfs(float(peak))


def _dbfs(value: float) -> float:
    return round(20 * math.log10(value / FULL_SCALE), 1) if value > 0 else SILENCE_DBFS
