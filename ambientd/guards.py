"""When a session ends although nobody ends it. Pure: clocks are the caller's.

A recording that was forgotten fills a disk and hears what nobody meant it to hear. How long it may
last is known from its start, and told a minute before the end.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

WARN_S = 60.0
"""So long before the end it is announced."""


ASKED = "asked"


class Limits(NamedTuple):
    """How long a session may last.

    Attributes:
        asked_s: length that a person asked for; None if no one did.
        max_s: the longest that any session may be.
        silence_s: how long nobody need speak; None if that is no reason to end.
        until: when the consent to it ends; None if only a person ends it.
    """

    asked_s: float | None = None
    max_s: float = float("inf")
    silence_s: float | None = None
    until: datetime.datetime | None = None


class End(NamedTuple):
    """When a session ends, as things are.

    Attributes:
        in_s: seconds until then; not above 0 when it is due.
        kind: ``asked``, ``max_length``, ``silence`` or ``consent_expired``.
        why: a sentence for people.
    """

    in_s: float
    kind: str
    why: str


def next_end(
    limits: Limits, elapsed_s: float, silent_s: float, now: datetime.datetime
) -> End | None:
    """Return the first end that is in sight.

    Args:
        limits: the session's limits.
        elapsed_s: how long it has lasted.
        silent_s: for how long nobody has spoken.
        now: the time.
    """
    ends = []
    if limits.asked_s is not None:
        ends.append(End(limits.asked_s - elapsed_s, ASKED, f"{limits.asked_s:g} s were asked for"))
    if limits.max_s != float("inf"):
        why = f"it lasted {_length(limits.max_s)}, the longest a session may be"
        ends.append(End(limits.max_s - elapsed_s, "max_length", why))
    if limits.silence_s is not None:
        why = f"nobody spoke for {_length(limits.silence_s)}"
        ends.append(End(limits.silence_s - silent_s, "silence", why))
    if limits.until is not None:
        left_s = (limits.until - now).total_seconds()
        ends.append(End(left_s, "consent_expired", "the consent to listen ended"))
    return min(ends, default=None)


def is_announced(end: End | None) -> bool:
    """Tell whether an end is near enough to be told; who asked for it needs no telling."""
    return end is not None and end.kind != ASKED and end.in_s <= WARN_S


def _length(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:g} h" if hours >= 1 else f"{seconds / 60:.3g} min"
