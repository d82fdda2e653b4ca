"""What is remembered of a log is never more, less or other than what the disk has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ambientd.errors import StoreError
from ambientd.store import memory, reading, turns


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
    raw.write_text(line(0, "new") + line(1), encoding="utf-8")
    assert texts(session) == ["new", "words"]


def test_nothing_of_a_log_stays_that_was_replaced_by_a_broken_one(session: Path) -> None:
    raw = session / "raw.jsonl"
    raw.write_text(line(0, "A") + line(1, "B"), encoding="utf-8")
    assert texts(session) == ["A", "B"]
    raw.unlink()
    raw.write_text(line(0, "C") + "broken\n", encoding="utf-8")
    with pytest.raises(StoreError):
        texts(session)
    raw.write_text(line(0, "C") + line(1, "D") + line(2, "E"), encoding="utf-8")
    assert texts(session) == ["C", "D", "E"]


def test_memory_is_bounded_by_sessions(tmp_path: Path) -> None:
    for number in range(3 * memory.MAX_SESSIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "raw.jsonl").write_text(line(0, str(number)), encoding="utf-8")
        assert texts(folder) == [str(number)]
    assert len(memory._sessions) <= memory.MAX_SESSIONS


def test_memory_is_bounded_by_bytes(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_BYTES", 1000)
    raw = session / "raw.jsonl"
    raw.write_text(line(0, "x" * 800), encoding="utf-8")
    assert len(texts(session)) == 1
    assert sum(one.size_bytes for one in memory._sessions.values()) > 800
    with raw.open("a", encoding="utf-8") as file:
        file.write(line(1, "y" * 800))
    for _ in range(2):
        assert len(texts(session)) == 2, "what is not kept is read anew"
        assert sum(one.size_bytes for one in memory._sessions.values()) <= 1000


def naive(raw: Path, edits: Path, verbatim: bool) -> list[tuple[str, str | None]] | None:
    """Read both logs as the format is described, with nothing kept; None if a line is broken."""

    def objects(path: Path) -> list[dict[str, Any]]:
        complete = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        return [json.loads(one) for one in complete.split(b"\n") if one.strip()]

    try:
        lines = objects(raw)
    except ValueError:
        return None
    wanted = {"track", "start_ms", "end_ms", "text"}
    if not all(isinstance(one, dict) and wanted <= one.keys() for one in lines):
        return None  # what is left of a line that was cut can be JSON of another kind
    speakers: list[str | None] = [None] * len(lines)
    for edit in [] if verbatim else objects(edits):
        for number, one in enumerate(lines):
            if one["start_ms"] == edit["target"]["start_ms"]:
                speakers[number] = edit["name"]
                break
    return [(one["text"], speaker) for one, speaker in zip(lines, speakers, strict=True)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "half", "rest", "blank", "broken", "replace", "truncate", "edit", "drop"]
        ),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=14,
)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """From where logs were read, all examples together."""
    found: list[int | None] = []
    real = memory._Raw.start_of_news

    def record(self: memory._Raw, status: os.stat_result) -> int | None:
        found.append(real(self, status))
        return found[-1]

    monkeypatch.setattr(memory._Raw, "start_of_news", record)
    # Short, so that a log is longer and the part before its end is really not read again.
    monkeypatch.setattr(memory, "TAIL_BYTES", 16)
    return found


def test_whatever_happens_to_the_logs_the_answer_is_that_of_a_first_reading(
    session: Path, starts: list[int | None]
) -> None:
    raw, edits = session / "raw.jsonl", session / "edits.jsonl"

    @settings(deadline=None, max_examples=400)
    @given(STEPS)
    def check(steps: list[tuple[str, int, bool]]) -> None:
        raw.write_bytes(b"")
        edits.unlink(missing_ok=True)
        for moment, (step, number, verbatim) in enumerate(steps):
            change(step, number, f"text {moment}")
            with reading.open_session(str(session.parent), "talk") as folder:
                expected = naive(raw, edits, verbatim)
                if expected is None:
                    with pytest.raises(StoreError):
                        memory.transcript(folder, verbatim)
                    continue
                total, lines = memory.transcript(folder, verbatim)
                assert [(one.text, one.speaker) for one in lines] == expected
                assert total == len(expected)

    def change(step: str, number: int, text: str) -> None:
        content = raw.read_bytes()
        if step == "replace":
            raw.unlink()
            raw.write_text(line(number, text) * (number + 1), encoding="utf-8")
        elif step == "truncate":
            os.truncate(raw, len(content) * number // 4)
        elif step == "edit":
            target = {"track": "room", "start_ms": number}
            with edits.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": "speaker", "target": target, "name": text}) + "\n")
        elif step == "drop":
            edits.unlink(missing_ok=True)
        else:
            with raw.open("a", encoding="utf-8") as file:
                file.write(
                    {
                        "append": line(number, text),
                        "half": line(number, text)[:20],
                        "rest": line(number, text)[20:],
                        "blank": "\n \n",
                        "broken": "broken\n",
                    }[step]
                )

    check()
    assert any(start for start in starts), "logs were read on from where they were"
    assert 0 in starts
