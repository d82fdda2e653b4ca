"""The text of a turn that is still being spoken: when to make it, and what of it stands. Pure.

Made only while somebody reads it. Two decodes in a row that begin with the same words agree on
them; what they agree on is shown as standing and is not taken back within a turn.
"""

from __future__ import annotations

from ambientd.speech.segmenter import Turn

LEAST_MS = 600
"""Of a turn before its first partial: less is guesswork."""

EVERY_MS = 600
"""Of new audio before the next."""

BUSY_SHARE = 2.0
"""The next is also put off by so many times what the last one took."""


class Partials:
    """The partial text of one track.

    Attributes:
        stable: the words that stand.
        text: all words, the stable ones first.
    """

    def __init__(self) -> None:
        self.stable = ""
        self.text = ""
        self._start_ms: int | None = None
        self._end_ms = 0
        self._next_ms = 0

    def is_due(self, turn: Turn | None) -> bool:
        """Tell whether to decode a turn that is open now."""
        if turn is None or turn.end_ms - turn.start_ms < LEAST_MS:
            return False
        return turn.start_ms != self._start_ms or turn.end_ms >= self._next_ms

    def take(self, turn: Turn, text: str, took_ms: float) -> None:
        """Take what a decode made of an open turn.

        Args:
            turn: the turn as far as it was heard.
            text: its words.
            took_ms: how long that took.
        """
        before = self.text.split() if turn.start_ms == self._start_ms else []
        stands = self.stable.split() if turn.start_ms == self._start_ms else []
        words = text.split()
        agreed = 0
        while agreed < min(len(before), len(words)) and before[agreed] == words[agreed]:
            agreed += 1
        if agreed > len(stands):
            stands = words[:agreed]
        self._start_ms = turn.start_ms
        self._next_ms = turn.end_ms + max(EVERY_MS, round(BUSY_SHARE * took_ms))
        self.stable = " ".join(stands)
        # What stands is shown even if this decode has other words for it.
        self.text = " ".join([*stands, *words[len(stands) :]])
