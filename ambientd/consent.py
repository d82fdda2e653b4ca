"""Whether anybody may be heard: one pure state machine for the whole daemon.

``deaf``: no stream is open. ``armed``: a person gave standing consent; streams are open, two
seconds of them in memory, and a session starts when somebody speaks. ``checking``: a person looks
at the levels for a few seconds, and nothing is kept. ``starting``, ``recording``, ``paused`` and
``closing`` are the life of a session. Every other module asks this one; what is refused is refused
here, with what to do instead.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from ambientd.errors import RefusedError

RECORD = "record"
ARMED = "armed"
ASSISTANT = "assistant"
"""What allowed a session, its basis in session.json: `ambientctl record`, `ambientctl arm`, or the
tool record_start, which works only where a person has set ``mcp.allow_control``."""


class Phase(Enum):
    """What the microphone is doing."""

    DEAF = "deaf"
    ARMED = "armed"
    CHECKING = "checking"
    STARTING = "starting"
    RECORDING = "recording"
    PAUSED = "paused"
    CLOSING = "closing"


IN_SESSION = {Phase.RECORDING, Phase.PAUSED}


class Consent(NamedTuple):
    """Who allowed it, how, since when, and until when.

    Attributes:
        basis: RECORD, ARMED or ASSISTANT.
        by: the user's name; of ASSISTANT with the name of the client.
        at: when it was given.
        until: when it ends by itself; None if only by a person.
    """

    basis: str
    by: str
    at: datetime.datetime
    until: datetime.datetime | None

    def as_json(self) -> dict[str, Any]:
        """Return it as session.json and status have it."""
        until = None if self.until is None else self.until.isoformat(timespec="seconds")
        at = self.at.isoformat(timespec="milliseconds")
        return {"basis": self.basis, "by": self.by, "at": at, "until": until}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Consent:
        """Return what ``as_json`` made a record of.

        Raises:
            ValueError: it is none; so may KeyError or TypeError be.
        """
        until = record["until"]
        return cls(
            str(record["basis"]),
            str(record["by"]),
            datetime.datetime.fromisoformat(record["at"]),
            None if until is None else datetime.datetime.fromisoformat(until),
        )


class State(NamedTuple):
    """What is allowed now.

    Attributes:
        phase: what the microphone is doing.
        standing: the consent under which it is armed, also while a session is open; None without.
        session: the consent under which the session is recorded; None without one.
        session_id: which session that is, once audio arrives.
        muted: the tracks of the session that a person closed.
        is_assistants_pause: whether an assistant paused it.
    """

    phase: Phase = Phase.DEAF
    standing: Consent | None = None
    session: Consent | None = None
    session_id: str = ""
    muted: frozenset[str] = frozenset()
    is_assistants_pause: bool = False


def start(state: State, consent: Consent) -> State:
    """Begin a session: a person asked for it, or somebody spoke while it was armed.

    Raises:
        RefusedError: a session is open; so do the others where they do not fit.
    """
    if state.phase is Phase.STARTING:
        raise RefusedError("a session is being started", "wait for it", code="session_open")
    if state.phase is Phase.CLOSING:
        raise RefusedError("the microphone is being closed", "try again", code="session_open")
    if state.phase in IN_SESSION:
        raise RefusedError(
            f"session {state.session_id} is open",
            "stop it first: ambientctl stop",
            code="session_open",
        )
    if state.phase is Phase.CHECKING:
        raise RefusedError(
            "the microphone is being tested", "end that: ambientctl stop", code="checking"
        )
    if consent.basis == ARMED and state.phase is not Phase.ARMED:
        raise _not_armed()
    return state._replace(phase=Phase.STARTING, session=consent)


def started(state: State, session_id: str) -> State:
    """Take note that audio arrives."""
    return state._replace(phase=Phase.RECORDING, session_id=session_id)


def go_on(state: State, consent: Consent) -> State:
    """Go on with a session whose daemon died, under the consent that it had."""
    if state.phase is not Phase.DEAF:
        raise RefusedError("something else began", "start anew", code="session_open")
    return state._replace(phase=Phase.STARTING, session=consent)


def check(state: State) -> State:
    """Begin to show a person the levels of the inputs."""
    if state.phase is Phase.CHECKING:
        raise RefusedError("it is being tested already", "wait for it", code="checking")
    if state.phase is not Phase.DEAF:
        raise RefusedError(
            "the microphone is in use", "see its level: ambientctl status --watch", code="in_use"
        )
    return state._replace(phase=Phase.CHECKING)


def stop(state: State) -> State:
    """End the session, or give up its start; or end the check of the levels."""
    if state.phase is Phase.CLOSING:
        return state
    if state.phase is Phase.ARMED:
        raise RefusedError(
            "nothing is being recorded, but it is armed",
            "close the microphone: ambientctl disarm",
            code="not_recording",
        )
    if state.phase is Phase.DEAF:
        raise _not_recording()
    return state._replace(phase=Phase.CLOSING)


def ended(state: State) -> State:
    """Take note that the inputs of a session or a check are closed: back to where it came from."""
    phase = Phase.DEAF if state.standing is None else Phase.ARMED
    return State(phase, state.standing)


def arm(state: State, consent: Consent) -> State:
    """Give standing consent, or replace it. An open session goes on as it is."""
    phase = Phase.ARMED if state.phase is Phase.DEAF else state.phase
    return state._replace(phase=phase, standing=consent)


def disarm(state: State) -> State:
    """Withdraw standing consent, and with it the session that it allowed."""
    if state.standing is None:
        raise _not_armed()
    state = state._replace(standing=None)
    if state.phase is Phase.ARMED:
        return state._replace(phase=Phase.DEAF)
    if state.session is not None and state.session.basis == ARMED:
        return state._replace(phase=Phase.CLOSING)
    return state


def pause(state: State, *, by_assistant: bool = False) -> State:
    """Close the inputs of the session for a while.

    A person may take over the pause of an assistant, which then cannot end it any more.
    """
    _check_open(state)
    if state.phase is Phase.PAUSED and (by_assistant or not state.is_assistants_pause):
        raise RefusedError("it is paused already", "go on with: ambientctl resume", code="paused")
    return state._replace(phase=Phase.PAUSED, is_assistants_pause=by_assistant)


def resume(state: State, *, by_assistant: bool = False) -> State:
    """Open them again. What a person closed only a person opens."""
    _check_open(state)
    if state.phase is not Phase.PAUSED:
        raise RefusedError("it is not paused", "it records already", code="not_paused")
    if by_assistant and not state.is_assistants_pause:
        raise RefusedError(
            "a person paused it", "only they go on: ambientctl resume", code="paused_by_person"
        )
    return state._replace(phase=Phase.RECORDING, is_assistants_pause=False)


def mute(state: State, track: str) -> State:
    """Close the input of one track for a while."""
    _check_open(state)
    if track in state.muted:
        raise RefusedError(
            f"{track} is muted already", f"go on with: ambientctl unmute {track}", code="muted"
        )
    return state._replace(muted=state.muted | {track})


def unmute(state: State, track: str) -> State:
    """Open it again."""
    _check_open(state)
    if track not in state.muted:
        raise RefusedError(f"{track} is not muted", "it is recorded already", code="not_muted")
    return state._replace(muted=state.muted - {track})


def _check_open(state: State) -> None:
    if state.phase is Phase.STARTING:
        raise RefusedError("a session is being started", "try again", code="starting")
    if state.phase not in IN_SESSION:
        raise _not_recording()


def _not_recording() -> RefusedError:
    return RefusedError(
        "nothing is being recorded", "start with: ambientctl record", code="not_recording"
    )


def _not_armed() -> RefusedError:
    return RefusedError("it is not armed", "arm it with: ambientctl arm", code="not_armed")
