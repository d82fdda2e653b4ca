"""Keeps a transcriber worker on a session's tracks, from spool to published turns.

The worker may stall or die at any moment: what is published is the checkpoint, and a new worker
goes on after it. A turn that cost two workers is skipped, and that is written down first.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ambientd import child, logs, units
from ambientd.errors import AmbientError

WORKER_MODULE = "ambientd.speech.worker"

STALL_FACTOR = 10
"""A turn may take this many times its own length ..."""

MIN_STALL_S = 60.0
"""... or this long, whichever is more, before its worker is taken for stalled."""

WORKERS_PER_TURN = 2
"""A turn that cost this many workers is skipped."""

BEHIND_MS = 1000
"""A worker with more than this unheard owes a sign of life."""

MAX_EARLY_DEATHS = 5
"""Workers in a row that may die without a turn in hand before we give up on this session."""

RESTART_PAUSE_S = 1.0

PARTIALS_S = 5.0
"""How long partial text is made after it was last asked for."""

PARTIALS_AGAIN_S = 1.0
"""A worker is told so no more often than this, however often it is asked for."""

LOADING_S = 300.0
"""A large model from a cold disk takes its time."""

END_GRACE_S = 2.0

SECOND_LOOK_S = 1.0

Publish = Callable[[dict[str, Any]], Awaitable[None]]
Skip = Callable[["Span", str], Awaitable[None]]


class TranscriberError(AmbientError):
    """No worker can be kept running; the audio waits on disk."""

    code = "transcriber_failed"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one track, in milliseconds of track time."""

    track: str
    start_ms: int
    end_ms: int

    def overlaps(self, other: Span) -> bool:
        """Tell whether both share any audio."""
        return (
            self.track == other.track
            and self.start_ms < other.end_ms
            and other.start_ms < self.end_ms
        )


@dataclass(slots=True)
class Track:
    """What there is to transcribe on one track, and how far it is.

    Attributes:
        spool: the 16 kHz file.
        resume_ms: no turn starts before this: the end of the last published or skipped turn.
        frames: spool frames that may be read.
        holes: stretches without audio, as (start_ms, end_ms).
        finished: no more frames will come.
        position_ms: everything up to here is published or was found to be silence.
        speech_ms: where somebody last spoke, or a gap ended.
        drained: all its turns are out.
    """

    spool: Path
    resume_ms: int = 0
    frames: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)
    finished: bool = False
    position_ms: int = 0
    speech_ms: int = 0
    drained: bool = False

    @property
    def is_through(self) -> bool:
        """Whether nothing is left to do for it; of a track without audio no worker is told."""
        return self.finished and (self.drained or not self.frames)


@dataclass(slots=True)
class _Sent:
    """What the present worker has been told of a track."""

    frames: int = 0
    holes: int = 0
    finished: bool = False


class Transcriber:
    """Runs workers until every track is drained.

    ``add_frames``, ``add_hole`` and ``finish`` never wait; they are called as capture goes on.

    Attributes:
        tracks: the tracks by name.
        state: ``starting``, ``listening``, ``decoding``, ``drained`` or ``failed``.
        model_state: ``not loaded``, ``loading``, ``loaded`` or ``unloaded``.
        worker_pid: the running worker, or None.
        restarts: how many workers were replaced.
        rejected: texts that the guard did not let through, by reason.
        problem: why the last worker went, or an empty string.
        decodes: how many decodes were made, drafts, partials and redos included.
        redos: how many of them were made because the one before was in doubt.
    """

    def __init__(
        self, config: dict[str, Any], tracks: dict[str, Track], publish: Publish, skip: Skip
    ) -> None:
        self.tracks = tracks
        self.state = "starting"
        self.model_state = "not loaded"
        self.worker_pid: int | None = None
        self.restarts = 0
        self.rejected: dict[str, int] = {}
        self.problem = ""
        self.decodes = 0
        self.redos = 0
        self._partials: dict[str, tuple[float, dict[str, Any]]] = {}
        self._is_partial = False
        self._may_make_partials = True
        self._partials_end_s = 0.0
        self._config = config
        self._publish = publish
        self._skip = skip
        self._changed = anyio.Event()
        self._fault: TranscriberError | None = None
        self._in_hand: Span | None = None
        self._in_hand_since_s = 0.0
        self._last_advance_s = 0.0
        self._is_publishing = False
        self._early_deaths = 0
        self._losses: list[Span] = []

    def add_frames(self, track: str, frames: int) -> None:
        """Say how many spool frames of a track may now be read."""
        self.tracks[track].frames = frames
        self._signal()

    def add_hole(self, track: str, start_ms: int, end_ms: int) -> None:
        """Say that nothing was captured between two times; before the frames behind it."""
        self.tracks[track].holes.append((start_ms, end_ms))
        # Nobody knows whether somebody spoke there.
        self.tracks[track].speech_ms = max(self.tracks[track].speech_ms, end_ms)
        self._signal()

    def finish(self, track: str) -> None:
        """Say that a track is complete."""
        self.tracks[track].finished = True
        self._signal()

    @property
    def silent_ms(self) -> int:
        """For how long nobody has spoken on any track, as far as was heard."""
        heard_ms = max(track.position_ms for track in self.tracks.values())
        return max(0, heard_ms - max(track.speech_ms for track in self.tracks.values()))

    def partials(self) -> dict[str, dict[str, Any]]:
        """Return what is being said by track, and have it made for a few seconds from here.

        Returns:
            For each track where somebody speaks ``start_ms``, ``end_ms``, ``text`` and ``stable``.
        """
        now_s = anyio.current_time()
        self._partials_end_s = now_s + PARTIALS_S
        self._signal()
        return {
            track: text
            for track, (made_s, text) in self._partials.items()
            if now_s - made_s < PARTIALS_S
        }

    async def run(self) -> None:
        """Transcribe until every track is finished and drained.

        Raises:
            TranscriberError: workers keep dying, or one said that it can never work.
        """
        while not await self._run_worker():
            if self._fault is not None:
                self.state = "failed"
                raise self._fault
            self.restarts += 1
            logs.event("worker.lost", level=logging.WARNING, reason=self.problem)
            if self._is_partial and self._in_hand is not None:
                # What nobody keeps must not cost what is kept: no more of them, and no turn pays.
                self._may_make_partials, self._in_hand = False, None
            if self._in_hand is None:
                self._early_deaths += 1
                if self._early_deaths >= MAX_EARLY_DEATHS:
                    self.state = "failed"
                    raise TranscriberError(f"the transcriber keeps failing: {self.problem}")
                await anyio.sleep(RESTART_PAUSE_S)
            else:
                self._early_deaths = 0
                await self._account_for_loss(self._in_hand)
        self.state = "drained"

    async def _account_for_loss(self, lost: Span) -> None:
        self._in_hand = None
        self._losses.append(lost)
        # A new worker may cut the turn a little differently, so the same audio is the same turn.
        cost = sum(1 for span in self._losses if span.overlaps(lost))
        if cost >= WORKERS_PER_TURN:
            await self._skip(lost, self.problem)
            track = self.tracks[lost.track]
            track.resume_ms = max(track.resume_ms, lost.end_ms)
            self._losses = [span for span in self._losses if not span.overlaps(lost)]

    async def _run_worker(self) -> bool:
        """Run one worker to its end; True if everything is drained."""
        self.state, self.model_state, self.problem = "starting", "not loaded", ""
        self._is_partial = False
        self._partials.clear()
        try:
            worker = await child.start(WORKER_MODULE)
        except OSError as error:
            self.problem = f"it could not be started: {error}"
            return False
        self.worker_pid = worker.pid
        self._last_advance_s = anyio.current_time()
        for track in self.tracks.values():
            # It hears everything from there again.
            track.position_ms = track.resume_ms
        logs.event("worker.started", pid=worker.pid)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._send_orders, worker, group.cancel_scope)
                group.start_soon(self._watch, group.cancel_scope)
                await self._take_events(worker)
                group.cancel_scope.cancel()
        finally:
            self.worker_pid = None
            await worker.end(0 if self.problem else END_GRACE_S)
        if self._is_drained():
            return True
        self.problem = self.problem or f"the worker ended with code {worker.returncode}"
        return False

    def _is_drained(self) -> bool:
        return all(track.is_through for track in self.tracks.values())

    async def _send_orders(self, worker: child.Child, worker_scope: anyio.CancelScope) -> None:
        await worker.send("configure", **self._config)
        sent: dict[str, _Sent] = {}
        for track in self.tracks.values():
            track.drained = False
        told_s = 0.0
        while True:
            changed = self._changed
            for name, track in self.tracks.items():
                # A track whose input comes late has no spool before.
                if track.frames:
                    await self._send_news(worker, name, track, sent)
            if self._is_drained():
                worker_scope.cancel()
            if self._may_make_partials and self._partials_end_s > told_s + PARTIALS_AGAIN_S:
                told_s = self._partials_end_s
                await worker.send("partials", seconds=max(0.0, told_s - anyio.current_time()))
            await changed.wait()

    async def _send_news(
        self, worker: child.Child, name: str, track: Track, told: dict[str, _Sent]
    ) -> None:
        if name not in told:
            told[name] = _Sent()
            await worker.send("track", track=name, spool=str(track.spool), from_ms=track.resume_ms)
        sent = told[name]
        # Counts are sent as they stand now, not as they changed: a worker that is busy gets one
        # order for many blocks. Holes first, because the frames behind them depend on them.
        while sent.holes < len(track.holes):
            start_ms, end_ms = track.holes[sent.holes]
            sent.holes += 1
            await worker.send("hole", track=name, start_ms=start_ms, end_ms=end_ms)
        if track.frames > sent.frames:
            sent.frames = track.frames
            await worker.send("frames", track=name, frames=sent.frames)
        # Only when nothing came while the order was under way: finish is the last word.
        if track.finished and not sent.finished and sent.frames == track.frames:
            sent.finished = True
            await worker.send("finish", track=name)

    async def _take_events(self, worker: child.Child) -> None:
        async for event in worker.events():
            await self._take(event)
            if self._is_drained() or self._fault is not None:
                return

    async def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ready":
            self.state = "listening"
        elif kind == "model":
            self.model_state = event["state"]
            self._last_advance_s = anyio.current_time()
            took = {"load_s": event["load_s"]} if "load_s" in event else {}
            logs.event("model." + event["state"], **took)
        elif kind == "progress":
            self._advance(event)
        elif kind == "decoding":
            self.state = "decoding"
            self._in_hand_since_s = anyio.current_time()
            self._is_partial = event["kind"] == "partial"
            self._in_hand = Span(event["track"], event["start_ms"], event["end_ms"])
        elif kind == "idle":
            self._in_hand, self.state = None, "listening"
            self._last_advance_s = anyio.current_time()
            self._count(event)
        elif kind == "partial":
            text = {key: event[key] for key in ("start_ms", "end_ms", "text", "stable")}
            self._partials[event["track"]] = (anyio.current_time(), text)
        elif kind == "turn":
            self._count(event)
            await self._finish_turn(event)
        elif kind == "rejected":
            self._in_hand, self.state = None, "listening"
            self._count(event)
            self._partials.pop(event["track"], None)
            self._last_advance_s = anyio.current_time()
            track = self.tracks[event["track"]]
            track.resume_ms = max(track.resume_ms, event["end_ms"])
            reason = event["reason"]
            self.rejected[reason] = self.rejected.get(reason, 0) + 1
            logs.event("turn.rejected", track=event["track"], reason=reason)
        elif kind == "drained":
            self.tracks[event["track"]].drained = True
            account = {key: event[key] for key in ("from_ms", "heard_ms", "skipped_ms")}
            logs.event("track.drained", track=event["track"], **account)
        elif kind == "fault":
            self._fault = TranscriberError(
                event["message"], event.get("hint", ""), code=event["code"]
            )

    def _advance(self, event: dict[str, Any]) -> None:
        track = self.tracks[event["track"]]
        if not event["speech"]:
            # Also of speech that makes no turn, of which nothing else is said.
            self._partials.pop(event["track"], None)
        else:
            track.speech_ms = max(track.speech_ms, event["position_ms"])
        if event["position_ms"] > track.position_ms:
            track.position_ms = event["position_ms"]
            self._last_advance_s = anyio.current_time()

    def _count(self, event: dict[str, Any]) -> None:
        self.decodes += event["decodes"]
        self.redos += max(0, event["decodes"] - 1)

    async def _finish_turn(self, event: dict[str, Any]) -> None:
        self._in_hand, self.state = None, "listening"
        self._partials.pop(event["track"], None)
        keys = ("track", "start_ms", "end_ms", "text", "confidence", "language")
        # If the disk is slow now, that is not the worker's stall.
        self._is_publishing = True
        try:
            await self._publish({key: event[key] for key in keys})
        finally:
            self._is_publishing = False
        self._early_deaths = 0
        self._last_advance_s = anyio.current_time()
        track = self.tracks[event["track"]]
        track.resume_ms = max(track.resume_ms, event["end_ms"])
        track.speech_ms = max(track.speech_ms, event["end_ms"])
        logs.event(
            "turn.published",
            track=event["track"],
            start_ms=event["start_ms"],
            end_ms=event["end_ms"],
            chars=len(event["text"]),
            decode_ms=event.get("decode_ms"),
        )

    async def _watch(self, worker_scope: anyio.CancelScope) -> None:
        """End a worker that makes no progress, on the turn in hand or with audio waiting."""
        while True:
            left_s = self._patience_left_s()
            if left_s <= 0:
                # If this process was stopped, the worker's words wait in the pipe: look again.
                await anyio.sleep(SECOND_LOOK_S)
                if self._patience_left_s() > 0:
                    continue
                self.problem = "it made no progress"
                worker_scope.cancel()
                return
            await anyio.sleep(left_s)

    def _patience_left_s(self) -> float:
        now_s = anyio.current_time()
        turn = self._in_hand
        if self._is_publishing:
            return MIN_STALL_S
        if turn is not None:
            allowed_s = max(MIN_STALL_S, STALL_FACTOR * (turn.end_ms - turn.start_ms) / 1000)
            return self._in_hand_since_s + allowed_s - now_s
        if any(_owes(track) for track in self.tracks.values()):
            allowed_s = LOADING_S if self.model_state == "loading" else MIN_STALL_S
            return self._last_advance_s + allowed_s - now_s
        return MIN_STALL_S

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _owes(track: Track) -> bool:
    """Tell whether a worker owes a sign of life on a track."""
    if track.finished:
        return not track.is_through
    captured_ms = units.frames_to_ms(track.frames, units.SPOOL_RATE_HZ)
    return captured_ms > track.position_ms + BEHIND_MS
