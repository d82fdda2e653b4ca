"""Which lines of the room are what the speakers played: the call, heard a second time. Pure.

Only transcript.md leaves them out. The log, and whoever reads it, keeps both.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ambientd.store.layout import CALL, ROOM
from ambientd.store.turns import Line

OVERLAP = 0.5
"""Of the shorter of two lines, so much time must be common to both."""

WORDS = 0.6
"""Of the words of the one with fewer, so many must be in the other one."""


def without_bleed(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without those of the room that repeat one of the call."""
    calls = sorted((one for one in lines if one.track == CALL), key=lambda one: one.start_ms)
    starts_ms = [call.start_ms for call in calls]
    longest_ms = max((call.end_ms - call.start_ms for call in calls), default=0)

    def is_bleed(line: Line) -> bool:
        first = bisect_left(starts_ms, line.start_ms - longest_ms)
        last = bisect_right(starts_ms, line.end_ms)
        return any(_repeats(line, call) for call in calls[first:last])

    return [line for line in lines if line.track != ROOM or not is_bleed(line)]


def _repeats(line: Line, call: Line) -> bool:
    common_ms = min(line.end_ms, call.end_ms) - max(line.start_ms, call.start_ms)
    shorter_ms = min(line.end_ms - line.start_ms, call.end_ms - call.start_ms)
    if shorter_ms <= 0 or common_ms < OVERLAP * shorter_ms:
        return False
    fewer, more = sorted((_words(line.text), _words(call.text)), key=len)
    known = set(more)
    found = sum(word in known for word in fewer)
    return bool(fewer) and found >= WORDS * len(fewer)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
