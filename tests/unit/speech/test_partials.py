"""What stands of a partial text is never taken back, and no more is made than is of use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ambientd.speech.partials import EVERY_MS, LEAST_MS, Partials
from ambientd.speech.segmenter import Turn


def test_words_stand_when_two_decodes_agree_on_them() -> None:
    partials = Partials()
    partials.take(Turn(0, 1000), "Did the bill", 50)
    assert (partials.stable, partials.text) == ("", "Did the bill")
    partials.take(Turn(0, 2000), "Did the build finish", 50)
    assert (partials.stable, partials.text) == ("Did the", "Did the build finish")
    partials.take(Turn(0, 3000), "Do the build finish last", 50)
    assert (partials.stable, partials.text) == ("Did the", "Did the build finish last")


def test_another_turn_begins_anew() -> None:
    partials = Partials()
    for _ in range(2):
        partials.take(Turn(0, 1000), "Yes.", 50)
    partials.take(Turn(5000, 6000), "No.", 50)
    assert (partials.stable, partials.text) == ("", "No.")


def test_words_in_doubt_are_not_shown_and_take_nothing_back() -> None:
    partials = Partials()
    for _ in range(2):
        partials.take(Turn(0, 1000), "Did the", 50)
    partials.take(Turn(0, 2000), None, 50)
    assert (partials.stable, partials.text) == ("Did the", "Did the")
    assert not partials.is_due(Turn(0, 2500)), "it counts as made"
    partials.take(Turn(5000, 6000), None, 50)
    assert (partials.stable, partials.text) == ("", ""), "never the words of another turn"


def test_it_is_made_at_intervals_that_leave_the_engine_time() -> None:
    partials = Partials()
    assert not partials.is_due(None)
    assert not partials.is_due(Turn(0, LEAST_MS - 1))
    assert partials.is_due(Turn(0, LEAST_MS))
    partials.take(Turn(0, 1000), "Yes", 50)
    assert not partials.is_due(Turn(0, 1000 + EVERY_MS - 1))
    assert partials.is_due(Turn(0, 1000 + EVERY_MS))
    partials.take(Turn(0, 2000), "Yes", 1500)
    assert not partials.is_due(Turn(0, 4900))
    assert partials.is_due(Turn(0, 5000))


WORDS = st.lists(st.sampled_from("abc"), max_size=6).map(" ".join)


@given(st.lists(WORDS, max_size=10))
def test_what_stands_only_grows_and_begins_the_text(texts: list[str]) -> None:
    partials = Partials()
    stood = ""
    for number, text in enumerate(texts):
        partials.take(Turn(0, 1000 * (number + 1)), text, 10)
        assert partials.stable.startswith(stood)
        assert partials.text.startswith(partials.stable)
        stood = partials.stable
