"""What is no speech opens no turn: nothing is decoded, so nothing can be invented."""

from __future__ import annotations

import numpy
import pytest

from ambientd.speech.segmenter import Rules, Segmenter
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from tests.bench import sets

NOISES = {one.name: one.samples for one in sets.load("no-speech")}


@pytest.mark.parametrize("name", NOISES)
def test_no_turn_is_opened(name: str) -> None:
    samples = NOISES[name]
    vad, segmenter = Vad(), Segmenter(Rules())
    count = len(samples) // FRAME_SAMPLES
    frames = samples[: count * FRAME_SAMPLES].astype(numpy.float32) / 32768
    turns = [segmenter.push(vad.probability(frame)) for frame in frames.reshape(-1, FRAME_SAMPLES)]
    assert count > 10
    assert [turn for turn in turns if turn is not None] == []
    assert segmenter.finish(count * 32) is None
