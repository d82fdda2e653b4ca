"""Whisper by faster-whisper (CTranslate2), int8 on the processor, never from the network."""

from __future__ import annotations

from typing import Any

import numpy

from ambientd.errors import ModelError
from ambientd.speech.engine import Decode, EngineSettings


class FasterWhisper:
    """See ``ambientd.speech.engine.Engine``."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._model: Any = None

    def load(self) -> None:
        """Load the model from its folder."""
        import faster_whisper

        try:
            self._model = faster_whisper.WhisperModel(
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

    def decode(self, samples: numpy.ndarray, *, avoid_loops: bool) -> Decode:
        """Decode a turn in one pass.

        Temperature 0 and no thresholds: the library's own fallback ladder takes up to eleven
        seconds on noise, and what to make of a doubtful text is the guard's decision.
        """
        segments, info = self._model.transcribe(
            samples,
            language=self._language(),
            beam_size=self._settings.beam_size,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            no_repeat_ngram_size=3 if avoid_loops else 0,
            compression_ratio_threshold=None,
            log_prob_threshold=None,
            no_speech_threshold=None,
        )
        found = list(segments)
        tokens = sum(len(segment.tokens) for segment in found) or 1
        return Decode(
            text="".join(segment.text for segment in found).strip(),
            language=info.language,
            mean_logprob=sum(one.avg_logprob * len(one.tokens) for one in found) / tokens,
            no_speech=max((segment.no_speech_prob for segment in found), default=1.0),
            compression=max((segment.compression_ratio for segment in found), default=0.0),
        )

    def _language(self) -> str | None:
        return self._settings.language if self._model.model.is_multilingual else "en"
