"""What `ambient/status` answers: how the daemon is, in one JSON object."""

from __future__ import annotations

import os
from typing import Any

import anyio

from ambientd import __version__, consent
from ambientd.consent import Phase
from ambientd.daemon import Daemon
from ambientd.guards import End, is_announced
from ambientd.recording import Recording
from ambientd.speech.supervisor import Transcriber
from ambientd.track import TrackRecorder

ASKED_WITH = {
    consent.RECORD: "ambientctl record",
    consent.ARMED: "ambientctl arm",
    consent.ASSISTANT: "an assistant's record_start",
}


async def status(daemon: Daemon, *, partials: bool) -> dict[str, Any]:
    """Return what the daemon is doing.

    Args:
        daemon: the daemon.
        partials: whether the session shall have what is being said at the moment, by track:
            ``start_ms``, ``end_ms``, ``text``, and ``stable``, the words of it that stand. It is
            made only while somebody asks for it, so the first answer has none.
    """
    now_s = anyio.current_time()
    open_now = daemon.listening
    disk = await daemon.storage.status(open_now.disk if open_now else None)
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
        "state": daemon.state.phase.value,
        "listening": open_now is not None,
        "why": _why(daemon, open_now),
        "consent": None if daemon.state.standing is None else daemon.state.standing.as_json(),
        "standby": _standby(daemon),
        "session": session,
        "finishing": [_session(one, now_s) for one in daemon.recordings if one.closed.is_set()],
        "recovering": _recovery(daemon),
        "readers": daemon.service.readers if daemon.service else 0,
        "model": daemon.settings.text("speech.model"),
        "disk": disk,
    }


def _why(daemon: Daemon, open_now: Recording | None) -> str:
    if open_now is not None:
        given = open_now.session.meta["consent"]
        return f"{ASKED_WITH.get(given['basis'], given['basis'])}, by {given['by']}"
    if daemon.state.phase is Phase.CHECKING:
        return "ambientctl devices test; nothing is kept"
    if (standing := daemon.state.standing) is not None:
        return f"ambientctl arm, by {standing.by}; a session begins when somebody speaks"
    if daemon.recordings:
        return daemon.recordings[-1].ending
    if daemon.last_ended:
        return daemon.last_ended
    if daemon.recovery.interrupted:
        ids = ", ".join(daemon.recovery.interrupted)
        return f"listening stopped when the daemon was killed; recovered {ids}"
    return "nobody has asked it to listen: ambientctl record"


def _standby(daemon: Daemon) -> dict[str, Any] | None:
    standby = daemon.arming.standby
    if standby is None:
        return None
    return {
        name: {
            "device": track.known.device or None,
            "input": track.state,
            "level_dbfs": track.level_dbfs,
            "peak_dbfs": track.peak_dbfs,
            "warning": track.problem,
        }
        for name, track in standby.tracks.items()
    }


def _session(recording: Recording, now_s: float) -> dict[str, Any]:
    last_turn_s = recording.last_turn_s
    return {
        "id": recording.session.id,
        "name": recording.session.meta["name"],
        "state": recording.state,
        "consent": recording.session.meta["consent"],
        "elapsed_s": round(recording.elapsed_s, 1),
        "ends": _end(recording.end),
        "captured_ms": recording.captured_ms,
        "tracks": {name: _track(track) for name, track in recording.tracks.items()},
        "lag_ms": recording.lag_ms,
        "turns": recording.turns,
        "last_turn_age_s": None if last_turn_s is None else round(now_s - last_turn_s, 1),
        "worker": _worker(recording.transcriber),
    }


def _end(end: End | None) -> dict[str, Any] | None:
    if end is None:
        return None
    near = f"the session ends in {end.in_s:.0f} s: {end.why}" if is_announced(end) else ""
    return {"in_s": round(end.in_s), "kind": end.kind, "why": end.why, "warning": near}


def _track(track: TrackRecorder) -> dict[str, Any]:
    progress = track.progress
    return {
        "device": track.known.device or None,
        "input": track.input_state,
        "rate_hz": track.rate_hz or None,
        "level_dbfs": progress.get("rms_dbfs"),
        "peak_dbfs": progress.get("peak_dbfs"),
        "captured_frames": progress["frames"],
        "lost_frames": track.lost_frames,
        "captured_ms": track.captured_ms,
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
