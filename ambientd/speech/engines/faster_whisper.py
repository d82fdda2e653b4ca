"""Whisper by faster-whisper (CTranslate2), int8 on the processor, never from the network."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ambientd import units
from ambientd.errors import ModelError
from ambientd.speech.engine import Decode, Effort, EngineSettings

WHOLE_WINDOW_S = 30.0
"""What Whisper's encoder was trained on: silence fills up what a turn leaves of it."""

MARGIN_S = 4.0
LEAST_WINDOW_S = 10.0
"""A fitted window is the turn and a margin of silence, and at least so long. Shorter ones make the
model loop or guess; docs/developing/measurements.md."""

_FRAMES_PER_S = 100

TOKENS_PER_S = 10
SPARE_TOKENS = 20
"""A fitted decode gets no more tokens than this: people speak at about half that rate, and a loop
would go on to the model's own limit."""


class FasterWhisper:
    """See ``ambientd.speech.engine.Engine``."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._model: Any = None

    def load(self) -> None:
        """Load the model from its folder."""
        import faster_whisper

        class FittingModel(faster_whisper.WhisperModel):  # type: ignore[misc]
            """Shows the encoder the first ``window_frames`` of what the library filled up to 30 s.

            Most of a turn's cost is that window.
            """

            window_frames = 0

            def encode(self, features: numpy.ndarray) -> Any:
                return super().encode(features[..., : self.window_frames])

        try:
            self._model = FittingModel(
                self._settings.model,
                device="cpu",
                compute_type="int8",
                cpu_threads=self._settings.threads,
                local_files_only=True,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ModelError(
                f"the speech model in {self._settings.model} does not load: {error}",
                "set speech.model to another one",
                code="model_broken",
            ) from None

    def unload(self) -> None:
        """Drop the model."""
        self._model = None

    def decode(self, samples: numpy.ndarray, effort: Effort) -> Decode:
        """Decode a turn in one pass.

        Temperature 0 and no thresholds: the library's own fallback ladder takes up to eleven
        seconds on noise, and what to make of a doubtful text is the guard's decision.
        """
        duration_s = len(samples) / units.SPOOL_RATE_HZ
        window_s = _fitted_window_s(duration_s) if effort is Effort.FITTED else WHOLE_WINDOW_S
        is_fitted = window_s < WHOLE_WINDOW_S
        self._model.window_frames = round(window_s * _FRAMES_PER_S)
        segments, info = self._model.transcribe(
            samples,
            language=self._language(),
            beam_size=self._settings.beam_size,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            max_new_tokens=int(TOKENS_PER_S * duration_s) + SPARE_TOKENS if is_fitted else None,
            no_repeat_ngram_size=3 if effort is Effort.LOOPLESS else 0,
            compression_ratio_threshold=None,
            log_prob_threshold=None,
            no_speech_threshold=None,
        )
        found = list(segments)
        tokens = sum(len(segment.tokens) for segment in found)
        return Decode(
            text="".join(segment.text for segment in found).strip(),
            language=info.language,
            mean_logprob=sum(one.avg_logprob * len(one.tokens) for one in found) / (tokens or 1),
            no_speech=max((segment.no_speech_prob for segment in found), default=1.0),
            tokens=tokens,
            is_fitted=is_fitted,
        )

    def _language(self) -> str | None:
        return self._settings.language if self._model.model.is_multilingual else "en"


def _fitted_window_s(duration_s: float) -> float:
    """Return a turn's window, in tenths of a second so that few lengths occur."""
    window_s = math.ceil((duration_s + MARGIN_S) * 10) / 10
    return min(max(window_s, LEAST_WINDOW_S), WHOLE_WINDOW_S)
