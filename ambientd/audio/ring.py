"""The bounded buffer between whoever captures and the thread that writes.

The capturing side runs in an audio callback: it takes no lock and waits for nothing. When the ring
is full, a block is left out and its length is kept, so that every later position stays true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Hole(NamedTuple):
    """Frames that are not there.

    Attributes:
        frames: how many.
        reason: what ``Ring.full_reason`` was when the first of them came, or the producer's.
    """

    frames: int
    reason: str


class Ring:
    """One producer, one consumer.

    Each counter has a single writer and ``deque`` appends and pops are atomic, so neither side
    needs a lock.

    Attributes:
        position_frames: frames that came in, what was left out or skipped included.
        lost_frames: frames that came in and were left out.
        full_reason: why nobody takes anything, should the ring be full; the consumer sets it.
        origin_frames: position of the first frame that is to be recorded; the consumer sets it.
    """

    def __init__(self, capacity_frames: int) -> None:
        self.position_frames = 0
        self.lost_frames = 0
        self.full_reason = "overflow"
        self.origin_frames = 0
        self._capacity_frames = capacity_frames
        self._pushed_frames = 0
        self._taken_frames = 0
        self._pieces: deque[bytes | Hole] = deque()
        self._hole_frames = 0
        self._hole_reason = ""

    def has_room(self, frames: int) -> bool:
        """Tell whether a block of so many frames would be kept."""
        return self._pushed_frames - self._taken_frames + frames <= self._capacity_frames

    def push(self, block: bytes, frames: int) -> None:
        """Add a block of int16 samples; producer only."""
        self.position_frames += frames
        if not self.has_room(frames):
            if not self._hole_frames:
                self._hole_reason = self.full_reason
            self._hole_frames += frames
            self.lost_frames += frames
            return
        self.end_hole()
        self._pushed_frames += frames
        self._pieces.append(block)

    def skip(self, frames: int, reason: str) -> None:
        """Leave a hole for frames that never came in; producer only."""
        self.end_hole()
        self.position_frames += frames
        self._pieces.append(Hole(frames, reason))

    def end_hole(self) -> None:
        """Add the hole that has no block after it yet; producer, or after its last ``push``."""
        if self._hole_frames:
            self._pieces.append(Hole(self._hole_frames, self._hole_reason))
            self._hole_frames = 0

    def take(self) -> bytes | Hole | None:
        """Remove and return the oldest block or hole, None if there is none; consumer only."""
        try:
            piece = self._pieces.popleft()
        except IndexError:
            return None
        if isinstance(piece, bytes):
            self._taken_frames += len(piece) // 2
        return piece

    def put_back(self, pieces: Iterable[bytes | Hole]) -> None:
        """Have what was taken last be taken again, in the same order; consumer only."""
        for piece in reversed(list(pieces)):
            if isinstance(piece, bytes):
                self._taken_frames -= len(piece) // 2
            self._pieces.appendleft(piece)

    def is_empty(self) -> bool:
        """Tell whether there is nothing to take."""
        return not self._pieces
