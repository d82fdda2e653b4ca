"""From a turn's samples to a text and the verdict on it: decode, judge, decode again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from ambientd import units
from ambientd.speech import guard
from ambientd.speech.engine import Decode, Effort, Engine
from ambientd.speech.guard import Verdict


@dataclass(frozen=True, slots=True)
class Recognition:
    """What came of a turn.

    Attributes:
        decode: the last decode, the one that was judged.
        verdict: ``ACCEPT``, or why its text is not to be published.
        decodes: how many were made.
    """

    decode: Decode
    verdict: Verdict
    decodes: int


def recognise(engine: Engine, samples: numpy.ndarray, *, once: bool = False) -> Recognition:
    """Decode a turn until there is a verdict on it: three times at most.

    Args:
        engine: an engine with its model loaded.
        samples: the turn, mono float32 in -1..1 at 16 kHz.
        once: leave it at the first decode, even if that is in doubt.
    """
    duration_s = len(samples) / units.SPOOL_RATE_HZ
    effort = Effort.FITTED
    decodes = 1
    while True:
        decode = engine.decode(samples, effort)
        verdict = guard.judge(decode, effort, duration_s)
        if once or verdict not in guard.NEXT_EFFORT:
            return Recognition(decode, verdict, decodes)
        effort = guard.NEXT_EFFORT[verdict]
        decodes += 1
