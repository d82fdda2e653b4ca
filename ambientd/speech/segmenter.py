"""Endpointing: from one voice probability a frame to turns. A pure state machine.

No clock, no audio, no I/O; times are track times in milliseconds. The thresholds follow Silero's
own segmentation (on, a lower off, a hangover before the end), the padding and the cut of long turns
are ours: padding gives the speech model the edges it guesses at otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAME_MS = 32

WARM_MS = 1000
"""How much the VAD hears before the position at which work goes on after a restart."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a turn starts, ends, and is cut.

    Attributes:
        on: probability at which speech starts.
        off: probability below which silence is counted.
        min_speech_ms: shorter speech makes no turn.
        end_silence_ms: the hangover: silence that ends a turn.
        pad_before_ms: audio kept before the speech.
        pad_after_ms: audio kept after it; at most the hangover, since nobody waits for it.
        max_turn_ms: longest turn with its padding.
    """

    on: float = 0.40
    off: float = 0.30
    min_speech_ms: int = 250
    end_silence_ms: int = 400
    pad_before_ms: int = 400
    pad_after_ms: int = 300
    max_turn_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch to be decoded, padding included."""

    start_ms: int
    end_ms: int


@dataclass(slots=True)
class _Speech:
    """An open turn.

    Attributes:
        voiced_ms: where its speech starts.
        turn_ms: where the turn starts, padding included.
        continues: it follows a cut, so it has no minimum length.
        probabilities: one a frame since ``turn_ms`` or since speech was seen, for the cut.
        first_ms: track time of the first of them.
        silent_ms: where its closing silence began, None while there is none.
    """

    voiced_ms: int
    turn_ms: int
    continues: bool
    probabilities: list[float]
    first_ms: int
    silent_ms: int | None = None


class Segmenter:
    """Turns probabilities into turns that never overlap and never go back.

    Args:
        rules: the rules.
        start_ms: track time of the first frame; no turn starts before it.
    """

    def __init__(self, rules: Rules, start_ms: int = 0) -> None:
        self._rules = rules
        self._position_ms = start_ms
        self._floor_ms = start_ms
        self._speech: _Speech | None = None

    @property
    def position_ms(self) -> int:
        """Track time up to which frames were taken."""
        return self._position_ms

    @property
    def settled_ms(self) -> int:
        """Track time up to which everything is in a turn that was returned, or is silence."""
        return self._position_ms if self._speech is None else self._speech.voiced_ms

    @property
    def open_turn(self) -> Turn | None:
        """The turn that is open as far as it was heard; None while nobody speaks."""
        speech = self._speech
        return None if speech is None else Turn(speech.turn_ms, self._position_ms)

    @property
    def is_speech(self) -> bool:
        """Whether a turn is open that is long enough to be one."""
        speech = self._speech
        if speech is None:
            return False
        voiced_end_ms = self._position_ms if speech.silent_ms is None else speech.silent_ms
        return voiced_end_ms - speech.voiced_ms >= self._rules.min_speech_ms

    def closing(self) -> tuple[Turn, int] | None:
        """Return the turn that will have ended if the present silence lasts, and its length so far.

        None while nobody speaks, or speech goes on, or not all of that turn was heard yet.
        """
        speech = self._speech
        if speech is None or speech.silent_ms is None:
            return None
        turn = self._turn(speech, speech.silent_ms, self._position_ms)
        silence_ms = self._position_ms - speech.silent_ms
        return None if turn is None or silence_ms < self._rules.pad_after_ms else (turn, silence_ms)

    def push(self, probability: float) -> Turn | None:
        """Take the next frame; return the turn that it ended, if it ended one."""
        frame_ms = self._position_ms
        self._position_ms += FRAME_MS
        speech = self._speech
        if speech is None:
            if probability >= self._rules.on:
                start_ms = max(self._floor_ms, frame_ms - self._rules.pad_before_ms)
                self._speech = _Speech(frame_ms, start_ms, False, [probability], frame_ms)
            return None
        speech.probabilities.append(probability)
        if probability >= self._rules.on:
            speech.silent_ms = None
        elif probability < self._rules.off and speech.silent_ms is None:
            speech.silent_ms = frame_ms
        if (
            speech.silent_ms is not None
            and self._position_ms - speech.silent_ms >= self._rules.end_silence_ms
        ):
            return self._end(speech, speech.silent_ms, self._position_ms)
        if self._position_ms + FRAME_MS - speech.turn_ms > self._rules.max_turn_ms:
            return self._cut(speech)
        return None

    def finish(self, end_ms: int) -> Turn | None:
        """End at the track's end, or at a hole; return the turn that was open, if any.

        Args:
            end_ms: where audio ends, in or at an edge of the last frame, which may have been filled
                up beyond it.
        """
        speech = self._speech
        turn = None
        if speech is not None:
            voiced_end_ms = end_ms if speech.silent_ms is None else speech.silent_ms
            turn = self._end(speech, voiced_end_ms, end_ms)
        self._position_ms = self._floor_ms = max(end_ms, self._floor_ms)
        return turn

    def skip_to(self, position_ms: int) -> None:
        """Go on behind a hole; ``finish`` comes first."""
        self._position_ms = self._floor_ms = max(position_ms, self._position_ms)

    def _end(self, speech: _Speech, voiced_end_ms: int, limit_ms: int) -> Turn | None:
        self._speech = None
        turn = self._turn(speech, voiced_end_ms, limit_ms)
        if turn is not None:
            self._floor_ms = turn.end_ms
        return turn

    def _turn(self, speech: _Speech, voiced_end_ms: int, limit_ms: int) -> Turn | None:
        spoken_ms = voiced_end_ms - speech.voiced_ms
        if spoken_ms <= 0 or (spoken_ms < self._rules.min_speech_ms and not speech.continues):
            return None
        return Turn(speech.turn_ms, min(voiced_end_ms + self._rules.pad_after_ms, limit_ms))

    def _cut(self, speech: _Speech) -> Turn:
        """Cut a turn that is too long at the least voiced frame of its last quarter."""
        quarter_ms = speech.turn_ms + self._rules.max_turn_ms * 3 // 4
        first = max(1, -(-(quarter_ms - speech.first_ms) // FRAME_MS))
        candidates = speech.probabilities[first:]
        index = first + candidates.index(min(candidates))
        cut_ms = speech.first_ms + index * FRAME_MS
        self._floor_ms = cut_ms
        silent_ms = speech.silent_ms
        if silent_ms is not None and silent_ms <= cut_ms:
            # Nothing was said since the cut, so nothing goes on.
            self._speech = None
        else:
            rest = speech.probabilities[index:]
            self._speech = _Speech(cut_ms, cut_ms, True, rest, cut_ms, silent_ms)
        return Turn(speech.turn_ms, cut_ms)
