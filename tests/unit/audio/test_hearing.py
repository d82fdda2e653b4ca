"""What zeros, mutes, late blocks and passing changes of an input are taken for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ambientd.audio.hearing import (
    DIGITAL_SILENCE,
    MAX_REOPEN_PAUSE_S,
    MUTED,
    OK,
    REOPEN_PAUSE_S,
    ZEROS_MS,
    Hearing,
)
from ambientd.audio.pace import LOOKS, Pace
from ambientd.audio.settled import Settled
from ambientd.audio.source import Anchor, Input

RATE_HZ = 48_000
LOOK_S = 0.25
MICROPHONE = Input("mic")
MUTED_MICROPHONE = Input("mic", is_muted=True)
MONITOR = Input("speakers", is_monitor=True)


def test_zeros_are_digital_silence_after_five_seconds_and_until_there_is_sound() -> None:
    hearing = Hearing()
    assert not hearing.see(MICROPHONE, ZEROS_MS - 1, is_sound=False)
    assert hearing.see(MICROPHONE, ZEROS_MS, is_sound=False)
    assert hearing.state == DIGITAL_SILENCE
    # A capture that was started anew counts from zero, which is no sound.
    assert not hearing.see(MICROPHONE, 0, is_sound=False)
    assert not hearing.see(MICROPHONE, 100, is_sound=False)
    assert hearing.see(MICROPHONE, 0, is_sound=True)
    assert hearing.state == OK


def test_a_muted_microphone_is_muted_whatever_it_delivers() -> None:
    hearing = Hearing()
    assert hearing.see(MUTED_MICROPHONE, 0, is_sound=True)
    assert hearing.state == MUTED
    assert not hearing.see(MUTED_MICROPHONE, 60_000, is_sound=False)
    assert hearing.see(MICROPHONE, 60_000, is_sound=False)
    assert hearing.state == DIGITAL_SILENCE, "it is not muted any more, and still delivers zeros"


def test_a_monitor_is_silent_while_nobody_plays() -> None:
    hearing = Hearing()
    assert not hearing.see(MONITOR, 3_600_000, is_sound=False)
    assert hearing.state == OK
    hearing.see(MICROPHONE, ZEROS_MS, is_sound=False)
    assert hearing.see(MONITOR, ZEROS_MS, is_sound=False)
    assert hearing.state == OK


def test_a_silent_input_is_opened_again_once_a_minute_at_most_and_ever_less() -> None:
    hearing = Hearing()
    assert not hearing.should_reopen(0.0), "nothing is wrong"
    hearing.see(MICROPHONE, ZEROS_MS, is_sound=False)
    times_s = [second for second in range(4 * 3600) if hearing.should_reopen(float(second))]
    pauses_s = [after - before for before, after in itertools.pairwise(times_s)]
    assert times_s[0] == 0
    assert pauses_s[0] == REOPEN_PAUSE_S
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[-1] == MAX_REOPEN_PAUSE_S
    # Sound in between does not make it more than once a minute.
    hearing.see(MICROPHONE, 0, is_sound=True)
    hearing.see(MICROPHONE, ZEROS_MS, is_sound=False)
    assert not hearing.should_reopen(times_s[-1] + REOPEN_PAUSE_S - 1)


def looks(
    pace: Pace, rates_hz: Sequence[float], late_s: dict[int, float] | None = None
) -> list[bool]:
    """Let frames come at a rate that changes from look to look; some looks see them late."""
    frames, found = 0.0, []
    for number, rate_hz in enumerate(rates_hz):
        frames += rate_hz * LOOK_S
        late_frames = (late_s or {}).get(number, 0.0) * rate_hz
        now_ns = int((number + 1) * LOOK_S * 1e9)
        found.append(pace.is_off(Anchor(int(frames - late_frames), now_ns)))
    return found


@pytest.mark.parametrize("rate_hz", [44_100, 16_000, 96_000])
def test_another_rate_is_seen_within_three_seconds(rate_hz: int) -> None:
    found = looks(Pace(RATE_HZ), [RATE_HZ] * 20 + [rate_hz] * 12)
    assert True not in found[:20]
    assert found.index(True) - 20 < 3 / LOOK_S


@pytest.mark.parametrize("rate_hz", [RATE_HZ, RATE_HZ * 1.002, RATE_HZ * 0.998])
@pytest.mark.parametrize("late_s", [0.02, 0.2, 0.9])
def test_blocks_that_come_late_are_no_other_rate(rate_hz: float, late_s: float) -> None:
    late = dict.fromkeys(range(15, 40, 7), late_s)
    assert True not in looks(Pace(RATE_HZ), [rate_hz] * 50, late)


def test_nothing_is_said_before_there_are_two_windows() -> None:
    assert True not in looks(Pace(RATE_HZ), [8000] * (LOOKS - 1))


def test_a_change_is_told_once_when_it_has_stood_and_a_passing_one_never() -> None:
    name = Settled("mic", 1.0)
    seen = [(0.0, "mic"), (1.0, "usb"), (1.5, "mic"), (2.0, "usb"), (2.9, "usb")]
    assert [name.see(value, now_s) for now_s, value in seen] == [None] * 5
    assert [name.see("usb", now_s) for now_s in (3.0, 4.0)] == ["usb", None]
    assert [name.see("mic", now_s) for now_s in (4.1, 5.1)] == [None, "mic"]
