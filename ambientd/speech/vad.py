"""Streaming voice activity detection: Silero v6, in frames of 32 ms, with carried state.

The model file ships inside faster-whisper. It is run with onnxruntime directly, so that listening
to silence needs neither faster-whisper nor a speech model in memory.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy
from numpy.lib.stride_tricks import sliding_window_view

from ambientd.errors import ModelError

FRAME_SAMPLES = 512
"""What Silero takes at 16 kHz: the 32 ms of ``ambientd.speech.segmenter.FRAME_MS``."""

_CONTEXT_SAMPLES = 64
"""The end of the frame before, which the model wants in front."""

_STATE_SHAPE = (1, 1, 128)
_ASSET = "assets/silero_vad_v6.onnx"


class Vad:
    """One stream's voice detector."""

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # A frame takes 0.1 ms: more threads would only spin.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            str(_model_file()), providers=["CPUExecutionProvider"], sess_options=options
        )
        self.reset()

    def reset(self) -> None:
        """Forget what was heard: the next frame does not follow the last one."""
        self._hidden: Any = numpy.zeros(_STATE_SHAPE, dtype=numpy.float32)
        self._cell: Any = numpy.zeros(_STATE_SHAPE, dtype=numpy.float32)
        self._context = numpy.zeros(_CONTEXT_SAMPLES, dtype=numpy.float32)

    def probabilities(self, samples: numpy.ndarray) -> list[float]:
        """Return how likely each of the next frames holds a voice.

        What comes out is the same however the frames are dealt out over calls; eight in one call
        take half the processor time of one at a time.

        Args:
            samples: float32 in -1..1, FRAME_SAMPLES for each frame.
        """
        if not len(samples):
            return []
        heard = numpy.concatenate((self._context, samples))
        self._context = heard[-_CONTEXT_SAMPLES:]
        windows = sliding_window_view(heard, _CONTEXT_SAMPLES + FRAME_SAMPLES)[::FRAME_SAMPLES]
        speech, self._hidden, self._cell = self._session.run(
            None,
            {"input": numpy.ascontiguousarray(windows), "h": self._hidden, "c": self._cell},
        )
        return [0.0 if math.isnan(value) else value for value in speech.ravel().tolist()]


def _model_file() -> Path:
    spec = importlib.util.find_spec("faster_whisper")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / _ASSET
        if path.is_file():
            return path
    raise ModelError("the voice detector is missing", "reinstall faster-whisper 1.2 or newer")
