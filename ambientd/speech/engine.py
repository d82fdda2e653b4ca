"""What a speech engine is: samples in, text and its measures out."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy

from ambientd.errors import ModelError


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an engine is set up.

    Attributes:
        model: folder of the model.
        threads: processor threads.
        language: two-letter code, or None to detect it.
        beam_size: beams of a decode.
    """

    model: str
    threads: int
    language: str | None
    beam_size: int


class Effort(Enum):
    """How much an engine puts into a decode."""

    FITTED = "fitted"
    """Over little more than the turn. Quick, and now and then wrong in ways that show."""

    WHOLE = "whole"
    """Over the whole window that the model was trained on."""

    LOOPLESS = "loopless"
    """The same, and no phrase can repeat; costs accuracy where people do repeat themselves."""


@dataclass(frozen=True, slots=True)
class Decode:
    """What an engine made of one turn.

    Attributes:
        text: what was said, without blanks around it.
        language: two-letter code.
        mean_logprob: mean log-probability of the tokens; 0 is certain.
        no_speech: probability that nobody spoke, 0..1.
        tokens: how many tokens the text has.
        is_fitted: it was made over less than the whole window.
    """

    text: str
    language: str
    mean_logprob: float
    no_speech: float
    tokens: int
    is_fitted: bool


class Engine(Protocol):
    """A speech engine. Its constructor takes EngineSettings and loads nothing."""

    def load(self) -> None:
        """Bring the model into memory.

        Raises:
            ModelError: it cannot be loaded.
        """
        ...

    def unload(self) -> None:
        """Drop the model from memory."""
        ...

    def decode(self, samples: numpy.ndarray, effort: Effort) -> Decode:
        """Turn samples into text.

        Args:
            samples: mono float32 in -1..1 at 16 kHz, at most 30 s.
            effort: how much to put into it.
        """
        ...


def create(import_path: str, settings: EngineSettings) -> Engine:
    """Make the engine named ``module:Class``.

    Raises:
        ModelError: there is no such engine.
    """
    module_name, _, class_name = import_path.partition(":")
    try:
        factory: Any = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(
            f"there is no speech engine {import_path}: {error}", "mend speech.engine"
        ) from None
    engine: Engine = factory(settings)
    return engine
