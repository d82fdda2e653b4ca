"""What is no speech opens no turn: nothing is decoded, so nothing can be invented."""

from __future__ import annotations

import numpy
import pytest

from ambientd.speech import models
from ambientd.speech.engine import EngineSettings
from ambientd.speech.engines import faster_whisper
from ambientd.speech.engines.faster_whisper import FasterWhisper
from ambientd.speech.guard import Verdict
from ambientd.speech.recognition import recognise
from ambientd.speech.segmenter import Rules, Segmenter
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from tests.bench import sets

WINDOW_S = (2, 6)

NOISES = {one.name: one.samples for one in sets.load("no-speech")}


@pytest.mark.parametrize("name", NOISES)
def test_no_turn_is_opened(name: str) -> None:
    samples = NOISES[name]
    vad, segmenter = Vad(), Segmenter(Rules())
    count = len(samples) // FRAME_SAMPLES
    frames = samples[: count * FRAME_SAMPLES].astype(numpy.float32) / 32768
    turns = [segmenter.push(probability) for probability in vad.probabilities(frames)]
    assert count > 10
    assert [turn for turn in turns if turn is not None] == []
    assert segmenter.finish(count * 32) is None


def test_what_is_forced_through_the_model_is_rejected() -> None:
    """No turn opens there by itself; this is what the guard is for if one ever does."""
    settings = EngineSettings(str(models.packaged_folder()), 1, None, 5)
    engine = FasterWhisper(settings)
    engine.load()
    verdicts = []
    for name in ("zeros", "white -30 dBFS", "clicks", "music"):
        for window_s in WINDOW_S:
            samples = NOISES[name][16_000 : 16_000 * (1 + window_s)].astype(numpy.float32) / 32768
            verdicts.append(recognise(engine, samples).verdict)
    assert Verdict.ACCEPT not in verdicts
    assert len(verdicts) == 8


@pytest.mark.parametrize(
    ("duration_s", "window_s"), [(0.5, 10.0), (6.0, 10.0), (6.01, 10.1), (20.0, 24.0), (29.0, 30.0)]
)
def test_a_window_is_the_turn_and_a_margin_within_the_models_limits(
    duration_s: float, window_s: float
) -> None:
    assert faster_whisper._fitted_window_s(duration_s) == window_s
