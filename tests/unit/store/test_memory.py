"""What is remembered of a log is never more, less or other than what the disk has."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ambientd.errors import StoreError
from ambientd.store import memory, reading, turns
from ambientd.store.folder import open_root


def line(start_ms: int, text: str = "words") -> str:
    record = {"track": "room", "start_ms": start_ms, "end_ms": start_ms + 1, "text": text}
    return json.dumps(record) + "\n"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "talk"
    folder.mkdir()
    (folder / "session.json").write_text("{}", encoding="utf-8")
    return folder


def texts(session: Path, since: int = 0, verbatim: bool = False) -> list[str]:
    with reading.open_session(str(session.parent), session.name) as folder:
        total, lines = reading.transcript_appended(folder, verbatim, since)
    assert total == since + len(lines) or since > total
    return [one.text for one in lines]


def test_a_log_that_grows_is_read_on_from_where_it_was(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = session / "raw.jsonl"
    raw.write_text("".join(line(number) for number in range(1000)), encoding="utf-8")
    assert len(texts(session)) == 1000
    parsed = []
    real = turns.parse

    def count(data: bytes, path: str, first: int = 1) -> list[turns.Line]:
        parsed.append(len(data))
        return real(data, path, first)

    monkeypatch.setattr(turns, "parse", count)
    with raw.open("a", encoding="utf-8") as file:
        file.write(line(1000, "new"))
        file.write(line(1001)[:20])
    assert texts(session, since=1000) == ["new"]
    for _ in range(5):
        assert texts(session, since=1001) == []
    assert sum(parsed) == len(line(1000, "new"))
    with raw.open("a", encoding="utf-8") as file:
        file.write(line(1001)[20:])
    assert len(texts(session)) == 1002


def test_a_file_in_the_place_of_another_is_read_anew_even_with_its_inode(session: Path) -> None:
    raw = session / "raw.jsonl"
    for number in range(20):
        raw.unlink(missing_ok=True)
        written = [f"{number}-{index}" for index in range(number + 1)]
        raw.write_text("".join(line(0, text) for text in written), encoding="utf-8")
        assert texts(session) == written


def test_a_change_in_place_is_seen(session: Path) -> None:
    raw = session / "raw.jsonl"
    raw.write_text(line(0, "one") + line(1, "two"), encoding="utf-8")
    assert texts(session) == ["one", "two"]
    raw.write_text(line(0, "ONE") + line(1, "two"), encoding="utf-8")
    os.utime(raw, ns=(1, 1))
    assert texts(session) == ["ONE", "two"]
    raw.write_text(line(0, "one"), encoding="utf-8")
    assert texts(session) == ["one"]
    raw.unlink()
    assert texts(session) == []


def test_an_edit_is_seen_at_once_and_changes_no_other_line(session: Path) -> None:
    (session / "raw.jsonl").write_text(line(0, "Helo") + line(1, "Helo"), encoding="utf-8")
    assert texts(session) == ["Helo", "Helo"]
    edit = {"kind": "repair", "target": {"track": "room", "start_ms": 0}, "from": "o", "to": "lo"}
    edits = session / "edits.jsonl"
    edits.write_text(json.dumps(edit) + "\n", encoding="utf-8")
    assert texts(session) == ["Hello", "Helo"]
    assert texts(session, verbatim=True) == ["Helo", "Helo"]
    with edits.open("a", encoding="utf-8") as file:
        file.write('{"kind":"revert","target_seq":0}\n')
    assert texts(session) == ["Helo", "Helo"]
    edits.unlink()
    assert texts(session) == ["Helo", "Helo"]


def test_a_broken_line_is_an_error_each_time_and_mended_is_none(session: Path) -> None:
    raw = session / "raw.jsonl"
    raw.write_text(line(0), encoding="utf-8")
    assert len(texts(session)) == 1
    with raw.open("a", encoding="utf-8") as file:
        file.write("broken\n")
    for _ in range(2):
        with pytest.raises(StoreError, match="line 2"):
            texts(session)
    raw.write_text(line(0) + line(1), encoding="utf-8")
    assert len(texts(session)) == 2


def test_memory_is_bounded_by_sessions(tmp_path: Path) -> None:
    for number in range(3 * memory.MAX_SESSIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "raw.jsonl").write_text(line(0, str(number)), encoding="utf-8")
        assert texts(folder) == [str(number)]
    assert len(memory._sessions) <= memory.MAX_SESSIONS


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "torn", "replace", "edit", "drop edits"]), st.integers(0, 3)
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STEPS)
def test_whatever_happens_to_the_logs_the_answer_is_that_of_a_first_reading(
    session: Path, steps: list[tuple[str, int]]
) -> None:
    raw, edits = session / "raw.jsonl", session / "edits.jsonl"
    raw.write_bytes(b"")
    edits.unlink(missing_ok=True)
    for moment, (step, number) in enumerate(steps):
        if step == "append":
            with raw.open("a", encoding="utf-8") as file:
                file.write(line(number, f"text {moment}"))
        elif step == "torn":
            with raw.open("a", encoding="utf-8") as file:
                file.write("\n" if number else "\n\n")
        elif step == "replace":
            raw.unlink()
            raw.write_text(line(number, f"new {moment}") * (number + 1), encoding="utf-8")
        elif step == "edit":
            target = {"track": "room", "start_ms": number}
            with edits.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": "speaker", "target": target, "name": "A"}) + "\n")
        else:
            edits.unlink(missing_ok=True)
        root = open_root(str(session.parent))
        assert root is not None
        with root, reading.open_session(str(session.parent), "talk") as folder:
            remembered = memory.transcript(folder, verbatim=False)
            fresh = memory._Session()
            assert remembered[1] == list(fresh.edited(folder))
