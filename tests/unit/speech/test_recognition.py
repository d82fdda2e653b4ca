"""A turn is decoded as often as its text is in doubt, and no more."""

from __future__ import annotations

import numpy
import pytest

from ambientd.speech.engine import Decode, Effort
from ambientd.speech.guard import Verdict
from ambientd.speech.recognition import recognise

GOOD = Decode("Good morning.", "en", -0.2, 0.0, 4, False)
FITTED = Decode("Good morning.", "en", -0.2, 0.0, 4, True)
DOUBTFUL = Decode("Mm", "en", -1.2, 0.0, 1, True)
NOISE = Decode("Mm", "en", -1.2, 0.9, 1, False)
LOOP = Decode("Yes yes. " * 30, "en", -0.2, 0.0, 90, False)


class Scripted:
    """An engine that says what it is told to, by effort."""

    def __init__(self, script: dict[Effort, Decode]) -> None:
        self.asked: list[Effort] = []
        self._script = script

    def load(self) -> None: ...

    def unload(self) -> None: ...

    def decode(self, samples: numpy.ndarray, effort: Effort) -> Decode:
        self.asked.append(effort)
        return self._script[effort]


@pytest.mark.parametrize(
    ("script", "verdict", "text"),
    [
        ({Effort.FITTED: FITTED}, Verdict.ACCEPT, FITTED.text),
        ({Effort.FITTED: DOUBTFUL, Effort.WHOLE: GOOD}, Verdict.ACCEPT, GOOD.text),
        ({Effort.FITTED: DOUBTFUL, Effort.WHOLE: NOISE}, Verdict.NO_SPEECH, NOISE.text),
        (
            {Effort.FITTED: DOUBTFUL, Effort.WHOLE: LOOP, Effort.LOOPLESS: GOOD},
            Verdict.ACCEPT,
            GOOD.text,
        ),
        (
            {Effort.FITTED: DOUBTFUL, Effort.WHOLE: LOOP, Effort.LOOPLESS: LOOP},
            Verdict.LOOP,
            LOOP.text,
        ),
    ],
)
def test_the_verdict_is_on_the_last_decode_that_was_needed(
    script: dict[Effort, Decode], verdict: Verdict, text: str
) -> None:
    engine = Scripted(script)
    made = recognise(engine, numpy.zeros(32_000, dtype=numpy.float32))
    assert (made.verdict, made.decode.text) == (verdict, text)
    assert engine.asked == list(script)
    assert made.decodes == len(script)
