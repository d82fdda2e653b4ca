import pytest

from ambientd.store.bleed import without_bleed
from ambientd.store.turns import Line


def line(track: str, start_ms: int, end_ms: int, text: str) -> Line:
    return Line(track, start_ms, end_ms, None, text)


CALL = line("call", 10_000, 14_000, "Could you send me the report by Friday?")


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "text"),
    [
        (10_000, 14_000, "Could you send me the report by Friday?"),
        (10_050, 14_100, "could you SEND me the reports by Friday"),  # heard a little worse
        (12_000, 16_000, "send me the report by Friday"),  # half of the time is common
        (11_000, 12_000, "the report"),  # a part of it, heard as a turn of its own
        (9000, 20_000, "so could you send me the report by Friday I said and much more then"),
    ],
)
def test_a_line_of_the_room_that_repeats_the_call_is_left_out(
    start_ms: int, end_ms: int, text: str
) -> None:
    room = line("room", start_ms, end_ms, text)
    assert without_bleed([room, CALL]) == [CALL]
    assert without_bleed([CALL, room]) == [CALL]


@pytest.mark.parametrize(
    ("track", "start_ms", "end_ms", "text"),
    [
        ("room", 12_001, 16_001, "send me the report by Friday"),  # not yet half of the time
        ("room", 20_000, 24_000, "Could you send me the report by Friday?"),  # said again later
        ("room", 10_000, 14_000, "Could you wait, the other file is not ready"),  # talked over it
        ("room", 10_000, 14_000, "..."),
        ("call", 10_000, 14_000, "Could you send me the report by Friday?"),
    ],
)
def test_what_was_said_in_the_room_or_in_the_call_stays(
    track: str, start_ms: int, end_ms: int, text: str
) -> None:
    said = [line(track, start_ms, end_ms, text), CALL]
    assert without_bleed(said) == said


def test_a_long_line_of_the_call_is_found_behind_many_short_ones() -> None:
    long = line("call", 0, 60_000, "one two three four five six seven")
    short = [line("call", 1000 * n, 1000 * n + 500, f"word{n}") for n in range(1, 58)]
    room = line("room", 57_000, 59_900, "six seven")
    assert without_bleed([long, *short, room]) == [long, *short]
