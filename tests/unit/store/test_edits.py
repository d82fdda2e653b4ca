"""The fold, held against its rules written out as plainly as they can be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ambientd.store.edits import Fold
from ambientd.store.turns import Line

Edit = dict[str, Any]

# Few values, so that targets, repeated keys and reverted numbers meet often.
TRACKS = st.sampled_from(["room", "call"])
STARTS_MS = st.integers(0, 1)
WORDS = st.text("ab", min_size=1, max_size=3)
TARGETS = st.fixed_dictionaries({"track": TRACKS, "start_ms": STARTS_MS})
EDITS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("repair"), "target": TARGETS, "from": WORDS, "to": st.text("ab")}
    ),
    st.fixed_dictionaries({"kind": st.just("speaker"), "target": TARGETS, "name": WORDS}),
    st.fixed_dictionaries({"kind": st.just("revert"), "target_seq": st.integers(-1, 6)}),
    st.fixed_dictionaries({"kind": st.just("later"), "target": TARGETS, "name": WORDS}),
)
LINES = st.builds(Line, TRACKS, STARTS_MS, st.just(9), st.none(), st.text("abc", max_size=5))


def by_the_rules(lines: list[Line], edits: list[Edit]) -> list[Line]:
    """Fold edit by edit: each looks for its line among all of them."""
    found = list(lines)
    reverted = [edit["target_seq"] for edit in edits if edit["kind"] == "revert"]
    for number, edit in enumerate(edits):
        if number in reverted or edit["kind"] not in ("repair", "speaker"):
            continue
        for index, line in enumerate(found):
            if {"track": line.track, "start_ms": line.start_ms} == edit["target"]:
                if edit["kind"] == "repair":
                    text = line.text.replace(edit["from"], edit["to"])
                    found[index] = line._replace(text=text)
                else:
                    found[index] = line._replace(speaker=edit["name"])
                break
    return found


@given(st.lists(LINES, max_size=6), st.lists(EDITS, max_size=7), st.integers(0, 6))
def test_turns_folded_as_they_come_are_what_the_rules_say(
    lines: list[Line], edits: list[Edit], published: int
) -> None:
    fold = Fold(edits)
    folded = fold.extend(lines[:published]) + fold.extend(lines[published:])
    assert folded == by_the_rules(lines, edits)


def test_a_revert_cannot_be_reverted_and_counts_wherever_it_stands() -> None:
    line = Line("room", 0, 9, None, "x")
    name = {"kind": "speaker", "target": {"track": "room", "start_ms": 0}, "name": "Ann"}
    edits: list[Edit] = [
        {"kind": "revert", "target_seq": 1},
        name,
        {"kind": "revert", "target_seq": 0},
    ]
    assert Fold(edits).extend([line]) == [line]


WRONG: list[object] = [..., None, True, 1.0, [], {}]
LINE = Line("room", 1, 9, None, "x")
TARGET = {"track": "room", "start_ms": 1}
SPEAKER: Edit = {"kind": "speaker", "target": TARGET, "name": "Ann"}
REPAIR: Edit = {"kind": "repair", "target": TARGET, "from": "x", "to": "y"}


def replaced(record: Edit, member: str, value: object) -> Edit:
    """Return a record with a member of another value, or without it."""
    return {key: one for key, one in {**record, member: value}.items() if one is not ...}


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    ("edit", "member"), [(edit, member) for edit in (SPEAKER, REPAIR) for member in edit]
)
def test_an_edit_with_a_wrong_member_changes_nothing(
    edit: Edit, member: str, value: object
) -> None:
    assert Fold([edit]).extend([LINE]) != [LINE]
    assert Fold([replaced(edit, member, value)]).extend([LINE]) == [LINE]


def test_a_repair_of_an_empty_text_changes_nothing() -> None:
    # Every place between two letters would match.
    assert Fold([{**REPAIR, "from": ""}]).extend([LINE]) == [LINE]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("member", TARGET)
def test_an_edit_with_a_wrong_target_changes_nothing(member: str, value: object) -> None:
    edit = {**SPEAKER, "target": replaced(TARGET, member, value)}
    assert Fold([edit]).extend([LINE]) == [LINE]


@pytest.mark.parametrize("value", [*WRONG, "1"])
def test_a_revert_of_no_number_reverts_nothing(value: object) -> None:
    # Number 1, which True and 1.0 equal, is the edit that must stay.
    edits = [REPAIR, SPEAKER, replaced({"kind": "revert"}, "target_seq", value)]
    assert Fold(edits).extend([LINE]) == [LINE._replace(text="y", speaker="Ann")]
