"""The state machine of consent: every state that can be reached, and every command in it."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest

from ambientd import consent
from ambientd.consent import Consent, Phase, State
from ambientd.errors import RefusedError

NOW = datetime.datetime(2026, 3, 1, 9, 0, tzinfo=datetime.UTC)
RECORD = Consent(consent.RECORD, "ann", NOW, None)
ARMED = Consent(consent.ARMED, "ann", NOW, NOW + datetime.timedelta(hours=2))
LATER = ARMED._replace(until=NOW + datetime.timedelta(hours=3))

COMMANDS: dict[str, Callable[[State], State]] = {
    "record": lambda state: consent.start(state, RECORD),
    "speech": lambda state: consent.start(state, ARMED),
    "go on": lambda state: consent.go_on(state, RECORD),
    "arm": lambda state: consent.arm(state, LATER),
    "disarm": consent.disarm,
    "stop": consent.stop,
    "check": consent.check,
    "pause": consent.pause,
    "resume": consent.resume,
    "assistant's pause": lambda state: consent.pause(state, by_assistant=True),
    "assistant's resume": lambda state: consent.resume(state, by_assistant=True),
    "mute": lambda state: consent.mute(state, "room"),
    "unmute": lambda state: consent.unmute(state, "room"),
}
FACTS: dict[str, Callable[[State], State]] = {
    "started": lambda state: consent.started(state, "today"),
    "ended": consent.ended,
}

ALLOWED = {
    Phase.DEAF: {"record", "go on", "arm", "check"},
    Phase.CHECKING: {"arm", "stop"},
    Phase.ARMED: {"record", "speech", "arm", "disarm"},
    Phase.STARTING: {"arm", "stop"},
    Phase.RECORDING: {"arm", "stop", "pause", "assistant's pause", "mute"},
    Phase.PAUSED: {"arm", "stop", "resume", "mute"},
    Phase.CLOSING: {"arm", "stop"},
}
"""What may be asked for in each phase. Besides: disarm where there is standing consent, and of mute
and unmute the one that changes something."""


def facts(state: State) -> set[str]:
    """Return what may happen by itself."""
    if state.phase is Phase.STARTING:
        return {"started", "ended"}
    by_itself = {*consent.IN_SESSION, Phase.CHECKING, Phase.CLOSING}
    return {"ended"} if state.phase in by_itself else set()


def attempt(name: str, state: State) -> State | RefusedError:
    try:
        return COMMANDS[name](state)
    except RefusedError as refused:
        return refused


def reachable() -> list[State]:
    found = [State()]
    for state in found:
        steps = [attempt(name, state) for name in COMMANDS]
        steps += [FACTS[name](state) for name in facts(state)]
        found += [
            step
            for step in dict.fromkeys(one for one in steps if isinstance(one, State))
            if step not in found
        ]
    return found


STATES = reachable()


def allowed(state: State) -> set[str]:
    names = set(ALLOWED[state.phase])
    if state.standing is not None:
        names.add("disarm")
    if state.phase is Phase.PAUSED and state.is_assistants_pause:
        names |= {"pause", "assistant's resume"}
    if state.muted and state.phase in consent.IN_SESSION:
        names = (names - {"mute"}) | {"unmute"}
    return names


def test_all_phases_are_reached() -> None:
    assert {state.phase for state in STATES} == set(Phase)
    assert len(STATES) > 20


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_command_is_obeyed_or_refused_with_a_reason_and_what_to_do(
    state: State, name: str
) -> None:
    outcome = attempt(name, state)
    assert isinstance(outcome, State) == (name in allowed(state))
    if isinstance(outcome, RefusedError):
        assert outcome.message
        assert outcome.hint
        assert outcome.code != RefusedError.code


@pytest.mark.parametrize("state", STATES, ids=str)
def test_streams_are_open_only_under_a_consent(state: State) -> None:
    if state.phase is Phase.DEAF:
        assert state.standing is None
    if state.phase is Phase.ARMED:
        assert state.standing is not None
    if state.phase is Phase.CLOSING:
        return  # of a session, or of a check that belongs to none
    assert (state.session is not None) == (state.phase in {*consent.IN_SESSION, Phase.STARTING})
    assert not state.muted or state.session is not None


@pytest.mark.parametrize("state", STATES, ids=str)
def test_whatever_is_going_on_a_person_can_have_it_deaf(state: State) -> None:
    for name in ("disarm", "stop"):
        outcome = attempt(name, state)
        state = outcome if isinstance(outcome, State) else state
    if state.phase is Phase.CLOSING:
        state = consent.ended(state)
    assert state == State()


def test_a_session_that_began_by_itself_ends_with_its_consent_and_another_does_not() -> None:
    armed = consent.arm(State(), ARMED)
    by_itself = consent.started(consent.start(armed, ARMED), "today")
    assert consent.disarm(by_itself).phase is Phase.CLOSING
    asked_for = consent.started(consent.start(armed, RECORD), "today")
    assert consent.disarm(asked_for) == asked_for._replace(standing=None)


def test_what_a_person_paused_an_assistant_does_not_resume() -> None:
    state = consent.started(consent.start(State(), RECORD), "today")
    paused = consent.pause(consent.pause(state, by_assistant=True))
    with pytest.raises(RefusedError, match="a person paused it"):
        consent.resume(paused, by_assistant=True)
    assert consent.resume(paused) == state


def test_a_session_that_ends_leaves_standing_consent_as_it_is() -> None:
    armed = consent.arm(State(), ARMED)
    recording = consent.started(consent.start(armed, ARMED), "today")
    assert consent.ended(consent.stop(recording)) == armed
    rearmed = consent.arm(recording, LATER)
    assert consent.ended(rearmed) == State(Phase.ARMED, LATER)
