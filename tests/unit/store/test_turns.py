"""raw.jsonl: what counts as published, and what a line must be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ambientd.errors import StoreError
from ambientd.store import turns

PATH = "/sessions/talk/raw.jsonl"
TURN: dict[str, Any] = {"track": "room", "start_ms": 0, "end_ms": 900, "text": "words"}

TURNS = st.fixed_dictionaries(
    {
        "track": st.sampled_from(["room", "call"]),
        "start_ms": st.integers(0, 10**9),
        "end_ms": st.integers(0, 10**9),
        "text": st.text(st.characters(codec="utf-8")),
    }
)


def log(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records)


@given(st.lists(TURNS, max_size=5), st.data())
def test_any_beginning_of_a_log_holds_a_beginning_of_its_lines(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = log(*records)
    cut = data.draw(st.integers(0, len(whole)))
    lines = turns.parse(whole, PATH)
    assert lines == [turns.Line(speaker=None, **record) for record in records]
    assert turns.parse(whole[:cut], PATH) == lines[: whole.count(b"\n", 0, cut)]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x7f"])
def test_only_a_newline_ends_a_line(mark: str) -> None:
    (line,) = turns.parse(log({**TURN, "text": f"a{mark}b"}), PATH)
    assert line.text == f"a{mark}b"


def test_a_carriage_return_is_white_space_and_ends_no_line() -> None:
    data = log(TURN).replace(b", ", b",\r").replace(b"\n", b"\r\n")
    assert data.count(b"\r") == len(TURN)
    assert turns.parse(data, PATH) == turns.parse(log(TURN), PATH)


def test_blank_lines_count_for_numbers_in_errors_and_for_nothing_else() -> None:
    data = b"\n \t\r\n" + log(TURN) + b"\n"
    assert [number for number, _ in turns.records(data, PATH)] == [3]
    with pytest.raises(StoreError, match="line 45: not JSON"):
        turns.parse(data + b"{\n", PATH, first=41)


def test_members_that_readers_do_not_need_may_be_there_or_not() -> None:
    known = {**TURN, "confidence": 0.9, "language": "en"}
    later = {**TURN, "confidence": None, "words": [{"at_ms": 3}]}
    first, *others = turns.parse(log(TURN, known, later), PATH)
    assert others == [first, first]


@pytest.mark.parametrize("name", TURN)
@pytest.mark.parametrize("value", [..., None, True, 1.0, [], {}])
def test_a_member_that_is_missing_or_of_another_type_names_file_and_line(
    name: str, value: object
) -> None:
    bad = {key: one for key, one in {**TURN, name: value}.items() if one is not ...}
    with pytest.raises(StoreError) as caught:
        turns.parse(log(TURN, bad), PATH)
    assert caught.value.message.startswith(f"{PATH}, line 2: ")


@pytest.mark.parametrize("bad", [b"words", b"\xff", b"7", b"[" * 100_000, b"{} {}"])
def test_a_complete_line_that_is_no_object_is_an_error_that_quotes_nothing(bad: bytes) -> None:
    with pytest.raises(StoreError) as caught:
        turns.parse(log(TURN) + bad + b"\n", PATH)
    assert caught.value.message.startswith(f"{PATH}, line 2: not ")
    assert "words" not in caught.value.message
