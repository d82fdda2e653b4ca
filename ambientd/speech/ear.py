"""The child that notices speech while nothing is recorded: `python -m ambientd.speech.ear`.

It hears the tracks through pipes, runs the voice detector and nothing else, keeps no audio, and
says when somebody speaks.

Order: ``configure``. Events: ``speech``, and where it is wanted ``voice``, four times a second: how
likely a voice was.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import deque
from typing import Any

import numpy

from ambientd.pipe import ParentPipe
from ambientd.speech.segmenter import Rules, Segmenter
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from ambientd.speech.worker import NICENESS
from ambientd.units import SAMPLE_BYTES

READ_BYTES = 1 << 16
FRAME_BYTES = FRAME_SAMPLES * SAMPLE_BYTES

_FULL_SCALE = 32768.0


VOICE_FRAMES = 8
"""In a ``voice`` event; a frame has 32 ms."""


class Ear:
    """Hears one track.

    Args:
        rules: the segmenter's rules: what is speech here is a turn there.

    Attributes:
        is_speech: whether somebody speaks.
        probabilities: how likely each frame held a voice, until somebody takes them out.
    """

    def __init__(self, rules: Rules) -> None:
        self._vad = Vad()
        self._segmenter = Segmenter(rules)
        self._unheard = b""
        self.is_speech = False
        self.probabilities: deque[float] = deque(maxlen=VOICE_FRAMES)

    def hear(self, samples: bytes) -> bool:
        """Take int16 samples at 16 kHz; tell whether somebody began to speak in them."""
        self._unheard += samples
        whole_bytes = len(self._unheard) // FRAME_BYTES * FRAME_BYTES
        frames, self._unheard = self._unheard[:whole_bytes], self._unheard[whole_bytes:]
        values = numpy.frombuffer(frames, dtype=numpy.int16).astype(numpy.float32)
        began = False
        for probability in self._vad.probabilities(values / _FULL_SCALE):
            self._segmenter.push(probability)
            self.probabilities.append(probability)
            began |= self._segmenter.is_speech and not self.is_speech
            self.is_speech = self._segmenter.is_speech
        return began


def listen(pipe: ParentPipe, order: dict[str, Any]) -> None:
    """Hear every track until its pipe closes."""
    tracks = {fd: (name, Ear(Rules(**order["vad"]))) for name, fd in order["tracks"].items()}
    while tracks:
        for fd in select.select(list(tracks), [], [])[0]:
            samples = os.read(fd, READ_BYTES)
            name, ear = tracks[fd]
            if not samples:
                del tracks[fd]
                continue
            if ear.hear(samples):
                pipe.send("speech", track=name)
            if order["tells_voice"] and len(ear.probabilities) == VOICE_FRAMES:
                voice = max(ear.probabilities)
                pipe.send("voice", track=name, probability=voice, is_speech=ear.is_speech)
                ear.probabilities.clear()


def main() -> None:
    """Hear until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    pipe = ParentPipe(patient=True)
    for order in pipe.orders():
        threading.Thread(target=listen, args=(pipe, order), daemon=True).start()


if __name__ == "__main__":
    main()
