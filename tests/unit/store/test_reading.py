"""States at their exact limits, and the order in which people and programs read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ambientd.errors import StoreError
from ambientd.store import reading, states
from ambientd.store.folder import open_root

NOW_S = 1_788_600_000


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "talk"
    (folder / "audio").mkdir(parents=True)
    (folder / "session.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("age_ns", "live"),
    [(0, True), (10_000_000_000, True), (10_000_001_000, False), (-1_000, False)],
)
def test_live_is_ten_seconds_to_the_microsecond(session: Path, age_ns: int, live: bool) -> None:
    native = session / "audio" / "room.native.wav"
    native.touch()
    moment_ns = NOW_S * 1_000_000_000 - age_ns
    os.utime(native, ns=(moment_ns, moment_ns))
    with reading.open_session(str(session.parent), "talk") as folder:
        assert states.is_live(folder, now_s=NOW_S) is live


def test_only_the_rooms_open_capture_makes_a_session_live(session: Path) -> None:
    for name in ("room.wav", "call.native.wav", "room.live.pcm"):
        (session / "audio" / name).touch()
    (session / "audio" / "room.native.wav").mkdir()
    with reading.open_session(str(session.parent), "talk") as folder:
        assert not states.is_live(folder)


def test_somebody_elses_process_holds_a_lock_too(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, signal: int) -> None:
        assert (pid, signal) == (4711, 0)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    (session / "transcribing.lock").write_text("4711\n", encoding="ascii")
    with reading.open_session(str(session.parent), "talk") as folder:
        assert states.state(folder) == "transcribing"


def test_a_lock_that_is_a_link_holds_nothing(session: Path) -> None:
    (session / "pid").write_text(str(os.getpid()), encoding="ascii")
    (session / "transcribing.lock").symlink_to("pid")
    with reading.open_session(str(session.parent), "talk") as folder:
        assert states.state(folder) == "pending"


def test_people_read_by_start_and_programs_in_order_of_publication(session: Path) -> None:
    spoken = [("room", 5000, "a"), ("call", 0, "b"), ("room", 0, "c"), ("call", 5000, "d")]
    with (session / "raw.jsonl").open("w", encoding="utf-8") as file:
        for track, start_ms, text in spoken:
            turn = {"track": track, "start_ms": start_ms, "end_ms": start_ms + 9, "text": text}
            file.write(json.dumps(turn) + "\n")
    edit = {"kind": "speaker", "target": {"track": "call", "start_ms": 0}, "name": "Ann"}
    (session / "edits.jsonl").write_text(json.dumps(edit) + "\n", encoding="utf-8")
    with reading.open_session(str(session.parent), "talk") as folder:
        total, appended = reading.transcript_appended(folder)
    sorted_lines = reading.transcript(str(session.parent), "talk")
    assert (total, [line.text for line in appended]) == (4, ["a", "b", "c", "d"])
    # Those that start together stay in the order of publication.
    assert [line.text for line in sorted_lines] == ["b", "c", "a", "d"]
    assert set(sorted_lines) == set(appended)
    assert [line.speaker for line in sorted_lines] == ["Ann", None, None, None]
    assert all(
        line.speaker is None
        for line in reading.transcript(str(session.parent), "talk", verbatim=True)
    )


@pytest.mark.parametrize(
    "started_at",
    ["", "\ud800", "0001-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "12:00", "2026-13-01"],
)
def test_a_start_that_no_clock_has_shown_harms_no_list(session: Path, started_at: str) -> None:
    text = json.dumps({"started_at": started_at})
    (session / "session.json").write_text(text, encoding="utf-8")
    (row,) = reading.summaries(str(session.parent))
    assert (row.started_at, row.error) == (started_at, None)


def test_of_several_live_sessions_the_last_by_name_is_named(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name / "audio").mkdir(parents=True)
        (tmp_path / name / "audio" / "room.native.wav").touch()
    assert reading.overview(str(tmp_path)) == reading.Overview("c", 0, 3)


def test_a_reader_leaves_no_descriptor_open(session: Path) -> None:
    root = str(session.parent)

    def read_all() -> None:
        reading.summaries(root)
        reading.overview(root)
        reading.transcript(root, "talk")
        for name in ("nope", "..", "link"):
            with pytest.raises(StoreError):
                reading.open_session(root, name)

    (session.parent / "link").symlink_to("talk")
    (session / "raw.jsonl").symlink_to("session.json")
    with pytest.raises(StoreError):
        reading.transcript(root, "talk")
    (session / "raw.jsonl").unlink()
    read_all()
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        read_all()
    assert len(os.listdir("/dev/fd")) == before


def test_a_root_that_is_a_file_is_an_error_and_one_that_is_missing_is_empty(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot open"):
        open_root(str(tmp_path / "file"))
    assert reading.summaries(str(tmp_path / "none")) == []
    assert reading.overview(str(tmp_path / "none")) == reading.Overview(None, 0, 0)
