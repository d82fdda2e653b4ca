"""One session while it is recorded: its track, a transcriber, the session they fill.

The capture child opens the microphone first; only when audio arrives is a session created, so a
microphone that cannot be opened leaves nothing behind. From then on capture goes on whatever
happens to the transcriber.
"""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from ambientd import capture as captures
from ambientd import finishing, logs
from ambientd.speech.supervisor import Span, Track, Transcriber
from ambientd.store.layout import ROOM
from ambientd.store.layout import spool as spool_name
from ambientd.store.session import Session, create
from ambientd.track import CLOSE_TIMEOUT_S, TrackRecorder

CREATE_TIMEOUT_S = 10.0
"""A slow disk takes seconds to sync the first files of a session."""


async def open_recording(
    root: Path,
    source: dict[str, Any],
    *,
    name: str | None,
    model: str | None,
    worker_config: dict[str, Any] | None,
    floor_bytes: int,
) -> Recording:
    """Open the microphone and create the session; the caller runs the result.

    Args:
        root: the sessions folder.
        source: what the capture child shall open.
        name: the session's name, or None.
        model: the speech model's name; None when the session is not to be transcribed.
        worker_config: what a transcriber worker is told first; None as above.
        floor_bytes: the free room below which it stops by itself; 0 for none.

    Raises:
        AmbientError: it could not be started; nothing was created.
    """
    capture = await captures.start()
    session = None
    try:
        # A monitor may be what a person wants: the status says so.
        opened = await capture.open({**source, "allow_monitor": True})
        track = {"device": opened.known.device, "rate_hz": opened.rate_hz, "channels": 1}
        session = await finishing.promptly(
            CREATE_TIMEOUT_S,
            create,
            root,
            name=name,
            started_at=datetime.datetime.fromtimestamp(opened.wall_ns / 1e9).astimezone(),
            model=model,
            tracks={ROOM: track},
            basis="record",
        )
        target = captures.Target(
            str(session.audio_path), ROOM, spool=worker_config is not None, floor_bytes=floor_bytes
        )
        await capture.begin(target)
    except BaseException:
        await capture.end(CLOSE_TIMEOUT_S)
        if session is not None:
            await finishing.promptly(CREATE_TIMEOUT_S, session.discard)
        raise
    return Recording(source, capture, opened, target, session, worker_config)


class Recording:
    """Records one session and finishes it.

    Attributes:
        session: the session being filled.
        track: what records it.
        transcriber: the transcriber, None when the session is not to be transcribed.
        state: ``recording``, ``closing`` or ``finishing``.
        why_ended: why it stopped, for people.
        problem: why it could not be finished, or an empty string.
        started_s: when it began, on the event loop's clock.
        turns: how many turns are published.
        last_turn_s: when the last one was, on the event loop's clock.
        closed: set when nothing is recorded any more.
        done: set when there is nothing left to do for the session in this daemon's life.
    """

    def __init__(
        self,
        source: dict[str, Any],
        capture: captures.Capture,
        opened: captures.Opened,
        target: captures.Target,
        session: Session,
        worker_config: dict[str, Any] | None,
    ) -> None:
        self.session = session
        self.transcriber: Transcriber | None = None
        self.state = "recording"
        self.why_ended = ""
        self.problem = ""
        self.started_s = anyio.current_time()
        self.turns = 0
        self.last_turn_s: float | None = None
        self.closed = anyio.Event()
        self.done = anyio.Event()
        self._notes: anyio.abc.TaskGroup | None = None
        if worker_config is not None:
            spool = Track(session.audio_path / spool_name(ROOM))
            self.transcriber = Transcriber(worker_config, {ROOM: spool}, self._publish, self._skip)
        self.track = TrackRecorder(target, source, capture, opened, self.transcriber, self._note)

    @property
    def lag_ms(self) -> int | None:
        """Captured position less what is published or silent; None without a transcriber."""
        if self.transcriber is None:
            return None
        return max(0, self.track.captured_ms - self.transcriber.tracks[ROOM].position_ms)

    @property
    def ending(self) -> str:
        """How it ended, as a sentence for people."""
        return f"session {self.session.id} ended: {self.why_ended}"

    def stop(self, why: str) -> None:
        """End the recording; returns at once."""
        if self.state == "recording":
            self.state = "closing"
            self.why_ended = why
            self.track.stop()

    async def run(self, seconds: float | None) -> None:
        """Record until stopped, then finish the session.

        Args:
            seconds: stop by itself after so long; None to go on.
        """
        session = self.session
        device, rate_hz = self.track.known.device, self.track.rate_hz
        logs.event("session.started", id=session.id, device=device, rate_hz=rate_hz)
        try:
            async with anyio.create_task_group() as group:
                # Events are written in tasks of their own: a disk that is full must not hold up a
                # stop.
                self._notes = group
                if self.transcriber is not None:
                    group.start_soon(finishing.transcribe, self.transcriber, session)
                with session.recorded_here():
                    await self._record(seconds)
                    await finishing.insist(session.close_audio, ROOM)
                self.state = "finishing"
                logs.event("session.closed", id=session.id, why=self.why_ended)
                self.closed.set()
                if self.transcriber is not None:
                    self.transcriber.finish(ROOM)
                await finishing.write_end(session, self.track.captured_ms)
            if self.transcriber is not None and self.transcriber.state == "drained":
                self.problem = await finishing.complete(session, [ROOM])
            elif self.transcriber is not None:
                self.problem = self.transcriber.problem
        finally:
            await finishing.release(session)
            self.closed.set()
            self.done.set()

    async def _record(self, seconds: float | None) -> None:
        async with anyio.create_task_group() as group:
            if seconds is not None:
                group.start_soon(self._stop_after, seconds)
            await self.track.run()
            group.cancel_scope.cancel()
        self.why_ended = self.track.why_ended or self.why_ended

    async def _stop_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self.stop(f"{seconds:g} s were asked for")

    def _note(self, kind: str, **fields: Any) -> None:
        if self._notes is not None:
            self._notes.start_soon(
                partial(finishing.note, self.session, kind, track=ROOM, **fields)
            )

    async def _publish(self, turn: dict[str, Any]) -> None:
        await finishing.insist(self.session.publish, turn)
        self.turns += 1
        self.last_turn_s = anyio.current_time()

    async def _skip(self, span: Span, why: str) -> None:
        await finishing.note_skipped(self.session, span, why)
