"""One track in the worker: reads the spool by offset, runs the VAD, and finds the turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy

from ambientd import units
from ambientd.errors import StoreError, may_pass
from ambientd.speech.segmenter import WARM_MS, Rules, Segmenter, Turn
from ambientd.speech.vad import FRAME_SAMPLES, Vad

SLICE_FRAMES = 16 * FRAME_SAMPLES
"""Read at once: half a second."""

READ_PATIENCE_S = 30.0
"""Less than a worker is given that makes no progress."""

READ_AGAIN_S = 0.5

_FULL_SCALE = 32768.0

Params = ParamSpec("Params")
Value = TypeVar("Value")


class Listener:
    """Follows one track.

    Args:
        name: the track's name.
        spool: path of the 16 kHz file.
        from_ms: where to go on; no turn starts before it.
        rules: the segmenter's rules.

    Raises:
        StoreError: the spool cannot be opened (``spool_unreadable``).

    Attributes:
        name: the track's name.
        frames: spool frames that may be read.
        finished: no more will come.
        reported_ms: the position that the daemon knows.
        drained_said: whether the daemon knows that this track is through.
    """

    def __init__(self, name: str, spool: str, from_ms: int, rules: Rules) -> None:
        self.name = name
        self.frames = 0
        self.finished = False
        self.reported_ms = from_ms
        self.drained_said = False
        self._spool = spool
        self._fd = self._patiently(os.open, spool, os.O_RDONLY | os.O_CLOEXEC)
        self._vad = Vad()
        self._segmenter = Segmenter(rules, from_ms)
        self._next_frame = units.ms_to_frames(from_ms, units.SPOOL_RATE_HZ)
        self._cold = True
        self._holes: list[tuple[int, int]] = []
        self._ended = False
        self._from_ms = from_ms
        self._heard_frames = 0
        self._skipped_frames = 0

    @property
    def settled_ms(self) -> int:
        """Track time up to which everything is in a turn that was found, or is silence."""
        return self._segmenter.settled_ms

    @property
    def open_turn(self) -> Turn | None:
        """The turn that is open as far as it was heard; None while nobody speaks."""
        return self._segmenter.open_turn

    @property
    def closing(self) -> tuple[Turn, int] | None:
        """See ``Segmenter.closing``."""
        return self._segmenter.closing()

    @property
    def is_through(self) -> bool:
        """Whether the track is complete and everything of it was heard."""
        return self._ended

    def account(self) -> dict[str, int]:
        """Return what became of the track: ``from_ms`` + ``heard_ms`` + ``skipped_ms`` is its end.

        Speech and silence were heard, holes were skipped; nothing is counted twice or left out.
        """
        return {
            "from_ms": self._from_ms,
            "heard_ms": units.frames_to_ms(self._heard_frames, units.SPOOL_RATE_HZ),
            "skipped_ms": units.frames_to_ms(self._skipped_frames, units.SPOOL_RATE_HZ),
        }

    def add_hole(self, start_ms: int, end_ms: int) -> None:
        """Say that there is no audio between two times; what lies behind us does not matter.

        A hole without length is a place where the audio breaks off; what follows comes later.
        """
        if self._frame_at(end_ms) >= self._next_frame:
            self._holes.append((start_ms, end_ms))

    def has_work(self) -> bool:
        """Tell whether ``advance`` would do anything."""
        if self._ended:
            return False
        whole = self.frames - self._next_frame >= FRAME_SAMPLES
        return whole or self.finished or (bool(self._holes) and self._gap_is_next())

    def advance(self) -> list[Turn]:
        """Hear the next half second at most and return the turns that ended in it."""
        limit = self.frames
        if self._holes:
            limit = min(limit, self._frame_at(self._holes[0][0]))
        if self._cold:
            self._warm()
        available = limit - self._next_frame
        if available >= FRAME_SAMPLES:
            return self._hear(min(available, SLICE_FRAMES) // FRAME_SAMPLES)
        if self._holes and self._gap_is_next():
            return self._pass_hole(available)
        if self.finished:
            return self._end(available)
        return []

    def read(self, turn: Turn) -> numpy.ndarray:
        """Return a turn's samples, float32 in -1..1."""
        start = self._frame_at(turn.start_ms)
        return self._samples(start, self._frame_at(turn.end_ms) - start)

    def _hear(self, count: int) -> list[Turn]:
        samples = self._samples(self._next_frame, count * FRAME_SAMPLES)
        turns = []
        for probability in self._vad.probabilities(samples):
            turn = self._segmenter.push(probability)
            if turn is not None:
                turns.append(turn)
        self._next_frame += count * FRAME_SAMPLES
        self._heard_frames += count * FRAME_SAMPLES
        return turns

    def _hear_rest(self, available: int) -> list[Turn]:
        """Hear what is left before an end, less than a frame, and end the turn that is open."""
        end_ms = self._segmenter.position_ms + units.frames_to_ms(
            max(0, available), units.SPOOL_RATE_HZ
        )
        turns = []
        if available > 0:
            frame = numpy.zeros(FRAME_SAMPLES, dtype=numpy.float32)
            frame[:available] = self._samples(self._next_frame, available)
            turn = self._segmenter.push(*self._vad.probabilities(frame))
            if turn is not None:
                # The frame was filled up with zeros: the turn must not reach into them.
                turns.append(Turn(turn.start_ms, min(turn.end_ms, end_ms)))
            self._next_frame += available
            self._heard_frames += available
        last = self._segmenter.finish(end_ms)
        return turns if last is None else [*turns, last]

    def _pass_hole(self, available: int) -> list[Turn]:
        _, end_ms = self._holes.pop(0)
        turns = self._hear_rest(available)
        self._segmenter.skip_to(end_ms)
        end_frame = max(self._next_frame, self._frame_at(end_ms))
        self._skipped_frames += end_frame - self._next_frame
        self._next_frame = end_frame
        self._vad.reset()
        self._cold = False
        return turns

    def _end(self, available: int) -> list[Turn]:
        self._ended = True
        return self._hear_rest(available)

    def _gap_is_next(self) -> bool:
        gap_frame = self._frame_at(self._holes[0][0])
        return self.frames >= gap_frame and gap_frame - self._next_frame < FRAME_SAMPLES

    def _warm(self) -> None:
        """Let the VAD hear the second before a position at which it did not start."""
        self._cold = False
        count = (
            min(self._next_frame, units.ms_to_frames(WARM_MS, units.SPOOL_RATE_HZ)) // FRAME_SAMPLES
        )
        before = self._next_frame - count * FRAME_SAMPLES
        self._vad.probabilities(self._samples(before, count * FRAME_SAMPLES))

    def _samples(self, start: int, count: int) -> numpy.ndarray:
        size_bytes, offset_bytes = count * units.SAMPLE_BYTES, start * units.SAMPLE_BYTES
        data = self._patiently(os.pread, self._fd, size_bytes, offset_bytes)
        samples = numpy.zeros(count, dtype=numpy.float32)
        read = numpy.frombuffer(data[: len(data) // 2 * 2], dtype=numpy.int16)
        samples[: len(read)] = read.astype(numpy.float32) / _FULL_SCALE
        return samples

    def _patiently(
        self, call: Callable[Params, Value], *args: Params.args, **kwargs: Params.kwargs
    ) -> Value:
        """Read; what the disk does is not the turn's fault, and for a while it is waited for."""
        give_up_s = time.monotonic() + READ_PATIENCE_S
        while True:
            try:
                return call(*args, **kwargs)
            except OSError as error:
                if not may_pass(error) or time.monotonic() >= give_up_s:
                    raise StoreError(
                        f"cannot read {self._spool}: {error.strerror}",
                        "the recording beside it is whole and can be transcribed later",
                        code="spool_unreadable",
                    ) from None
            time.sleep(READ_AGAIN_S)

    @staticmethod
    def _frame_at(ms: int) -> int:
        return units.ms_to_frames(ms, units.SPOOL_RATE_HZ)
