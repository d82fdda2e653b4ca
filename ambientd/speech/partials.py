"""The text of a turn that is still being spoken: when to make it, and what of it stands. Pure.

Made only while somebody reads it. Two decodes in a row that begin with the same words agree on
them; what they agree on is shown as standing and is not taken back within a turn.
"""

from __future__ import annotations

from ambientd.speech.segmenter import Turn

LEAST_MS = 600
"""Of a turn before its first partial: less is guesswork."""

EVERY_MS = 1000
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
        self._next_ms = 0

    def is_due(self, turn: Turn | None) -> bool:
        """Tell whether to decode a turn that is open now."""
        if turn is None or turn.end_ms - turn.start_ms < LEAST_MS:
            return False
        return turn.start_ms != self._start_ms or turn.end_ms >= self._next_ms

    def take(self, turn: Turn, text: str | None, took_ms: float) -> None:
        """Take what a decode made of an open turn.

        Args:
            turn: the turn as far as it was heard.
            text: its words; None if they are in doubt, and then what was shown of this turn stays.
            took_ms: how long that took.
        """
        if turn.start_ms != self._start_ms:
            self._start_ms = turn.start_ms
            self.stable = self.text = ""
        self._next_ms = turn.end_ms + max(EVERY_MS, round(BUSY_SHARE * took_ms))
        if text is None:
            return
        before, stands, words = self.text.split(), self.stable.split(), text.split()
        agreed = 0
        while agreed < min(len(before), len(words)) and before[agreed] == words[agreed]:
            agreed += 1
        if agreed > len(stands):
            stands = words[:agreed]
        self.stable = " ".join(stands)
        # What stands is shown even if this decode has other words for it.
        self.text = " ".join([*stands, *words[len(stands) :]])
