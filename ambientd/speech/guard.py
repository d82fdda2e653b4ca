"""Judges a decode before it is published: speech models invent text where there is none.

Pure rules that know no language; the audio is kept whatever they say. The limits are those of the
reference implementation of Whisper, which were tuned with temperature fallback in mind; a loop is
decoded once more in a way that cannot loop.
"""

from __future__ import annotations

from enum import Enum

from ambientd.speech.engine import Decode

MAX_COMPRESSION = 2.4
MAX_NO_SPEECH = 0.6
MIN_MEAN_LOGPROB = -1.0


class Verdict(Enum):
    """What is to be done with a decode. The values of the rejections are their reasons."""

    ACCEPT = "accept"
    REDO = "redo"
    EMPTY = "empty"
    NO_SPEECH = "no_speech"
    LOOP = "loop"


def judge(decode: Decode, *, is_redo: bool) -> Verdict:
    """Return the verdict on a decode.

    Args:
        decode: what the engine made of the turn.
        is_redo: whether it was decoded for the second time, which is the last.
    """
    if not any(sign.isalnum() for sign in decode.text):
        return Verdict.EMPTY
    if decode.no_speech > MAX_NO_SPEECH and decode.mean_logprob < MIN_MEAN_LOGPROB:
        return Verdict.NO_SPEECH
    if decode.compression > MAX_COMPRESSION:
        return Verdict.LOOP if is_redo else Verdict.REDO
    return Verdict.ACCEPT
