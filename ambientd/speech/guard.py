"""Judges a decode before it is published: speech models invent text where there is none.

Pure rules that know no language; the audio is kept whatever they say. A decode over a fitted
window is never rejected, only doubted: its measures are shifted, those over the whole window tell.
"""

from __future__ import annotations

import zlib
from enum import Enum

from ambientd.speech.engine import Decode, Effort

LOOP_COMPRESSION = 2.4
"""The limit of the reference implementation of Whisper; see ``compression``."""

SHORT_PHRASE = 3
"""People say two or three words twice in a row, and more words hardly ever; a model says the whole
turn twice, most of all in short ones."""

MAX_NO_SPEECH = 0.5
MIN_MEAN_LOGPROB = -1.0
"""Either is enough to reject what was decoded over the whole window; how they were found is in
docs/developing/measurements.md."""

DOUBTFUL_COMPRESSION = 2.0
DOUBTFUL_MEAN_LOGPROB = -0.8
DOUBTFUL_NO_SPEECH = 0.5
DOUBTFUL_TOKENS_PER_S = 8.0
DOUBTFUL_TOKENS = 6


class Verdict(Enum):
    """What is to be done with a decode. The values of the rejections are their reasons."""

    ACCEPT = "accept"
    REDO_WHOLE = "redo whole"
    REDO_LOOPLESS = "redo loopless"
    EMPTY = "empty"
    NO_SPEECH = "no_speech"
    LOOP = "loop"


NEXT_EFFORT = {Verdict.REDO_WHOLE: Effort.WHOLE, Verdict.REDO_LOOPLESS: Effort.LOOPLESS}
"""With what effort a decode is done again."""


def judge(decode: Decode, effort: Effort, duration_s: float) -> Verdict:
    """Return the verdict on a decode.

    Args:
        decode: what the engine made of the turn.
        effort: the effort it was asked for.
        duration_s: length of the turn.
    """
    if decode.is_fitted:
        return Verdict.REDO_WHOLE if _is_doubtful(decode, duration_s) else Verdict.ACCEPT
    if not _has_words(decode):
        return Verdict.EMPTY
    if decode.no_speech > MAX_NO_SPEECH or decode.mean_logprob < MIN_MEAN_LOGPROB:
        return Verdict.NO_SPEECH
    if compression(decode.text) > LOOP_COMPRESSION:
        return Verdict.LOOP if effort is Effort.LOOPLESS else Verdict.REDO_LOOPLESS
    return Verdict.ACCEPT


def compression(text: str) -> float:
    """Return how many times smaller a text gets by compression; a loop compresses well.

    Each sign counts as one byte: in UTF-8 the lead bytes of many scripts repeat all by themselves.
    """
    numbers = {sign: number % 256 for number, sign in enumerate(dict.fromkeys(text))}
    data = bytes(numbers[sign] for sign in text)
    return len(data) / len(zlib.compress(data)) if data else 0.0


def repeats(text: str) -> bool:
    """Tell whether a phrase comes twice in a row, or three times if it has two or three words."""
    said = ["".join(filter(str.isalnum, word)) for word in text.lower().split()]
    for length in range(2, len(said) // 2 + 1):
        times = 3 if length <= SHORT_PHRASE else 2
        for start in range(len(said) - times * length + 1):
            phrase = said[start : start + length]
            if said[start : start + times * length] == phrase * times:
                return True
    return False


def _is_doubtful(decode: Decode, duration_s: float) -> bool:
    return (
        not _has_words(decode)
        or compression(decode.text) > DOUBTFUL_COMPRESSION
        or repeats(decode.text)
        or decode.mean_logprob < DOUBTFUL_MEAN_LOGPROB
        or decode.no_speech > DOUBTFUL_NO_SPEECH
        or decode.tokens > DOUBTFUL_TOKENS_PER_S * duration_s + DOUBTFUL_TOKENS
    )


def _has_words(decode: Decode) -> bool:
    return any(sign.isalnum() for sign in decode.text)
