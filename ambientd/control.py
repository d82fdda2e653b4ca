"""The control methods: what `ambientctl` can ask of the daemon.

Each takes and returns a JSON object. `ambient mcp` attaches first, and an attached connection
cannot reach them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio

from ambientd import __version__, wire
from ambientd.daemon import Daemon
from ambientd.errors import CaptureError, ModelError, RefusedError
from ambientd.recording import Recording
from ambientd.rpc.service import ControlMethod
from ambientd.speech.supervisor import Transcriber

MAX_NAME_CHARS = 200
MAX_SECONDS = 7 * 24 * 3600
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
        "ambient/devices": ControlMethod(control.devices, waits=True),
    }


class Control:
    """The methods, bound to the daemon they control."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._listing = anyio.Lock()

    async def record(self, params: dict[str, Any]) -> dict[str, Any]:
        """Start a session: ``{name?, seconds?, transcribe?}`` to ``{id}``."""
        name = _optional(params, "name", str)
        seconds = _optional(params, "seconds", int, float)
        transcribe = _optional(params, "transcribe", bool)
        if name is not None and not 0 < len(name.strip()) <= MAX_NAME_CHARS:
            raise _invalid(f"`name` must have 1 to {MAX_NAME_CHARS} characters")
        if seconds is not None and not 0 < seconds <= MAX_SECONDS:
            raise _invalid(f"`seconds` must lie between 0 and {MAX_SECONDS}")
        try:
            recording = await self._daemon.record(
                name=name, seconds=seconds, transcribe=transcribe is not False
            )
        except ModelError as error:
            error.hint += "; or record without text: ambientctl record --no-transcribe"
            raise
        return {"id": recording.session.id, "device": recording.track.known.device}

    async def stop(self, params: dict[str, Any]) -> dict[str, Any]:
        """End the session: ``{wait?}`` to ``{id, done, problem}``.

        Answers when capture is closed, or with ``wait`` when nothing is left to do for the session:
        then ``problem`` says why it is not done after all. So it does when the disk does not take
        the end of a recording whose microphone is closed.
        """
        wait = _optional(params, "wait", bool)
        recording = self._daemon.listening
        if recording is None and wait and self._daemon.recordings:
            # It was stopped before; there is still its text to wait for.
            recording = self._daemon.recordings[-1]
        if recording is None and self._daemon.cancel_start():
            return {"id": None, "done": True, "problem": ""}
        if recording is None:
            raise RefusedError("nothing is being recorded", code="not_recording")
        recording.stop("it was stopped")
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

    async def devices(self, params: dict[str, Any]) -> dict[str, Any]:
        """List the inputs, asked of the audio system anew by a process of its own."""
        async with self._listing:
            return await self._list_devices()

    async def _list_devices(self) -> dict[str, Any]:
        with anyio.move_on_after(DEVICES_TIMEOUT_S):
            result = await anyio.run_process(
                [sys.executable, "-m", "ambientd.audio.devices"], stderr=None, check=False
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

    async def status(self, params: dict[str, Any]) -> dict[str, Any]:
        """Say what the daemon is doing: ``{partials?}``.

        With ``partials`` the session has what is being said at the moment, by track: ``start_ms``,
        ``end_ms``, ``text``, and ``stable``, the words of it that stand. It is made only while
        somebody asks for it, so the first answer has none.
        """
        partials = _optional(params, "partials", bool)
        daemon = self._daemon
        now_s = anyio.current_time()
        open_now = daemon.listening
        disk = await daemon.storage.status(open_now.track.disk if open_now else None)
        session = _session(open_now, now_s) if open_now else None
        if partials and session is not None and open_now is not None:
            transcriber = open_now.transcriber
            session["partials"] = {} if transcriber is None else transcriber.partials()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "socket": daemon.socket_path,
            "root": str(daemon.root),
            "uptime_s": round(now_s - daemon.started_s, 1),
            "listening": open_now is not None,
            "why": self._why(open_now),
            "session": session,
            "finishing": [_session(one, now_s) for one in daemon.recordings if one.closed.is_set()],
            "recovering": _recovery(daemon),
            "readers": daemon.service.readers if daemon.service else 0,
            "model": daemon.settings.text("speech.model"),
            "disk": disk,
        }

    def _why(self, open_now: Recording | None) -> str:
        daemon = self._daemon
        if open_now is not None:
            return f"ambientctl record, by {open_now.session.meta['consent']['by']}"
        if daemon.recordings:
            return daemon.recordings[-1].ending
        if daemon.last_ended:
            return daemon.last_ended
        if daemon.recovery.interrupted:
            ids = ", ".join(daemon.recovery.interrupted)
            return f"listening stopped when the daemon was killed; recovered {ids}"
        return "nobody has asked it to listen: ambientctl record"


def _session(recording: Recording, now_s: float) -> dict[str, Any]:
    last_turn_s = recording.last_turn_s
    track = recording.track
    progress = track.progress
    return {
        "id": recording.session.id,
        "name": recording.session.meta["name"],
        "state": recording.state,
        "elapsed_s": round(now_s - recording.started_s, 1),
        "device": track.known.device,
        "input": track.input_state,
        "rate_hz": track.rate_hz,
        "level_dbfs": progress.get("rms_dbfs"),
        "peak_dbfs": progress.get("peak_dbfs"),
        "captured_frames": progress["frames"],
        "lost_frames": track.lost_frames,
        "captured_ms": track.captured_ms,
        "lag_ms": recording.lag_ms,
        "turns": recording.turns,
        "last_turn_age_s": None if last_turn_s is None else round(now_s - last_turn_s, 1),
        "worker": _worker(recording.transcriber),
        "warning": track.warning or track.disk["message"],
    }


def _worker(transcriber: Transcriber | None) -> dict[str, Any] | None:
    if transcriber is None:
        return None
    return {
        "state": transcriber.state,
        "model": transcriber.model_state,
        "pid": transcriber.worker_pid,
        "restarts": transcriber.restarts,
        "rejected": transcriber.rejected,
        "decodes": transcriber.decodes,
        "redos": transcriber.redos,
        "problem": transcriber.problem,
    }


def _recovery(daemon: Daemon) -> dict[str, Any]:
    recovery = daemon.recovery
    return {
        "waiting": len(recovery.waiting),
        "current": recovery.current,
        "worker": _worker(recovery.transcriber),
    }


def _optional(params: dict[str, Any], name: str, *kinds: type) -> Any:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _invalid(f"`{name}` has the wrong type")
    return value


def _invalid(text: str) -> wire.Fault:
    return wire.Fault(wire.INVALID_PARAMS, text)
