"""The transcriber child: `python -m ambientd.speech.worker`.

Reads the spools by offset, answers with turns, writes nothing to disk. One thread takes orders, one
listens (so that speech is noticed during a decode), and the main thread decodes. Until somebody
speaks only the voice detector is in memory; the speech model loads at the onset of speech and
leaves when nobody has spoken for a while.

Orders: ``configure``, ``track``, ``frames``, ``hole``, ``finish``. Events: ``ready``, ``model``,
``progress``, ``decoding``, ``turn``, ``rejected``, ``drained``, ``fault``.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

from ambientd.errors import AmbientError
from ambientd.pipe import ParentPipe
from ambientd.speech import engine, guard
from ambientd.speech.listener import Listener
from ambientd.speech.segmenter import Rules, Turn

NICENESS = 5
"""Capture and whatever the person is doing come first."""

PROGRESS_EVERY_S = 0.2


class Worker:
    """The child's state, shared by its threads under one condition."""

    def __init__(self, pipe: ParentPipe) -> None:
        self._pipe = pipe
        self._changed = threading.Condition()
        self._engine: engine.Engine | None = None
        self._rules = Rules()
        self._unload_after_s = 0.0
        self._tracks: dict[str, Listener] = {}
        self._waiting: list[tuple[int, str, Turn]] = []
        self._in_hand: tuple[str, Turn] | None = None
        self._loaded = False
        self._last_speech_s = time.monotonic()
        self._last_progress_s: dict[str, float] = {}
        self._unreported: dict[str, Listener] = {}
        self._heard: dict[str, tuple[int, bool]] = {}
        self._exit_code = 0

    def take_orders(self) -> None:
        """Obey orders until the daemon is gone, then end the process, even during a decode."""
        try:
            for order in self._pipe.orders():
                with self._changed:
                    self._take(order)
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - a thread's end must be the process's
            self.fail(error)
        os._exit(self._exit_code)

    def listen(self) -> None:
        """Run the voice detector over whatever audio there is; never returns."""
        try:
            while True:
                with self._changed:
                    # What was heard last is reported late, so that reports are few, not never.
                    patience_s = PROGRESS_EVERY_S if self._unreported else None
                    self._changed.wait_for(lambda: self._next_to_hear() is not None, patience_s)
                    track = self._next_to_hear()
                    if track is None:
                        for heard in list(self._unreported.values()):
                            self._report(heard, at_once=True)
                if track is not None:
                    self._hear(track)
        except Exception as error:  # noqa: BLE001 - a thread's end must be the process's
            self.fail(error)

    def decode(self) -> None:
        """Decode turns in the order in which they ended; never returns."""
        while True:
            with self._changed:
                self._changed.wait_for(self._has_engine_work, timeout=self._patience_s())
                load, turn = self._choose()
            if load:
                self._load()
            elif turn is not None:
                self._decode(*turn)
            elif self._loaded:
                self._unload_if_idle()

    def fail(self, error: Exception) -> None:
        """End the process; tell the daemon if it is of no use to start another.

        Anything but an error that a person can act on may be the fault of the turn in hand: the
        daemon counts what a turn costs, and skips it in the end.
        """
        # First, because a daemon that reads the fault closes the pipe, which ends the process too.
        self._exit_code = 1
        if isinstance(error, AmbientError):
            self._pipe.send_fault(error)
        else:
            traceback.print_exception(error)
        os._exit(self._exit_code)

    def _take(self, order: dict[str, Any]) -> None:
        kind = order["order"]
        if kind == "configure":
            self._rules = Rules(**order["vad"])
            self._unload_after_s = order["unload_after_s"]
            settings = engine.EngineSettings(
                order["model"], order["threads"], order["language"], order["beam_size"]
            )
            self._engine = engine.create(order["engine"], settings)
        elif kind == "track":
            name = order["track"]
            self._tracks[name] = Listener(name, order["spool"], order["from_ms"], self._rules)
            self._pipe.send("ready", track=name)
        elif kind == "frames":
            self._tracks[order["track"]].frames = order["frames"]
        elif kind == "hole":
            self._tracks[order["track"]].add_hole(order["start_ms"], order["end_ms"])
        elif kind == "finish":
            self._tracks[order["track"]].finished = True

    def _next_to_hear(self) -> Listener | None:
        ready = [track for track in self._tracks.values() if track.has_work()]
        return min(ready, key=lambda track: track.settled_ms, default=None)

    def _hear(self, track: Listener) -> None:
        turns = track.advance()
        with self._changed:
            # Together, so that nobody sees a position without the turns that lie before it.
            self._heard[track.name] = (track.settled_ms, track.is_through)
            for turn in turns:
                self._waiting.append((turn.end_ms, track.name, turn))
            if turns or track.in_speech:
                self._last_speech_s = time.monotonic()
                self._changed.notify_all()
            self._report(track, at_once=bool(turns))

    def _report(self, track: Listener, *, at_once: bool) -> None:
        """Say how far a track is; under the condition's lock, so that reports stay in order."""
        now_s = time.monotonic()
        settled_ms, is_through = self._heard.get(track.name, (0, False))
        is_drained = is_through and not self._owed(track.name)
        due = now_s - self._last_progress_s.get(track.name, 0.0) >= PROGRESS_EVERY_S
        if at_once or due or is_drained:
            self._last_progress_s[track.name] = now_s
            self._unreported.pop(track.name, None)
            # Never back: a turn's padding reaches into silence that was reported before.
            track.reported_ms = max(track.reported_ms, min([settled_ms, *self._owed(track.name)]))
            self._pipe.send(
                "progress",
                track=track.name,
                position_ms=track.reported_ms,
                speech=track.in_speech,
            )
        else:
            self._unreported[track.name] = track
        if is_drained and not track.drained_said:
            track.drained_said = True
            self._pipe.send("drained", track=track.name)

    def _owed(self, track: str) -> list[int]:
        """Return the starts of a track's turns that wait or are in hand."""
        starts = [turn.start_ms for _, name, turn in self._waiting if name == track]
        if self._in_hand is not None and self._in_hand[0] == track:
            starts.append(self._in_hand[1].start_ms)
        return starts

    def _wants_model(self) -> bool:
        return not self._loaded and (
            bool(self._waiting) or any(track.in_speech for track in self._tracks.values())
        )

    def _has_engine_work(self) -> bool:
        return bool(self._waiting) or self._wants_model()

    def _patience_s(self) -> float | None:
        if not self._loaded:
            return None
        return max(0.0, self._last_speech_s + self._unload_after_s - time.monotonic())

    def _choose(self) -> tuple[bool, tuple[Listener, Turn] | None]:
        if self._wants_model():
            return True, None
        if not self._waiting:
            return False, None
        _, name, turn = oldest = min(self._waiting, key=lambda waiting: waiting[0])
        self._waiting.remove(oldest)
        self._in_hand = (name, turn)
        return False, (self._tracks[name], turn)

    def _load(self) -> None:
        if self._engine is None:
            raise AssertionError("configure comes before any track")
        self._pipe.send("model", state="loading")
        start_s = time.monotonic()
        self._engine.load()
        self._loaded = True
        self._pipe.send("model", state="loaded", load_s=round(time.monotonic() - start_s, 3))

    def _unload_if_idle(self) -> None:
        if self._engine is None or time.monotonic() - self._last_speech_s < self._unload_after_s:
            return
        self._engine.unload()
        self._loaded = False
        gc.collect()
        _give_memory_back()
        self._pipe.send("model", state="unloaded")

    def _decode(self, track: Listener, turn: Turn) -> None:
        if self._engine is None:
            raise AssertionError("configure comes before any track")
        where = {"track": track.name, "start_ms": turn.start_ms, "end_ms": turn.end_ms}
        self._pipe.send("decoding", **where)
        start_s = time.monotonic()
        samples = track.read(turn)
        result = self._engine.decode(samples, avoid_loops=False)
        verdict = guard.judge(result, is_redo=False)
        if verdict is guard.Verdict.REDO:
            result = self._engine.decode(samples, avoid_loops=True)
            verdict = guard.judge(result, is_redo=True)
        decode_ms = round((time.monotonic() - start_s) * 1000)
        if verdict is guard.Verdict.ACCEPT:
            self._pipe.send(
                "turn",
                **where,
                text=result.text,
                confidence=round(math.exp(min(0.0, result.mean_logprob)), 3),
                language=result.language,
                decode_ms=decode_ms,
            )
        else:
            self._pipe.send("rejected", **where, reason=verdict.value, decode_ms=decode_ms)
        with self._changed:
            self._in_hand = None
            self._report(track, at_once=True)


def _give_memory_back() -> None:
    """Return freed memory to the system; glibc keeps it otherwise."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):
            pass  # another C library, which decides for itself


def main() -> None:
    """Run the worker until its stdin closes."""
    # A terminal's Ctrl-C reaches the whole group; when to stop is the daemon's to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    # The library underneath must never look for a model anywhere but in its folder.
    os.environ["HF_HUB_OFFLINE"] = "1"
    worker = Worker(ParentPipe(patient=True))
    threading.Thread(target=worker.take_orders, name="orders", daemon=True).start()
    threading.Thread(target=worker.listen, name="vad", daemon=True).start()
    try:
        worker.decode()
    except Exception as error:  # noqa: BLE001 - reported as what it is, then the process ends
        worker.fail(error)


if __name__ == "__main__":
    main()
