"""The daemon: what it holds, in what order it starts, and in what order it stops."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread

from ambientd import (
    clock,
    consent,
    continuing,
    finishing,
    inputs,
    logs,
    notify,
    paths,
    standing,
    wire,
)
from ambientd.arming import Arming
from ambientd.consent import Consent, Phase
from ambientd.continuing import Interrupted
from ambientd.errors import AmbientError, RefusedError, cause
from ambientd.guards import Limits
from ambientd.inputs import OpenInput, Source
from ambientd.recording import Recording, Wanted, begin_recording, open_recording
from ambientd.recovery import Recovery
from ambientd.rpc import listener
from ambientd.rpc.service import Act, ControlMethod, Service
from ambientd.settings import Settings
from ambientd.soundcheck import Soundcheck
from ambientd.speech import models
from ambientd.standby import Standby
from ambientd.storage import Storage
from ambientd.store.layout import CALL, ROOM
from ambientd.store.session import now, user_name
from ambientd.units import MB_BYTES

LAST_ANSWERS_S = 0.05

EXPIRY_LOOK_S = 30.0
"""Between two looks at whether a consent has ended: timers stand still while the machine sleeps."""

STOPPED = "stopped"
"""The code of a start that was given up."""

START_AGAIN_S = 10.0
"""After a session could not begin by itself: a disk without room must not be asked in a loop."""

DRAIN_S = 15.0
"""How long a stop may take to publish what was said; the rest is done at the next start."""


class Wish(NamedTuple):
    """What a person asks for with a recording.

    Attributes:
        name: the session's name, or None.
        seconds: how long it shall last; None until it is stopped.
        transcribe: whether text is made of it.
        call: whether what the speakers play is recorded, too; None as the setting has it.
    """

    name: str | None = None
    seconds: float | None = None
    transcribe: bool = True
    call: bool | None = None


class Daemon:
    """Owns the microphone for one root.

    Attributes:
        settings: the effective settings.
        root: the sessions folder.
        socket_path: where it listens; empty until it does.
        arming: what listens while it is armed and nobody speaks.
        service: what answers requests, once it does.
        soundcheck: the last look at the levels; None before there was one.
        recordings: the session being recorded and those whose text is not complete yet.
        recovery: what an earlier daemon left behind.
        storage: the disk of the root.
        started_s: when it started, on the event loop's clock.
        last_ended: how the last session ended, for people; empty before there was one.
    """

    def __init__(self, settings: Settings, root: Path, sources: Mapping[str, Source]) -> None:
        self.settings = settings
        self.root = root
        self.socket_path = ""
        self._state = consent.State()
        self._told_phase = Phase.DEAF
        self.recordings: list[Recording] = []
        self.recovery = Recovery(self.worker_config)
        floor_bytes = settings.integer("capture.disk_floor_mb") * MB_BYTES
        self.storage = Storage(root, floor_bytes)
        self.started_s = 0.0
        self.last_ended = ""
        self.service: Service | None = None
        self.soundcheck: Soundcheck | None = None
        self.arming = Arming(self._stand_by, self._begin_by_itself)
        self._sources = sources
        self._tasks: anyio.abc.TaskGroup | None = None
        self._start = anyio.CancelScope()
        self._standing_changed = anyio.Event()
        self._stopping = anyio.Event()
        self._draining = anyio.CancelScope()

    async def run(
        self,
        methods: Callable[[Daemon], dict[str, ControlMethod]],
        actor: Callable[[Daemon], Act],
    ) -> None:
        """Serve until ``stop``, then end the recording, drain, and let go of everything.

        Args:
            methods: makes the control methods for this daemon.
            actor: makes what carries out the tools that control it.

        Raises:
            AmbientError: it cannot start.
        """
        self.started_s = anyio.current_time()
        candidates = wire.socket_candidates()
        paths.prepare_root(self.root)
        with paths.locked_root(self.root) as lock:
            self.storage.lock_fd = lock
            async with listener.listening(candidates) as (bound, self.socket_path):
                paths.describe_holder(lock, self.socket_path)
                self.service = service = Service(self.root, methods(self), actor(self))
                async with anyio.create_task_group() as self._tasks:
                    self._tasks.start_soon(listener.serve, bound, service)
                    self._tasks.start_soon(self.arming.run)
                    self._tasks.start_soon(self._expire)
                    self._tasks.start_soon(self._take_up)
                    logs.event("daemon.ready", pid=os.getpid(), socket=self.socket_path)
                    await self._stopping.wait()
                    await self._drain()
                    # Who waited for that gets the answer before the connections go.
                    await anyio.sleep(LAST_ANSWERS_S)
                    self._tasks.cancel_scope.cancel()
        logs.event("daemon.stopped")

    def stop(self) -> None:
        """Begin to stop; ``run`` returns when that is done. A second call cuts the drain short."""
        if self._stopping.is_set():
            self._draining.cancel()
        self._stopping.set()

    @property
    def state(self) -> consent.State:
        """Whether anybody may be heard, and who allowed it."""
        return self._state

    @state.setter
    def state(self, state: consent.State) -> None:
        self._state = state
        phase = state.phase
        if phase not in notify.TEXTS or phase is self._told_phase:
            return  # it is on the way to what will be told
        self._told_phase = phase
        logs.event("consent.phase", phase=phase.value)
        if self._tasks is not None and self.settings.text("notifications") == "on":
            self._tasks.start_soon(notify.tell, phase)

    async def record(self, wish: Wish, client: str | None = None) -> Recording:
        """Start a recording and return it once audio arrives.

        Args:
            wish: what is asked for.
            client: the name of the assistant that asks; None for a person.

        Raises:
            RefusedError: a session is open, or the daemon is stopping.
            AmbientError: the disk, the model or the microphone cannot be used.
        """
        if self._stopping.is_set() or self._tasks is None:
            raise RefusedError("the daemon is stopping", code="stopping")
        at = now()
        until = None if wish.seconds is None else at + datetime.timedelta(seconds=wish.seconds)
        if client is None:
            allowed = Consent(consent.RECORD, user_name(), at, until)
        else:
            allowed = Consent(consent.ASSISTANT, f"{user_name()} through {client}", at, until)
        self.state = consent.start(self.state, allowed)
        self.recovery.pause()
        try:
            with self._start as scope:
                await self.arming.leave()
                recording = await open_recording(self.root, await self._wanted(wish, allowed))
            if scope.cancelled_caught:
                raise RefusedError("it was stopped while it started", code=STOPPED)
        except BaseException as error:
            self._session_ended()
            self._let_recovery_work()
            if isinstance(error, AmbientError):
                self.last_ended = f"it could not start: {error}"
                code, reason = error.code, error.message
                logs.event("record.failed", level=logging.ERROR, code=code, reason=reason)
            raise
        finally:
            self._start = anyio.CancelScope()
        self._take(recording)
        return recording

    async def arm(self, until: datetime.datetime | None) -> Consent:
        """Give standing consent: sessions begin by themselves when somebody speaks.

        Args:
            until: when it ends; None when somebody says ``disarm``.

        Raises:
            RefusedError: the daemon is stopping.
            AmbientError: the model cannot be used.
        """
        if self._stopping.is_set():
            raise RefusedError("the daemon is stopping", code="stopping")
        # What would go wrong when somebody speaks shall go wrong now.
        await self.storage.check()
        await self.worker_config()
        given = Consent(consent.ARMED, user_name(), now(), until)
        self._set_standing(given)
        await finishing.apart(standing.remember, self.root, given)
        return given

    async def disarm(self, why: str) -> Recording | None:
        """Withdraw standing consent; returns when nothing stands by any more.

        Args:
            why: for people.

        Returns:
            The session that ends with it; None if none does.

        Raises:
            RefusedError: it is not armed.
        """
        before = self.state.phase
        self.state = consent.disarm(self.state)
        self.last_ended = why
        logs.event("consent.ended", why=why)
        await self.arming.leave()
        await finishing.apart(standing.forget, self.root)
        if self.state.phase is Phase.CLOSING and before is not Phase.CLOSING:
            if (recording := self.listening) is not None:
                recording.stop(why)
                return recording
            self._start.cancel()
        return None

    def _set_standing(self, given: Consent) -> None:
        self.state = consent.arm(self.state, given)
        self._standing_changed.set()
        until = None if given.until is None else given.until.isoformat(timespec="seconds")
        logs.event("consent.given", basis=given.basis, by=given.by, until=until)
        if self.state.phase is Phase.ARMED:
            self.arming.enter()

    async def _take_up(self) -> None:
        """Go on where a daemon before this one died, and finish what cannot go on."""
        going_on = await self._continue()
        await self._rearm()
        await self.recovery.run(self.root, going_on=going_on)

    async def _continue(self) -> str | None:
        """Go on with the session that was being recorded a moment ago; return its id."""
        within_s = self.settings.number("session.continue_within_s")
        try:
            found = await finishing.apart(continuing.find, self.root, within_s, now())
            if found is None:
                return None
            self.state = consent.go_on(self.state, found.consent)
        except (AmbientError, OSError) as error:
            logs.event("session.not_continued", level=logging.WARNING, reason=str(error))
            return None
        self.recovery.pause()
        try:
            with self._start as scope:
                recording = await continuing.go_on(found, await self._wanted_again(found))
            if scope.cancelled_caught:
                raise RefusedError("it was stopped while it started", code=STOPPED)
        except AmbientError as error:
            self._session_ended()
            self._let_recovery_work()
            logs.event("session.not_continued", level=logging.ERROR, reason=error.message)
            return None
        finally:
            self._start = anyio.CancelScope()
        self._take(recording)
        if found.paused:
            self.pause()
        for track in found.muted & set(recording.tracks):
            self.mute(track)
        return found.path.name

    async def _wanted_again(self, found: Interrupted) -> Wanted:
        """Return what was wanted of a session that goes on."""
        meta = found.meta
        call = CALL in meta["tracks"]
        wish = Wish(meta["name"], None, meta["model"] is not None, call)
        wanted = await self._wanted(wish, found.consent)
        sources = {
            # What a person allowed to be heard in the place of a microphone is allowed again.
            track: {**source, "allow_monitor": bool(meta["tracks"][track].get("is_monitor"))}
            for track, source in wanted.sources.items()
        }
        return wanted._replace(sources=sources)

    async def _rearm(self) -> None:
        """Go on under the consent that a daemon before this one had when it died."""
        after_reboot = self.settings.text("armed.after_reboot") == "on"
        look = partial(standing.recall, self.root, now(), after_reboot=after_reboot)
        given = await finishing.apart(look)
        if given is not None:
            self._set_standing(given)

    async def _expire(self) -> None:
        """End standing consent when its time is over, by the clock that is ahead."""
        while True:
            self._standing_changed = anyio.Event()
            given = self.state.standing
            if given is None or given.until is None:
                await self._standing_changed.wait()
                continue
            left_s = (given.until - now()).total_seconds()
            deadline_ns = clock.boot_ns() + int(left_s * 1e9)
            while self.state.standing is given:
                left_s = min(left_s, (given.until - now()).total_seconds())
                left_s = min(left_s, (deadline_ns - clock.boot_ns()) / 1e9)
                if left_s <= 0:
                    await self.disarm("the consent to listen ended")
                    break
                with anyio.move_on_after(min(left_s, EXPIRY_LOOK_S)):
                    await self._standing_changed.wait()

    def _stand_by(self) -> Standby:
        return Standby(self.wanted_sources(), self._vad())

    async def _begin_by_itself(self, opened: Mapping[str, OpenInput]) -> None:
        """Begin a session, because somebody spoke while it was armed."""
        given = self.state.standing
        if given is None or self._stopping.is_set():
            await inputs.close_all(opened)
            return
        self.state = consent.start(self.state, given)
        self.recovery.pause()
        try:
            with self._start as scope:
                recording = await begin_recording(
                    self.root, await self._wanted(Wish(), given), opened
                )
            if scope.cancelled_caught:
                raise RefusedError("it was stopped while it started", code=STOPPED)
        except AmbientError as error:
            self.last_ended = f"it could not start: {error}"
            logs.event("record.failed", level=logging.ERROR, code=error.code, reason=error.message)
            await inputs.close_all(opened)
            self._let_recovery_work()
            self.state = consent.ended(self.state)
            if error.code != STOPPED:
                await anyio.sleep(START_AGAIN_S)
            if self.state.phase is Phase.ARMED:
                self.arming.enter()
            return
        finally:
            self._start = anyio.CancelScope()
        self._take(recording)

    def _take(self, recording: Recording) -> None:
        if self._tasks is None:
            raise AssertionError("the daemon does not run")
        self.state = consent.started(self.state, recording.session.id)
        self.recordings.append(recording)
        self._tasks.start_soon(self._own, recording)

    def stop_session(self) -> Recording | None:
        """End the open session, or give up its start; returns at once.

        Returns:
            The recording that ends; None if only a start was given up.

        Raises:
            RefusedError: there is none.
        """
        before = self.state.phase
        self.state = consent.stop(self.state)
        if before is Phase.STARTING:
            self._start.cancel()
            return None
        if before is Phase.CHECKING and self.soundcheck is not None:
            self.soundcheck.stop()
            return None
        recording = self._open_session()
        recording.stop("it was stopped")
        return recording

    def check_sound(self, seconds: float) -> Soundcheck:
        """Show the levels of the inputs for a while, and keep nothing; returns at once.

        Raises:
            RefusedError: the microphone is in use, or the daemon is stopping.
        """
        if self._stopping.is_set() or self._tasks is None:
            raise RefusedError("the daemon is stopping", code="stopping")
        self.state = consent.check(self.state)
        self.soundcheck = Soundcheck(self.wanted_sources(), self._vad(), seconds)
        self._tasks.start_soon(self._check_sound, self.soundcheck)
        return self.soundcheck

    async def _check_sound(self, soundcheck: Soundcheck) -> None:
        try:
            await soundcheck.run()
        except Exception as raised:  # noqa: BLE001 - whatever went wrong, the daemon goes on
            logs.event("soundcheck.failed", level=logging.ERROR, exc_info=True, reason=str(raised))
        finally:
            self._session_ended()

    def pause(self, *, by_assistant: bool = False) -> Recording:
        """Close the microphone inside the session; returns at once.

        Raises:
            RefusedError: there is no session, or it is paused; so do the others.
        """
        is_open = self.state.phase is not Phase.PAUSED
        self.state = consent.pause(self.state, by_assistant=by_assistant)
        recording = self._open_session()
        if is_open:
            recording.pause()
        return recording

    def resume(self, *, by_assistant: bool = False) -> Recording:
        """Open it again."""
        self.state = consent.resume(self.state, by_assistant=by_assistant)
        recording = self._open_session()
        recording.resume()
        return recording

    def mute(self, track: str) -> Recording:
        """Close the input of one track inside the session."""
        state = consent.mute(self.state, track)
        recording = self._with_track(track)
        self.state = state
        recording.mute(track)
        return recording

    def unmute(self, track: str) -> Recording:
        """Open it again."""
        self.state = consent.unmute(self.state, track)
        recording = self._with_track(track)
        recording.unmute(track)
        return recording

    def _open_session(self) -> Recording:
        recording = self.listening
        if recording is None:
            raise AssertionError(f"there is no session while {self.state.phase.value}")
        return recording

    def _with_track(self, track: str) -> Recording:
        recording = self._open_session()
        if track not in recording.tracks:
            raise RefusedError(
                f"the session has no track {track}",
                f"it has {', '.join(recording.tracks)}",
                code="no_such_track",
            )
        return recording

    async def _wanted(self, wish: Wish, allowed: Consent) -> Wanted:
        await self.storage.check()
        by_itself = allowed.basis == consent.ARMED
        silence = "armed.silence_minutes" if by_itself else "session.silence_minutes"
        return Wanted(
            sources=self.wanted_sources(wish.call),
            name=wish.name,
            consent=allowed,
            limits=Limits(
                asked_s=wish.seconds,
                max_s=self.settings.number("session.max_minutes") * 60,
                silence_s=self.settings.number(silence) * 60 or None,
                until=None if wish.seconds else allowed.until,
            ),
            model=self.settings.text("speech.model") if wish.transcribe else None,
            worker_config=await self.worker_config() if wish.transcribe else None,
            floor_bytes=self.storage.floor_bytes,
        )

    def wanted_sources(self, call: bool | None = None) -> dict[str, Source]:
        """Return what would be opened by track.

        Args:
            call: whether that has the track ``call``; None as the setting has it.
        """
        if call is None:
            call = self.settings.text("capture.call") != "off"
        return {track: self._sources[track] for track in ([ROOM, CALL] if call else [ROOM])}

    @property
    def listening(self) -> Recording | None:
        """The recording whose microphone is open."""
        return next((one for one in self.recordings if not one.closed.is_set()), None)

    async def worker_config(self) -> dict[str, Any]:
        """Return what a transcriber worker is told first.

        Raises:
            ModelError: the model is missing or is not the one it should be.
        """
        settings = self.settings
        state = Path(wire.state_folder())
        model = await anyio.to_thread.run_sync(models.ready, settings.text("speech.model"), state)
        return {
            "model": str(model),
            "engine": settings.text("speech.engine"),
            "threads": settings.integer("speech.threads"),
            "language": settings.optional_text("speech.language"),
            "beam_size": settings.integer("speech.beam_size"),
            "early_decode": settings.text("speech.early_decode") == "on",
            "unload_after_s": settings.integer("speech.unload_after_s"),
            "vad": self._vad(),
        }

    def _vad(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "on": settings.number("speech.vad_on"),
            "off": settings.number("speech.vad_off"),
            "min_speech_ms": settings.integer("speech.min_speech_ms"),
            "end_silence_ms": settings.integer("speech.end_silence_ms"),
            "pad_before_ms": settings.integer("speech.pad_before_ms"),
            "pad_after_ms": settings.integer("speech.pad_after_ms"),
            "max_turn_ms": settings.integer("speech.max_turn_ms"),
        }

    def _session_ended(self) -> None:
        self.state = consent.ended(self.state)
        if self.state.phase is Phase.ARMED and not self._stopping.is_set():
            self.arming.enter()

    async def _own(self, recording: Recording) -> None:
        """Run a recording to its end; its failure is not the daemon's."""
        try:
            await recording.run(self._session_ended)
        except Exception as raised:  # noqa: BLE001 - whatever went wrong, the daemon goes on
            error = cause(raised)
            is_defect = not isinstance(error, AmbientError)
            reason = str(error)
            logs.event("session.failed", level=logging.ERROR, exc_info=is_defect, reason=reason)
            recording.problem = f"it failed: {error}"
            why = [recording.why_ended] if recording.why_ended else []
            recording.why_ended = "; ".join([*why, recording.problem])
        finally:
            self.recordings.remove(recording)
            self.last_ended = recording.ending
            self._let_recovery_work()

    def _let_recovery_work(self) -> None:
        if not self.recordings:
            self.recovery.resume()

    async def _drain(self) -> None:
        with self._draining as scope:
            scope.deadline = anyio.current_time() + DRAIN_S
            # A person who stops the daemon does not want it to listen when it is back.
            await self.arming.leave()
            await finishing.apart(standing.forget, self.root)
            if self.soundcheck is not None:
                self.soundcheck.stop()
            if (open_now := self.listening) is not None:
                self.state = consent.stop(self.state)
                open_now.stop("the daemon was stopped")
            for recording in list(self.recordings):
                await recording.done.wait()
        if scope.cancelled_caught:
            logs.event("daemon.drain_cut_short", level=logging.WARNING)
