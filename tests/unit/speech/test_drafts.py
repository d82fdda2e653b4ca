"""A draft is begun as late as it can be ready in time, and only where it costs nobody anything."""

from __future__ import annotations

from ambientd.speech.drafts import FIRST_GUESS_MS, Draft, Drafts
from ambientd.speech.engine import Decode
from ambientd.speech.guard import Verdict
from ambientd.speech.recognition import Recognition
from ambientd.speech.segmenter import Turn

TURN = Turn(0, 1500)
MADE = Recognition(Decode("Yes.", "en", -0.1, 0.0, 2, True), Verdict.ACCEPT, 1)
DRAFT = Draft("room", TURN, MADE, 130)


def test_it_begins_when_what_a_decode_takes_is_left_of_the_silence() -> None:
    drafts = Drafts(end_silence_ms=500)
    assert not drafts.is_due("room", None), "nobody is silent"
    left_ms = round(500 - FIRST_GUESS_MS)
    assert not drafts.is_due("room", (TURN, left_ms - 1))
    assert drafts.is_due("room", (TURN, left_ms))
    for _ in range(50):
        drafts.learn(wall_ms=100, processor_ms=150)
    assert not drafts.is_due("room", (TURN, 350))
    assert drafts.is_due("room", (TURN, 410))


def test_a_turn_has_one_draft_and_it_is_the_text_of_exactly_that_turn() -> None:
    drafts = Drafts(end_silence_ms=400)
    drafts.keep(DRAFT)
    assert not drafts.is_due("room", (TURN, 400))
    assert drafts.is_due("call", (TURN, 400)), "the other track's turn is another one"
    assert drafts.is_due("room", (Turn(0, 2500), 400)), "the person went on"
    assert drafts.take("room", Turn(0, 2500)) is None
    drafts.keep(DRAFT)
    assert drafts.take("room", TURN) is DRAFT
    assert drafts.take("room", TURN) is None


def test_on_a_machine_without_an_idle_core_there_are_none_until_there_is_one() -> None:
    drafts = Drafts(end_silence_ms=400)
    drafts.learn(wall_ms=900, processor_ms=300)
    assert not drafts.is_due("room", (TURN, 400))
    drafts.learn(wall_ms=200, processor_ms=300)
    assert drafts.is_due("room", (TURN, 400))
