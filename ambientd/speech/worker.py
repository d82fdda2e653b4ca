"""The transcriber child: `python -m ambientd.speech.worker`.

Reads the spools by offset, answers with turns, writes nothing to disk. One thread takes orders, one
listens (so that speech is noticed during a decode), and the main thread decodes. Until somebody
speaks only the voice detector is in memory; the speech model loads at the onset of speech and
leaves when nobody has spoken for a while.

Orders: ``configure``, ``track``, ``frames``, ``hole``, ``finish``, ``partials``. Events: ``ready``,
``model``, ``progress``, ``decoding``, ``idle``, ``turn``, ``rejected``, ``partial``, ``drained``,
``fault``.
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
from enum import Enum
from typing import Any, NamedTuple

from ambientd.errors import AmbientError
from ambientd.pipe import ParentPipe
from ambientd.speech import engine
from ambientd.speech.drafts import Draft, Drafts
from ambientd.speech.guard import Verdict
from ambientd.speech.listener import Listener
from ambientd.speech.partials import Partials
from ambientd.speech.recognition import Recognition, recognise
from ambientd.speech.segmenter import Rules, Turn

NICENESS = 5
"""Capture and whatever the person is doing come first."""

PROGRESS_EVERY_S = 0.2


class Kind(Enum):
    """What the engine is used for, the most urgent first."""

    LOAD = "load"
    TURN = "turn"
    DRAFT = "draft"
    PARTIAL = "partial"


class Job(NamedTuple):
    """What the engine does next; loading has no track and no turn."""

    kind: Kind
    track: str = ""
    turn: Turn = Turn(0, 0)


class Heard(NamedTuple):
    """What is known of a track at one moment; the listener itself goes on meanwhile."""

    settled_ms: int = 0
    is_through: bool = False
    open_turn: Turn | None = None
    closing: tuple[Turn, int] | None = None


class Worker:
    """The child's state, shared by its threads under one lock."""

    def __init__(self, pipe: ParentPipe) -> None:
        self._pipe = pipe
        # Audio comes twenty times a second: only the thread that it is for is woken.
        lock = threading.Lock()
        self._audio_came = threading.Condition(lock)
        self._work_came = threading.Condition(lock)
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
        self._heard: dict[str, Heard] = {}
        self._early_decode = True
        self._drafts = Drafts(self._rules.end_silence_ms)
        self._partials: dict[str, Partials] = {}
        self._partials_end_s = 0.0
        self._exit_code = 0

    def take_orders(self) -> None:
        """Obey orders until the daemon is gone, then end the process, even during a decode."""
        try:
            for order in self._pipe.orders():
                with self._audio_came:
                    self._take(order)
                    # They share a lock.
                    woken = self._work_came if order["order"] == "partials" else self._audio_came
                    woken.notify()
        except Exception as error:  # noqa: BLE001 - a thread's end must be the process's
            self.fail(error)
        os._exit(self._exit_code)

    def listen(self) -> None:
        """Run the voice detector over whatever audio there is; never returns."""
        try:
            while True:
                with self._audio_came:
                    # What was heard last is reported late, so that reports are few, not never.
                    patience_s = PROGRESS_EVERY_S if self._unreported else None
                    self._audio_came.wait_for(lambda: self._next_to_hear() is not None, patience_s)
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
            with self._work_came:
                self._work_came.wait_for(self._next_job, timeout=self._patience_s())
                job = self._next_job()
                if job is not None and job.kind is Kind.TURN:
                    self._waiting.remove((job.turn.end_ms, job.track, job.turn))
                    self._in_hand = (job.track, job.turn)
            if job is None:
                self._unload_if_idle()
            elif job.kind is Kind.LOAD:
                self._load()
            elif job.kind is Kind.TURN:
                self._finish_turn(job)
            elif job.kind is Kind.DRAFT:
                self._make_draft(job)
            else:
                self._make_partial(job)

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
            self._drafts = Drafts(self._rules.end_silence_ms)
            self._unload_after_s = order["unload_after_s"]
            self._early_decode = order["early_decode"]
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
        elif kind == "partials":
            self._partials_end_s = time.monotonic() + order["seconds"]

    def _next_to_hear(self) -> Listener | None:
        ready = [track for track in self._tracks.values() if track.has_work()]
        return min(ready, key=lambda track: track.settled_ms, default=None)

    def _hear(self, track: Listener) -> None:
        turns = track.advance()
        with self._work_came:
            # Together, so that nobody sees a position without the turns that lie before it.
            self._heard[track.name] = Heard(
                track.settled_ms, track.is_through, track.open_turn, track.closing
            )
            for turn in turns:
                self._waiting.append((turn.end_ms, track.name, turn))
            if turns or track.open_turn is not None:
                self._last_speech_s = time.monotonic()
                if self._next_job() is not None:
                    self._work_came.notify()
            self._report(track, at_once=bool(turns))

    def _report(self, track: Listener, *, at_once: bool) -> None:
        """Say how far a track is; under the condition's lock, so that reports stay in order."""
        now_s = time.monotonic()
        heard = self._heard.get(track.name, Heard())
        is_drained = heard.is_through and not self._owed(track.name)
        due = now_s - self._last_progress_s.get(track.name, 0.0) >= PROGRESS_EVERY_S
        if at_once or due or is_drained:
            self._last_progress_s[track.name] = now_s
            self._unreported.pop(track.name, None)
            # Never back: a turn's padding reaches into silence that was reported before.
            track.reported_ms = max(
                track.reported_ms, min([heard.settled_ms, *self._owed(track.name)])
            )
            self._pipe.send(
                "progress",
                track=track.name,
                position_ms=track.reported_ms,
                speech=heard.open_turn is not None,
            )
        else:
            self._unreported[track.name] = track
        if is_drained and not track.drained_said:
            track.drained_said = True
            self._pipe.send("drained", track=track.name, **track.account())

    def _owed(self, track: str) -> list[int]:
        """Return the starts of a track's turns that wait or are in hand."""
        starts = [turn.start_ms for _, name, turn in self._waiting if name == track]
        if self._in_hand is not None and self._in_hand[0] == track:
            starts.append(self._in_hand[1].start_ms)
        return starts

    def _wants_model(self) -> bool:
        return not self._loaded and (bool(self._waiting) or self._is_speaking())

    def _next_job(self) -> Job | None:
        """Return what the engine is to do now; called under the lock."""
        if self._wants_model():
            return Job(Kind.LOAD)
        if self._waiting:
            _, name, turn = min(self._waiting, key=lambda waiting: waiting[0])
            return Job(Kind.TURN, name, turn)
        if not self._loaded:
            return None
        for name, heard in self._heard.items():
            closing = heard.closing if self._early_decode else None
            if closing is not None and self._drafts.is_due(name, closing):
                return Job(Kind.DRAFT, name, closing[0])
        if time.monotonic() < self._partials_end_s and not self._drafts.is_starved:
            for name, heard in self._heard.items():
                # In a closing silence the engine is kept free for the draft.
                so_far = heard.open_turn if heard.closing is None else None
                if so_far is not None and self._partials_of(name).is_due(so_far):
                    return Job(Kind.PARTIAL, name, so_far)
        return None

    def _partials_of(self, track: str) -> Partials:
        return self._partials.setdefault(track, Partials())

    def _is_speaking(self) -> bool:
        return any(one.open_turn is not None for one in self._heard.values())

    def _patience_s(self) -> float | None:
        if not self._loaded:
            return None
        if self._is_speaking():
            # What is dropped as too short wakes nobody: look again by and by.
            return self._unload_after_s
        return max(0.0, self._last_speech_s + self._unload_after_s - time.monotonic())

    def _load(self) -> None:
        if self._engine is None:
            raise AssertionError("configure comes before any track")
        self._pipe.send("model", state="loading")
        start_s = time.monotonic()
        self._engine.load()
        self._loaded = True
        self._pipe.send("model", state="loaded", load_s=round(time.monotonic() - start_s, 3))

    def _unload_if_idle(self) -> None:
        with self._work_came:
            idle_s = time.monotonic() - self._last_speech_s
            is_due = self._loaded and idle_s >= self._unload_after_s and not self._is_speaking()
        if not is_due or self._engine is None:
            return
        self._engine.unload()
        self._loaded = False
        gc.collect()
        _give_memory_back()
        self._pipe.send("model", state="unloaded")

    def _finish_turn(self, job: Job) -> None:
        """Publish the turn in hand, from its draft if there is one, or say why not."""
        draft = self._drafts.take(job.track, job.turn)
        if draft is None:
            made, cost = self._recognise(job)
        else:
            # What it took, for the log; its decodes were counted when it was made.
            made, cost = draft.made, {"decodes": 0, "decode_ms": draft.decode_ms}
        if made.verdict is Verdict.ACCEPT:
            self._pipe.send(
                "turn",
                **_where(job),
                **cost,
                text=made.decode.text,
                confidence=round(math.exp(min(0.0, made.decode.mean_logprob)), 3),
                language=made.decode.language,
            )
        else:
            self._pipe.send("rejected", **_where(job), **cost, reason=made.verdict.value)
        with self._work_came:
            self._in_hand = None
            self._report(self._tracks[job.track], at_once=True)

    def _make_draft(self, job: Job) -> None:
        made, cost = self._recognise(job)
        self._drafts.keep(Draft(job.track, job.turn, made, cost["decode_ms"]))
        self._pipe.send("idle", **cost)

    def _make_partial(self, job: Job) -> None:
        made, cost = self._recognise(job)
        partials = self._partials_of(job.track)
        text = made.decode.text if made.verdict is Verdict.ACCEPT else None
        partials.take(job.turn, text, cost["decode_ms"])
        self._pipe.send("idle", **cost)
        self._pipe.send("partial", **_where(job), text=partials.text, stable=partials.stable)

    def _recognise(self, job: Job) -> tuple[Recognition, dict[str, int]]:
        """Return what the engine makes of a stretch, and what that cost."""
        if self._engine is None:
            raise AssertionError("configure comes before any track")
        # Said before anything is risked: the daemon counts what a stretch costs.
        self._pipe.send("decoding", kind=job.kind.value, **_where(job))
        wall_s, processor_s = time.monotonic(), time.process_time()
        samples = self._tracks[job.track].read(job.turn)
        made = recognise(self._engine, samples, once=job.kind is Kind.PARTIAL)
        took_ms = (time.monotonic() - wall_s) * 1000
        self._drafts.learn(took_ms, (time.process_time() - processor_s) * 1000)
        return made, {"decodes": made.decodes, "decode_ms": round(took_ms)}


def _where(job: Job) -> dict[str, Any]:
    return {"track": job.track, "start_ms": job.turn.start_ms, "end_ms": job.turn.end_ms}


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
