"""One session while it is recorded: its tracks, a transcriber, the session they fill.

The capture children open their inputs first; only when the microphone delivers is a session
created, so one that cannot be opened leaves nothing behind. From then on capture goes on whatever
happens to the transcriber.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc

from ambientd import clock, finishing, guards, inputs, logs
from ambientd.capture import Since, Target
from ambientd.consent import Consent
from ambientd.guards import End, Limits
from ambientd.inputs import OpenInput, Source
from ambientd.speech.supervisor import Span, Track, Transcriber
from ambientd.store import layout
from ambientd.store.layout import ROOM
from ambientd.store.session import Session, create, now
from ambientd.track import LATE_START, PAUSED, TRACK_MUTED, Begun, TrackRecorder

LOOK_S = 1.0
"""Between two looks at when the session ends by itself."""

CREATE_TIMEOUT_S = 10.0
"""A slow disk takes seconds to sync the first files of a session."""


class Wanted(NamedTuple):
    """What a person wants to be recorded.

    Attributes:
        sources: for each track what its capture child shall open.
        name: the session's name, or None.
        consent: who allowed it, and how.
        limits: how long it may last.
        model: the speech model's name; None when the session is not to be transcribed.
        worker_config: what a transcriber worker is told first; None as above.
        floor_bytes: the free room below which it stops by itself; 0 for none.
    """

    sources: Mapping[str, Source]
    name: str | None
    consent: Consent
    limits: Limits
    model: str | None
    worker_config: dict[str, Any] | None
    floor_bytes: int


async def open_recording(root: Path, wanted: Wanted) -> Recording:
    """Open the inputs and create the session; the caller runs the result.

    The microphone must open. Another input may come later: its track begins with a gap.

    Args:
        root: the sessions folder.
        wanted: what is to be recorded.

    Raises:
        AmbientError: it could not be started; nothing was created.
    """
    return await begin_recording(root, wanted, await inputs.open_all(wanted.sources, must=ROOM))


async def begin_recording(root: Path, wanted: Wanted, opened: Mapping[str, OpenInput]) -> Recording:
    """Create a session for inputs that are open; the caller runs the result.

    Args:
        root: the sessions folder.
        wanted: what is to be recorded.
        opened: what is open by track, one at least. Other inputs are waited for.

    Raises:
        AmbientError: it could not be started; the inputs are closed, and nothing was created.
    """
    session = None
    try:
        first = min((one.opened for one in opened.values()), key=lambda one: one.boot_ns)
        session = await finishing.promptly(
            CREATE_TIMEOUT_S,
            create,
            root,
            name=wanted.name,
            started_at=datetime.datetime.fromtimestamp(first.wall_ns / 1e9).astimezone(),
            model=wanted.model,
            tracks={track: _described(opened.get(track)) for track in wanted.sources},
            consent=wanted.consent.as_json(),
            boot={"id": clock.boot_id(), "start_ns": first.boot_ns},
        )
        since = Since(0, first.boot_ns, LATE_START)
        begun = {}
        for track, one in opened.items():
            begun[track] = await one.begin(_target(session, track, wanted), since)
    except BaseException:
        await inputs.close_all(opened)
        if session is not None:
            await finishing.promptly(CREATE_TIMEOUT_S, session.discard)
        raise
    heads = {
        track: Head(since, Track(session.audio_path / layout.spool(track)), begun.get(track))
        for track in wanted.sources
    }
    return Recording(session, wanted, heads, first.boot_ns)


def _described(one: OpenInput | None) -> dict[str, Any]:
    if one is None:
        return inputs.describe(None, None)
    return inputs.describe(one.opened.known, one.opened.rate_hz)


def _target(session: Session, track: str, wanted: Wanted) -> Target:
    return Target(
        str(session.audio_path),
        track,
        spool=wanted.worker_config is not None,
        floor_bytes=wanted.floor_bytes,
    )


class Head(NamedTuple):
    """Where the recording of a track begins, or goes on.

    Attributes:
        since: what its files hold, or held before ``begun``.
        spool: what is to be transcribed of it.
        begun: the capture child that writes it; None while its input is waited for.
    """

    since: Since
    spool: Track
    begun: Begun | None


class Recording:
    """Records one session and finishes it.

    Args:
        session: the session to be filled.
        wanted: what is to be recorded.
        heads: where each track begins.
        start_ns: track time 0, as ``clock.boot_ns``.

    Attributes:
        session: the session being filled.
        tracks: what records it, by track.
        transcriber: the transcriber, None when the session is not to be transcribed.
        state: ``recording``, ``closing`` or ``finishing``.
        why_ended: why it stopped, for people.
        problem: why it could not be finished, or an empty string.
        end: when it ends by itself, as things are; None if it does not.
        turns: how many turns are published.
        last_turn_s: when the last one was, on the event loop's clock.
        closed: set when nothing is recorded any more.
        done: set when there is nothing left to do for the session in this daemon's life.
    """

    def __init__(
        self, session: Session, wanted: Wanted, heads: Mapping[str, Head], start_ns: int
    ) -> None:
        self.session = session
        self.transcriber: Transcriber | None = None
        self.state = "recording"
        self.why_ended = ""
        self.problem = ""
        self.end: End | None = None
        self.turns = 0
        self.last_turn_s: float | None = None
        self.closed = anyio.Event()
        self.done = anyio.Event()
        self._limits = wanted.limits
        self._started_ns = start_ns
        self._notes: anyio.abc.TaskGroup | None = None
        self._early_notes: list[Callable[[], Coroutine[Any, Any, None]]] = []
        if wanted.worker_config is not None:
            spools = {track: head.spool for track, head in heads.items()}
            self.transcriber = Transcriber(wanted.worker_config, spools, self._publish, self._skip)
        self.tracks = {
            track: TrackRecorder(
                _target(session, track, wanted),
                source,
                heads[track].begun,
                heads[track].since,
                self.transcriber,
                partial(self._note, track),
            )
            for track, source in wanted.sources.items()
        }

    @property
    def elapsed_s(self) -> float:
        """How long ago it began, pauses and sleep included."""
        return (clock.boot_ns() - self._started_ns) / 1e9

    @property
    def captured_ms(self) -> int:
        """Length of the longest track on disk."""
        return max(track.captured_ms for track in self.tracks.values())

    @property
    def lag_ms(self) -> int | None:
        """Captured position less what is published or silent, of the track that is further behind.

        None without a transcriber.
        """
        if self.transcriber is None:
            return None
        heard = self.transcriber.tracks
        return max(
            0,
            *(track.captured_ms - heard[name].position_ms for name, track in self.tracks.items()),
        )

    @property
    def disk(self) -> dict[str, Any]:
        """How the disk takes audio: of a track that has trouble with it, if there is one."""
        words = [track.disk for track in self.tracks.values()]
        return next((word for word in words if word["state"] != "ok"), words[0])

    @property
    def ending(self) -> str:
        """How it ended, as a sentence for people."""
        return f"session {self.session.id} ended: {self.why_ended}"

    def stop(self, why: str) -> None:
        """End the recording; returns at once."""
        if self.state == "recording":
            self.state = "closing"
            self.why_ended = why
            for track in self.tracks.values():
                track.stop()

    def pause(self) -> None:
        """Close every input until ``resume``; returns at once."""
        self._note(ROOM, "paused", start_ms=self.captured_ms)
        for track in self.tracks.values():
            track.hold(PAUSED)

    def resume(self) -> None:
        """Open them again; returns at once."""
        self._note(ROOM, "resumed", start_ms=self.captured_ms)
        for track in self.tracks.values():
            track.release(PAUSED)

    def mute(self, name: str) -> None:
        """Close the input of one track until ``unmute``; returns at once."""
        self._note(name, TRACK_MUTED, start_ms=self.tracks[name].captured_ms)
        self.tracks[name].hold(TRACK_MUTED)

    def unmute(self, name: str) -> None:
        """Open it again; returns at once."""
        self._note(name, "track_unmuted", start_ms=self.tracks[name].captured_ms)
        self.tracks[name].release(TRACK_MUTED)

    async def run(self, on_closed: Callable[[], None]) -> None:
        """Record until stopped, then finish the session.

        Args:
            on_closed: called when its inputs are closed.
        """
        session = self.session
        for name, track in self.tracks.items():
            logs.event(
                "session.started",
                id=session.id,
                track=name,
                device=track.known.device,
                rate_hz=track.rate_hz,
            )
        try:
            async with anyio.create_task_group() as group:
                # Events are written in tasks of their own: a disk that is full must not hold up a
                # stop.
                self._notes = group
                for note in self._early_notes:
                    group.start_soon(note)
                if self.transcriber is not None:
                    group.start_soon(finishing.transcribe, self.transcriber, session)
                with session.recorded_here():
                    await self._record()
                    for name in self.tracks:
                        await finishing.insist(session.close_audio, name)
                self.state = "finishing"
                logs.event("session.closed", id=session.id, why=self.why_ended)
                self._close(on_closed)
                await finishing.write_end(session, self.captured_ms)
            if self.transcriber is not None and self.transcriber.state == "drained":
                self.problem = await finishing.complete(session, self.tracks)
            elif self.transcriber is not None:
                self.problem = self.transcriber.problem
        finally:
            await finishing.release(session)
            self._close(on_closed)
            self.done.set()

    def _close(self, on_closed: Callable[[], None]) -> None:
        if not self.closed.is_set():
            on_closed()
            self.closed.set()

    async def _record(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._guard)
            async with anyio.create_task_group() as tracks:
                for name, track in self.tracks.items():
                    tracks.start_soon(self._run_track, name, track)
                    if not track.has_file.is_set():
                        group.start_soon(self._describe_later, name, track)
            group.cancel_scope.cancel()

    async def _guard(self) -> None:
        """End the session when its time is over, and announce it before."""
        is_announced = False
        while True:
            silent_ms = 0 if self.transcriber is None else self.transcriber.silent_ms
            self.end = guards.next_end(self._limits, self.elapsed_s, silent_ms / 1000, now())
            if self.end is None:
                return
            fields = {"start_ms": self.captured_ms, "reason": self.end.kind}
            if self.end.in_s <= 0:
                if self.end.kind != guards.ASKED:
                    self._note(ROOM, "auto_stopped", **fields)
                self.stop(self.end.why)
                return
            if guards.is_announced(self.end) and not is_announced:
                self._note(ROOM, "ends_soon", **fields)
            is_announced = guards.is_announced(self.end)
            await anyio.sleep(min(LOOK_S, self.end.in_s))

    async def _run_track(self, name: str, track: TrackRecorder) -> None:
        await track.run()
        if self.transcriber is not None:
            self.transcriber.finish(name)
        if name == ROOM or not track.why_ended:
            self.stop(track.why_ended)
        else:
            logs.event("track.ended", track=name, why=track.why_ended)

    async def _describe_later(self, name: str, track: TrackRecorder) -> None:
        """Write down what is recorded on a track whose input was not there at the start."""
        await track.has_file.wait()
        self.session.meta["tracks"][name] = inputs.describe(track.known, track.rate_hz)
        await finishing.insist(self.session.save)

    def note_call(self, tool: str, client: str) -> None:
        """Write down what an assistant asked for; returns at once. Not when it has ended."""
        self._note(ROOM, "assistant", start_ms=self.captured_ms, tool=tool, client=client)

    def _note(self, track: str, kind: str, **fields: Any) -> None:
        note = partial(finishing.note, self.session, kind, track=track, **fields)
        if self._notes is None:
            self._early_notes.append(note)
        else:
            self._notes.start_soon(note)

    async def _publish(self, turn: dict[str, Any]) -> None:
        await finishing.insist(self.session.publish, turn)
        self.turns += 1
        self.last_turn_s = anyio.current_time()

    async def _skip(self, span: Span, why: str) -> None:
        await finishing.note_skipped(self.session, span, why)
