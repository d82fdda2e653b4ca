"""One session while it is recorded: a capture child, a transcriber, the session they fill.

The capture child opens the microphone first; only when audio arrives is a session created, so a
microphone that cannot be opened leaves nothing behind. From then on capture goes on whatever
happens to the transcriber.
"""

from __future__ import annotations

import datetime
import logging
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from ambientd import child, finishing, logs, units
from ambientd.audio import wav
from ambientd.errors import CaptureError
from ambientd.speech.supervisor import Span, Track, Transcriber
from ambientd.store.layout import ROOM, native_wav
from ambientd.store.layout import spool as spool_name
from ambientd.store.session import Session, create

CAPTURE_MODULE = "ambientd.audio.capture"

SILENT_WARNING_S = 3.0
"""A capture child reports once a second at least."""

SECOND_LOOK_S = 1.0

SILENT_END_S = 30.0
"""As long as its ring lasts: after that nothing can be saved by waiting."""

OPEN_TIMEOUT_S = 15.0
"""Audio servers that are waking up take seconds; beyond this the device is stuck."""

CREATE_TIMEOUT_S = 10.0
"""A slow disk takes seconds to sync the first files of a session."""

CLOSE_TIMEOUT_S = 10.0
"""A capture child that has not closed its files by then is killed and its files are mended."""

DISK_OK: dict[str, Any] = {"state": "ok", "message": ""}
"""What the capture child says of a disk that takes audio."""


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
    try:
        capture = await child.start(CAPTURE_MODULE)
    except OSError as error:
        raise CaptureError(f"the capture process cannot be started: {error}") from None
    session = None
    try:
        opened = await _open_input(capture, source)
        started_at = datetime.datetime.fromtimestamp(opened["started_at_ns"] / 1e9).astimezone()
        track = {"device": opened["device"], "rate_hz": opened["rate_hz"], "channels": 1}
        session = await finishing.promptly(
            CREATE_TIMEOUT_S,
            create,
            root,
            name=name,
            started_at=started_at,
            model=model,
            tracks={ROOM: track},
            basis="record",
        )
        spool = worker_config is not None
        await _begin(capture, session, spool=spool, floor_bytes=floor_bytes)
    except BaseException:
        await capture.end(CLOSE_TIMEOUT_S)
        if session is not None:
            await finishing.promptly(CREATE_TIMEOUT_S, session.discard)
        raise
    return Recording(capture, session, worker_config)


async def _open_input(capture: child.Child, source: dict[str, Any]) -> dict[str, Any]:
    await capture.send("open", source=source)
    return await _expect(capture, "the input did not open")


async def _begin(capture: child.Child, session: Session, *, spool: bool, floor_bytes: int) -> None:
    """Have the capture child create its files; frames since the opening become their head."""
    folder = str(session.audio_path)
    await capture.send("begin", folder=folder, track=ROOM, spool=spool, floor_bytes=floor_bytes)
    await _expect(capture, "the recording did not begin")


async def _expect(capture: child.Child, otherwise: str) -> dict[str, Any]:
    with anyio.move_on_after(OPEN_TIMEOUT_S):
        async for event in capture.events():
            if event["event"] == "fault":
                raise CaptureError(event["message"], event["hint"], code=event["code"])
            return event
        raise CaptureError(f"{otherwise}: the capture process ended")
    raise CaptureError(f"{otherwise} within {OPEN_TIMEOUT_S:g} s", "is the audio server running?")


class Recording:
    """Records one session and finishes it.

    Attributes:
        session: the session being filled.
        device: the input's name.
        rate_hz: the input's rate.
        transcriber: the transcriber, None when the session is not to be transcribed.
        progress: what the capture child last said of its progress.
        state: ``recording``, ``closing`` or ``finishing``.
        why_ended: why it stopped, for people.
        warning: what is wrong with the capture child at the moment, or an empty string.
        disk: how the disk takes audio: the capture child's last word on it.
        problem: why it could not be finished, or an empty string.
        started_s: when it began, on the event loop's clock.
        turns: how many turns are published.
        last_turn_s: when the last one was, on the event loop's clock.
        closed: set when nothing is recorded any more.
        done: set when there is nothing left to do for the session in this daemon's life.
    """

    def __init__(
        self, capture: child.Child, session: Session, worker_config: dict[str, Any] | None
    ) -> None:
        self.session = session
        self.device: str = session.meta["tracks"][ROOM]["device"]
        self.rate_hz: int = session.meta["tracks"][ROOM]["rate_hz"]
        self.transcriber: Transcriber | None = None
        self.progress: dict[str, Any] = {"frames": 0, "spool_frames": 0, "lost_frames": 0}
        self.state = "recording"
        self.why_ended = ""
        self.warning = ""
        self.disk = DISK_OK
        self.problem = ""
        self.started_s = anyio.current_time()
        self.turns = 0
        self.last_turn_s: float | None = None
        self.closed = anyio.Event()
        self.done = anyio.Event()
        self._capture = capture
        self._notes: anyio.abc.TaskGroup | None = None
        self._stop = anyio.Event()
        self._last_word_s = self.started_s
        if worker_config is not None:
            track = Track(session.audio_path / spool_name(ROOM))
            self.transcriber = Transcriber(worker_config, {ROOM: track}, self._publish, self._skip)

    @property
    def captured_ms(self) -> int:
        """Length of what is on disk."""
        return units.frames_to_ms(self.progress["frames"], self.rate_hz)

    @property
    def lag_ms(self) -> int | None:
        """Captured position less what is published or silent; None without a transcriber."""
        if self.transcriber is None:
            return None
        return max(0, self.captured_ms - self.transcriber.tracks[ROOM].position_ms)

    @property
    def ending(self) -> str:
        """How it ended, as a sentence for people."""
        return f"session {self.session.id} ended: {self.why_ended}"

    def stop(self, why: str) -> None:
        """End the recording; returns at once."""
        if not self._stop.is_set():
            self.why_ended = why
            self._stop.set()

    async def run(self, seconds: float | None) -> None:
        """Record until stopped, then finish the session.

        Args:
            seconds: stop by itself after so long; None to go on.
        """
        session = self.session
        logs.event("session.started", id=session.id, device=self.device, rate_hz=self.rate_hz)
        try:
            async with anyio.create_task_group() as group:
                if self.transcriber is not None:
                    group.start_soon(finishing.transcribe, self.transcriber, session)
                with session.recorded_here():
                    await self._record(seconds, group)
                    await finishing.insist(session.close_audio, ROOM)
                self.state = "finishing"
                logs.event("session.closed", id=session.id, why=self.why_ended)
                self.closed.set()
                if self.transcriber is not None:
                    self.transcriber.finish(ROOM)
                await finishing.write_end(session, self.captured_ms)
            if self.transcriber is not None and self.transcriber.state == "drained":
                self.problem = await finishing.complete(session, [ROOM])
            elif self.transcriber is not None:
                self.problem = self.transcriber.problem
        finally:
            await self._capture.end(CLOSE_TIMEOUT_S)
            await finishing.release(session)
            self.closed.set()
            self.done.set()

    async def _record(self, seconds: float | None, notes: anyio.abc.TaskGroup) -> None:
        # Events are written in tasks of their own: a disk that is full must not hold up a stop.
        self._notes = notes
        async with anyio.create_task_group() as group:
            group.start_soon(self._order_stop)
            group.start_soon(self._watch)
            if seconds is not None:
                group.start_soon(self._stop_after, seconds)
            closed_well = await self._follow()
            group.cancel_scope.cancel()
        self._note_disk(DISK_OK)
        await self._capture.end(CLOSE_TIMEOUT_S)
        if not closed_well:
            await self._mend()

    async def _order_stop(self) -> None:
        await self._stop.wait()
        self.state = "closing"
        await self._capture.send("stop")
        await anyio.sleep(CLOSE_TIMEOUT_S)
        logs.event("capture.stuck", level=logging.ERROR, pid=self._capture.pid)
        await self._capture.end(0)

    async def _watch(self) -> None:
        """Notice a capture child that says nothing: it reports once a second at least."""
        while True:
            silent_s = anyio.current_time() - self._last_word_s
            if silent_s >= SILENT_WARNING_S and not self.warning:
                self.warning = "capture does not answer"
                logs.event("capture.silent", level=logging.ERROR, pid=self._capture.pid)
            if silent_s >= SILENT_END_S and await self._is_still_silent():
                self.why_ended = "capture did not answer"
                await self._capture.end(0)
                return
            await anyio.sleep(SILENT_WARNING_S)

    async def _is_still_silent(self) -> bool:
        """Look again: if this process was stopped, the child's words wait in the pipe."""
        await anyio.sleep(SECOND_LOOK_S)
        return anyio.current_time() - self._last_word_s >= SILENT_END_S

    async def _stop_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self.stop(f"{seconds:g} s were asked for")

    async def _follow(self) -> bool:
        """Take the capture child's events until it ends; True if it closed its files."""
        async for event in self._capture.events():
            kind = event["event"]
            if self.warning and anyio.current_time() - self._last_word_s >= SILENT_WARNING_S:
                self.warning = ""
            self._last_word_s = anyio.current_time()
            if kind in ("progress", "closed"):
                self.progress.update(event)
                if self.transcriber is not None:
                    self.transcriber.add_frames(ROOM, event["spool_frames"])
                if kind == "closed":
                    return True
            elif kind == "gap":
                self._note_gap(event)
            elif kind == "overflow":
                self._note("overflow", start_ms=event["at_ms"], end_ms=event["at_ms"])
            elif kind == "disk":
                self._note_disk(event)
            elif kind in ("ended", "must_end"):
                self._take_end(event)
            elif kind == "fault":
                self.why_ended = event["message"]
        return False

    def _take_end(self, event: dict[str, Any]) -> None:
        at_ms = self.captured_ms
        if event["event"] == "must_end":
            self._note(event["reason"], start_ms=at_ms, end_ms=at_ms, reason=event["message"])
        elif event["reason"] == "device_lost":
            self._note("device_lost", start_ms=at_ms)
        self.stop(event["message"])

    async def _mend(self) -> None:
        """Make what a capture child left behind playable."""
        self.why_ended = self.why_ended or "the capture process ended unexpectedly"
        logs.event("capture.lost", level=logging.ERROR, id=self.session.id, why=self.why_ended)
        native = self.session.audio_path / native_wav(ROOM)
        self.progress["frames"] = await finishing.apart(wav.repair, native)
        if self.transcriber is not None:
            spool = self.session.audio_path / spool_name(ROOM)
            frames = spool.stat().st_size // units.SAMPLE_BYTES
            self.transcriber.add_frames(ROOM, frames)
        self._note("capture_lost", end_ms=self.captured_ms, reason=self.why_ended)

    def _note_disk(self, event: dict[str, Any]) -> None:
        """Take what the disk does now; what it did until now is noted when that has passed."""
        before, self.disk = self.disk, event
        if event["state"] == before["state"]:
            return
        logs.event("capture.disk", level=logging.WARNING, state=event["state"])
        if event["state"] == "ok":
            end_ms = event.get("end_ms", self.captured_ms)
            span = {"start_ms": before["start_ms"], "end_ms": max(before["end_ms"], end_ms)}
            self._note(before["state"], **span, reason=before["message"])

    def _note_gap(self, event: dict[str, Any]) -> None:
        start_ms, end_ms = event["start_ms"], event["end_ms"]
        if self.transcriber is not None:
            self.transcriber.add_hole(ROOM, start_ms, end_ms)
        logs.event("capture.gap", level=logging.WARNING, start_ms=start_ms, end_ms=end_ms)
        self._note("gap", start_ms=start_ms, end_ms=end_ms, reason=event["reason"])

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
