"""Early decode: a turn is decoded while the silence that will end it still runs. Pure.

A draft is of exactly the samples that the turn will have, so that it is its text when the silence
lasts, and of no use when the person goes on. It is begun as late as it can be finished in time, and
only while nothing is lost by it: nothing waits, and the last decodes had the processor they wanted.
"""

from __future__ import annotations

from typing import NamedTuple

from ambientd.speech.recognition import Recognition
from ambientd.speech.segmenter import Turn

FIRST_GUESS_MS = 300.0

WEIGHT = 0.3
"""Of the newest decode in what the next is expected to take."""

STARVED_RATIO = 1.5
"""A decode that took so many times its processor time was kept waiting by others. Work of the same
niceness on every core is not seen by this, and then a draft takes its share."""


class Draft(NamedTuple):
    """A turn that was decoded before it ended.

    Attributes:
        track: its track's name.
        turn: the turn as it was foretold.
        made: what came of it.
        decode_ms: how long that took.
    """

    track: str
    turn: Turn
    made: Recognition
    decode_ms: int


class Drafts:
    """Decides when to begin a draft, and keeps the last one of each track.

    Args:
        end_silence_ms: the silence that ends a turn.

    Attributes:
        is_starved: the last decode did not have the processor it wanted.
    """

    def __init__(self, end_silence_ms: int) -> None:
        self._end_silence_ms = end_silence_ms
        self._expected_ms = FIRST_GUESS_MS
        self.is_starved = False
        self._drafts: dict[str, Draft] = {}

    def is_due(self, track: str, closing: tuple[Turn, int] | None) -> bool:
        """Tell whether to begin a draft of a turn now.

        Args:
            track: its track's name.
            closing: the turn and the length of its silence so far, as ``Segmenter.closing`` has it.
        """
        if closing is None or self.is_starved:
            return False
        turn, silence_ms = closing
        draft = self._drafts.get(track)
        if draft is not None and draft.turn == turn:
            return False
        return silence_ms >= self._end_silence_ms - self._expected_ms

    def keep(self, draft: Draft) -> None:
        """Remember a draft; the one before it on its track is of no use any more."""
        self._drafts[draft.track] = draft

    def take(self, track: str, turn: Turn) -> Draft | None:
        """Return the draft of a turn that has ended, if it is the one that was kept."""
        draft = self._drafts.pop(track, None)
        return draft if draft is not None and draft.turn == turn else None

    def learn(self, wall_ms: float, processor_ms: float) -> None:
        """Take the measures of a decode, draft or not."""
        self._expected_ms += WEIGHT * (wall_ms - self._expected_ms)
        self.is_starved = wall_ms > STARVED_RATIO * processor_ms
