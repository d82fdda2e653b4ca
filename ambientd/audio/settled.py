"""A value that is told only once it has stood for a while. Pure: the clock is the caller's."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Settled(Generic[Value]):
    """Debounces a value that changes several times before it stays.

    Args:
        value: what is known already.
        settles_s: how long a new one must stand.
    """

    def __init__(self, value: Value, settles_s: float) -> None:
        self._told = self._seen = value
        self._since_s = 0.0
        self._settles_s = settles_s

    def see(self, value: Value, now_s: float) -> Value | None:
        """Take the value as it is now; return it if it is new and has settled."""
        if value != self._seen:
            self._seen, self._since_s = value, now_s
        if value == self._told or now_s - self._since_s < self._settles_s:
            return None
        self._told = value
        return value
