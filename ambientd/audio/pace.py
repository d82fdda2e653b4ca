"""Whether a device runs at the rate it was opened at, told from the frames that come. Pure.

A headset that begins a call may change its rate under an open stream. Nobody says so: there are
only more or fewer frames in a second, and what they hold sounds too low or too high.
"""

from __future__ import annotations

from collections import deque

from ambientd.audio.source import Anchor

LOOKS = 9
"""So many anchors make two windows; with a look each quarter of a second, of a second each."""

TOLERANCE = 0.04
"""Blocks that come late shift a window's pace by less. The nearest usual rates, 44.1 and 48 kHz,
are 8 % apart, and a device's crystal is off by less than 0.1 %."""


class Pace:
    """Compares the last two windows with a rate.

    A block that is late makes one window slow and the next one fast; only when both are off the
    same way has the rate changed.

    Args:
        rate_hz: the rate it should be.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._anchors: deque[Anchor] = deque(maxlen=LOOKS)

    def is_off(self, anchor: Anchor) -> bool:
        """Take where the stream is now and tell whether it runs at another rate."""
        self._anchors.append(anchor)
        if len(self._anchors) < LOOKS:
            return False
        first, middle, last = self._anchors[0], self._anchors[LOOKS // 2], self._anchors[-1]
        if not first.boot_ns < middle.boot_ns < last.boot_ns:
            return False
        before, after = self._deviation(first, middle), self._deviation(middle, last)
        return min(before, after) > TOLERANCE or max(before, after) < -TOLERANCE

    def _deviation(self, start: Anchor, end: Anchor) -> float:
        frames = end.position_frames - start.position_frames
        return frames * 1e9 / (end.boot_ns - start.boot_ns) / self._rate_hz - 1
