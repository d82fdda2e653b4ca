"""The control methods: what `ambientctl` can ask of the daemon.

Each takes and returns a JSON object. `ambient mcp` attaches first, and an attached connection
cannot reach them.
"""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

import anyio

from ambientd import report, wire
from ambientd.daemon import Daemon, Wish
from ambientd.errors import CaptureError, ModelError, RefusedError
from ambientd.recording import Recording
from ambientd.rpc.service import ControlMethod
from ambientd.store import layout
from ambientd.store.session import now

MAX_NAME_CHARS = 200
MAX_SECONDS = 7 * 24 * 3600
MAX_SOUNDCHECK_SECONDS = 60
DEVICES_TIMEOUT_S = 10.0

STOP_TIMEOUT_S = 20.0
"""More than a capture child that hangs is given before it is killed."""


def methods(daemon: Daemon) -> dict[str, ControlMethod]:
    """Return the table of control methods of one daemon."""
    control = Control(daemon)
    return {
        "ambient/status": ControlMethod(control.status),
        "ambient/record": ControlMethod(control.record, waits=True),
        "ambient/stop": ControlMethod(control.stop, waits=True),
        "ambient/arm": ControlMethod(control.arm, waits=True),
        "ambient/disarm": ControlMethod(control.disarm, waits=True),
        "ambient/pause": ControlMethod(control.pause),
        "ambient/resume": ControlMethod(control.resume),
        "ambient/mute": ControlMethod(control.mute),
        "ambient/unmute": ControlMethod(control.unmute),
        "ambient/devices": ControlMethod(control.devices, waits=True),
        "ambient/soundcheck": ControlMethod(control.soundcheck),
    }


class Control:
    """The methods, bound to the daemon they control.

    Args:
        daemon: that daemon.
        assistant: the name of the assistant that asks; None for a person.
    """

    def __init__(self, daemon: Daemon, assistant: str | None = None) -> None:
        self._daemon = daemon
        self._assistant = assistant
        self._listing = anyio.Lock()

    async def record(self, params: dict[str, Any]) -> dict[str, Any]:
        """Start a session: ``{name?, seconds?, transcribe?, call?}`` to ``{id, devices}``.

        ``devices`` has what is heard by track; null for one that is still waited for.
        """
        name = _optional(params, "name", str)
        seconds = _optional(params, "seconds", int, float)
        transcribe = _optional(params, "transcribe", bool)
        call = _optional(params, "call", bool)
        if name is not None and not 0 < len(name.strip()) <= MAX_NAME_CHARS:
            raise _invalid(f"`name` must have 1 to {MAX_NAME_CHARS} characters")
        if seconds is not None and not 0 < seconds <= MAX_SECONDS:
            raise _invalid(f"`seconds` must lie between 0 and {MAX_SECONDS}")
        wish = Wish(name, seconds, transcribe is not False, call)
        try:
            recording = await self._daemon.record(wish, self._assistant)
        except ModelError as error:
            error.hint += "; or record without text: ambientctl record --no-transcribe"
            raise
        tracks = recording.tracks
        return {
            "id": recording.session.id,
            "devices": {name: track.known.device or None for name, track in tracks.items()},
        }

    async def stop(self, params: dict[str, Any]) -> dict[str, Any]:
        """End the session: ``{wait?}`` to ``{id, done, problem}``.

        Answers when capture is closed, or with ``wait`` when nothing is left to do for the session:
        then ``problem`` says why it is not done after all. So it does when the disk does not take
        the end of a recording whose microphone is closed.
        """
        wait = _optional(params, "wait", bool)
        daemon = self._daemon
        if wait and daemon.listening is None and daemon.recordings:
            # It was stopped before; there is still its text to wait for.
            recording: Recording | None = daemon.recordings[-1]
        else:
            recording = daemon.stop_session()
        if recording is None:
            return {"id": None, "done": True, "problem": ""}
        problem = "the microphone is closed, but the disk does not take the end of the recording"
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await recording.closed.wait()
            problem = ""
        if wait and not problem:
            await recording.done.wait()
        return {
            "id": recording.session.id,
            "done": recording.done.is_set() and not recording.problem,
            "problem": problem or recording.problem,
        }

    async def arm(self, params: dict[str, Any]) -> dict[str, Any]:
        """Give standing consent: ``{until}``, a time with its offset or null, to ``{consent}``.

        Null is until somebody disarms it. Without ``until`` it is refused: nobody shall be heard
        for longer than was meant.
        """
        if "until" not in params:
            raise _invalid("`until` must be a time, or null for until it is disarmed")
        text = _optional(params, "until", str)
        until = None
        if text is not None:
            try:
                until = datetime.datetime.fromisoformat(text)
            except ValueError:
                raise _invalid("`until` is no time") from None
            if until.tzinfo is None:
                raise _invalid("`until` must have an offset")
            if until <= now():
                raise _invalid("`until` has passed")
        given = await self._daemon.arm(until)
        return {"consent": given.as_json()}

    async def disarm(self, params: dict[str, Any]) -> dict[str, Any]:
        """Withdraw it: ``{}`` to ``{id, open}``.

        ``id`` is the session that ended with it, ``open`` one that goes on because somebody asked
        for it with `record`; null for none.
        """
        daemon = self._daemon
        ended = await daemon.disarm("it was disarmed")
        if ended is not None:
            with anyio.move_on_after(STOP_TIMEOUT_S):
                await ended.closed.wait()
        going_on = daemon.listening if ended is None else None
        return {
            "id": None if ended is None else ended.session.id,
            "open": None if going_on is None else going_on.session.id,
        }

    async def pause(self, params: dict[str, Any]) -> dict[str, Any]:
        """Close the microphone inside the session: ``{}`` to ``{id}``, as the next three."""
        return _named(self._daemon.pause(by_assistant=self._assistant is not None))

    async def resume(self, params: dict[str, Any]) -> dict[str, Any]:
        """Open it again."""
        return _named(self._daemon.resume(by_assistant=self._assistant is not None))

    async def mute(self, params: dict[str, Any]) -> dict[str, Any]:
        """Close the input of one track inside the session: ``{track}``."""
        return _named(self._daemon.mute(_track(params)))

    async def unmute(self, params: dict[str, Any]) -> dict[str, Any]:
        """Open it again."""
        return _named(self._daemon.unmute(_track(params)))

    async def devices(self, params: dict[str, Any]) -> dict[str, Any]:
        """List the inputs, asked of the audio system anew by a process of its own."""
        async with self._listing:
            return await self._list_devices()

    async def _list_devices(self) -> dict[str, Any]:
        wanted = self._daemon.wanted_sources()
        with anyio.move_on_after(DEVICES_TIMEOUT_S):
            result = await anyio.run_process(
                [sys.executable, "-m", "ambientd.audio.devices", json.dumps(wanted)],
                stderr=None,
                check=False,
            )
            answer: dict[str, Any] = json.loads(result.stdout or b"{}")
            if "devices" in answer:
                return answer
            fault = answer.get("fault", {})
            raise CaptureError(
                fault.get("message", "the inputs cannot be listed"),
                fault.get("hint", ""),
                code=fault.get("code", "capture_failed"),
            )
        raise CaptureError("the audio system does not answer", "is the audio server running?")

    async def soundcheck(self, params: dict[str, Any]) -> dict[str, Any]:
        """Open the inputs and look at their levels: ``{seconds}`` to what is seen so far.

        With ``seconds`` it begins; without, it tells of the last one. See
        ``ambientd.soundcheck.Soundcheck.as_json``.
        """
        seconds = _optional(params, "seconds", int, float)
        if seconds is not None:
            if not 1 <= seconds <= MAX_SOUNDCHECK_SECONDS:
                raise _invalid(f"`seconds` must lie between 1 and {MAX_SOUNDCHECK_SECONDS}")
            return self._daemon.check_sound(seconds).as_json()
        if self._daemon.soundcheck is None:
            raise RefusedError("there was none", "begin one: ambientctl devices test")
        return self._daemon.soundcheck.as_json()

    async def status(self, params: dict[str, Any]) -> dict[str, Any]:
        """Say what the daemon is doing: ``{partials?}``; see ``ambientd.report``."""
        partials = _optional(params, "partials", bool)
        return await report.status(self._daemon, partials=bool(partials))


def _named(recording: Recording) -> dict[str, Any]:
    return {"id": recording.session.id}


def _track(params: dict[str, Any]) -> str:
    track = params.get("track")
    if track not in layout.TRACKS:
        raise _invalid(f"`track` must be one of {', '.join(layout.TRACKS)}")
    return str(track)


def _optional(params: dict[str, Any], name: str, *kinds: type) -> Any:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _invalid(f"`{name}` has the wrong type")
    return value


def _invalid(text: str) -> wire.Fault:
    return wire.Fault(wire.INVALID_PARAMS, text)
