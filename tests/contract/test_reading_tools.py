"""What the three tools return, for every kind of session folder, three ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Reader

ID = "2026-09-05-1200"
META = {
    "id": ID,
    "name": "stand-up",
    "started_at": "2026-09-05T12:00:00+02:00",
    "duration_s": 62.5,
    "recorder": "ambientd/0.1.0",
}


def line(start_ms: int, text: str = "words", track: str = "room") -> dict[str, Any]:
    return {"track": track, "start_ms": start_ms, "end_ms": start_ms + 900, "text": text}


def write_log(path: Path, *records: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def make(root: Path, name: str = ID, **meta: Any) -> Path:
    """Make a session folder with a session.json."""
    folder = root / name
    folder.mkdir()
    content = {**META, "id": name, **meta}
    (folder / "session.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def make_done(root: Path, *lines: dict[str, Any]) -> Path:
    folder = make(root)
    write_log(folder / "raw.jsonl", *(lines or (line(0), line(5000))))
    (folder / "transcript.md").write_text("done", encoding="utf-8")
    return folder


def grow(folder: Path, age_s: float = 0.0) -> None:
    """Give a session a capture that was written to so long ago."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    native = folder / "audio" / "room.native.wav"
    native.write_bytes(b"")
    moment_s = time.time() - age_s
    os.utime(native, (moment_s, moment_s))


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "session.json").write_text(json.dumps(META), encoding="utf-8")
    write_log(folder / "raw.jsonl", line(0, "secret"))
    return folder


def test_status_counts_real_sessions_and_names_the_live_one(reader: Reader, outside: Path) -> None:
    make_done(reader.root)
    (reader.root / "notes").mkdir()
    (reader.root / "outside").symlink_to(outside)
    grow(reader.root / "live")
    assert reader.value("status") == {
        "live": {"id": "live"},
        "awaiting_transcript": 0,
        "sessions": 2,
    }


def test_an_empty_root_has_nobody_live_and_no_sessions(reader: Reader) -> None:
    assert reader.value("status") == {"live": None, "awaiting_transcript": 0, "sessions": 0}
    assert reader.value("sessions") == []


def test_status_and_sessions_agree(reader: Reader) -> None:
    make_done(reader.root)
    make(reader.root, "second")
    grow(reader.root / "third")
    assert reader.value("status")["sessions"] == len(reader.value("sessions")) == 3


def test_awaiting_counts_pending_sessions_with_a_regular_recording(reader: Reader) -> None:
    for name, recording in (("a", "room.wav"), ("b", "call.wav"), ("c", "notes.txt")):
        audio = make(reader.root, name) / "audio"
        audio.mkdir()
        (audio / recording).write_bytes(b"")
    linked = make(reader.root, "d") / "audio"
    linked.mkdir()
    (linked / "room.wav").symlink_to(reader.root / "a" / "audio" / "room.wav")
    grow(make(reader.root, "live"))
    assert reader.value("status")["awaiting_transcript"] == 2


def test_a_row_of_sessions_has_exactly_nine_keys_in_order(reader: Reader) -> None:
    folder = make_done(reader.root)
    (row,) = reader.value("sessions")
    assert list(row.items()) == [
        ("id", ID),
        ("dir", str(folder)),
        ("name", "stand-up"),
        ("started_at", "2026-09-05T12:00:00+02:00"),
        ("duration_s", 62.5),
        ("transcribed", True),
        ("live", False),
        ("transcribing", False),
        ("error", None),
    ]


def test_sessions_are_newest_first_by_instant_then_those_without_a_start(reader: Reader) -> None:
    make(reader.root, "b", started_at="2026-09-05T12:00:00+02:00")
    make(reader.root, "a", started_at="2026-09-05T11:30:00+00:00")
    make(reader.root, "c", started_at="2026-09-05T09:59:59Z")
    make(reader.root, "no-start-1", started_at=None)
    make(reader.root, "no-start-2", started_at="yesterday")
    assert [row["id"] for row in reader.value("sessions")] == [
        "a",
        "b",
        "c",
        "no-start-2",
        "no-start-1",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b"[]",
        b'{"name":5}',
        b'{"started_at":{}}',
        b'{"duration_s":"long"}',
        b'{"duration_s":true}',
        b'{"duration_s":1e999}',
        b"[" * 100_000,
    ],
)
def test_a_session_json_that_cannot_be_used_is_listed_with_its_error(
    reader: Reader, content: bytes
) -> None:
    (make(reader.root) / "session.json").write_bytes(content)
    (row,) = reader.value("sessions")
    assert "session.json" in row["error"]
    assert (row["id"], row["name"], row["started_at"], row["duration_s"]) == (ID, None, None, None)


@pytest.mark.parametrize(("since", "starts"), [(0, [0, 5000]), (1, [5000]), (2, []), (9, [])])
def test_since_counts_lines_and_next_is_always_the_total(
    reader: Reader, since: int, starts: list[int]
) -> None:
    make_done(reader.root)
    answer = reader.value("transcript", session=ID, since=since)
    assert list(answer) == ["session", "state", "next", "lines"]
    assert [one["start_ms"] for one in answer["lines"]] == starts
    assert (answer["session"], answer["next"], answer["state"]) == (ID, 2, "done")


def test_a_line_has_track_times_speaker_and_text(reader: Reader) -> None:
    make_done(reader.root, line(0, "Grüße \u2028 😀"))
    (one,) = reader.value("transcript", session=ID)["lines"]
    assert list(one.items()) == [
        ("track", "room"),
        ("start_ms", 0),
        ("end_ms", 900),
        ("speaker", None),
        ("text", "Grüße \u2028 😀"),
    ]


def test_the_cursor_follows_the_order_of_publication_not_of_time(reader: Reader) -> None:
    make_done(reader.root, line(5000), line(0, track="call"))
    lines = reader.value("transcript", session=ID, since=1)["lines"]
    assert [(one["track"], one["start_ms"]) for one in lines] == [("call", 0)]


def test_edits_are_laid_over_and_verbatim_leaves_them_out(reader: Reader) -> None:
    folder = make_done(reader.root, line(0, "Helo Helo"), line(0, "same key"), line(5000, "x"))
    target = {"track": "room", "start_ms": 0}
    write_log(
        folder / "edits.jsonl",
        {"kind": "repair", "target": target, "from": "Helo", "to": "Hello"},
        {"kind": "speaker", "target": target, "name": "Ann"},
        {"kind": "speaker", "target": target, "name": "Ben"},
        {"kind": "speaker", "target": {"track": "room", "start_ms": 5000}, "name": "Cid"},
        {"kind": "revert", "target_seq": 3},
        {"kind": "repair", "target": {"track": "call", "start_ms": 0}, "from": "x", "to": "y"},
    )
    edited = reader.value("transcript", session=ID)["lines"]
    assert [(one["text"], one["speaker"]) for one in edited] == [
        ("Hello Hello", "Ben"),
        ("same key", None),
        ("x", None),
    ]
    verbatim = reader.value("transcript", session=ID, verbatim=True)["lines"]
    assert [(one["text"], one["speaker"]) for one in verbatim] == [
        ("Helo Helo", None),
        ("same key", None),
        ("x", None),
    ]


def test_an_unterminated_last_line_is_not_published_and_blank_lines_do_not_count(
    reader: Reader,
) -> None:
    folder = make_done(reader.root)
    with (folder / "raw.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n   \n" + json.dumps(line(9000)))
    assert reader.value("transcript", session=ID)["next"] == 2


@pytest.mark.parametrize(
    "bad",
    ["nonsense", "[]", '{"track":"room"}', json.dumps({**line(0), "start_ms": "0"}), '{"track":1}'],
)
def test_a_complete_line_that_does_not_parse_names_file_and_line(reader: Reader, bad: str) -> None:
    folder = make_done(reader.root)
    with (folder / "raw.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n" + bad + "\n")
    text = reader.failure("transcript", session=ID)
    assert str(folder / "raw.jsonl") in text
    assert "line 4" in text


@pytest.mark.parametrize(
    "name", ["../x", "", ".", "..", "a/b", "/etc", "nul\0byte", "x" * 300, "\ud800"]
)
def test_a_session_that_is_no_single_folder_name_is_a_failure(reader: Reader, name: str) -> None:
    make_done(reader.root)
    reader.failure("transcript", session=name)


def test_a_session_that_is_not_there_is_named(reader: Reader) -> None:
    assert "no session nope" in reader.failure("transcript", session="nope")


def test_links_to_sessions_are_neither_listed_nor_read(reader: Reader, outside: Path) -> None:
    make_done(reader.root)
    (reader.root / "link").symlink_to(ID)
    (reader.root / "outside").symlink_to(outside)
    assert [row["id"] for row in reader.value("sessions")] == [ID]
    for name in ("link", "outside"):
        text = reader.failure("transcript", session=name)
        assert "secret" not in text
        assert "refusing symlink" in text


@pytest.mark.parametrize("name", ["raw.jsonl", "edits.jsonl", "session.json"])
def test_a_linked_file_is_refused_and_shown_as_the_sessions_error(
    reader: Reader, outside: Path, name: str
) -> None:
    leak = make_done(reader.root)
    (leak / name).unlink(missing_ok=True)
    (leak / name).symlink_to(outside / "raw.jsonl")
    if name != "session.json":
        text = reader.failure("transcript", session=ID)
        assert f"refusing symlink {leak / name}" in text
        assert "secret" not in text
    (row,) = reader.value("sessions")
    assert "refusing symlink" in row["error"]
    assert row["name"] is None


def test_what_is_no_regular_file_is_refused_without_waiting(reader: Reader) -> None:
    for kind in ("fifo", "directory"):
        raw = make(reader.root, kind) / "raw.jsonl"
        if kind == "fifo":
            os.mkfifo(raw)
        else:
            raw.mkdir()
        assert "refusing symlink" in reader.failure("transcript", session=kind)
    assert all(row["error"] for row in reader.value("sessions"))


def test_a_growing_capture_is_live_even_without_session_json(reader: Reader) -> None:
    grow(make(reader.root))
    grow(reader.root / "bare")
    for name in (ID, "bare"):
        answer = reader.value("transcript", session=name)
        assert (answer["state"], answer["lines"], answer["next"]) == ("live", [], 0)


@pytest.mark.parametrize(("age_s", "state"), [(9, "live"), (12, "pending"), (-60, "pending")])
def test_live_means_written_within_ten_seconds_and_not_in_the_future(
    reader: Reader, age_s: float, state: str
) -> None:
    grow(make(reader.root), age_s)
    assert reader.value("transcript", session=ID)["state"] == state


def test_a_linked_capture_is_not_live(reader: Reader) -> None:
    grow(reader.root / "real")
    (make(reader.root) / "audio").mkdir()
    (reader.root / ID / "audio" / "room.native.wav").symlink_to(
        reader.root / "real" / "audio" / "room.native.wav"
    )
    assert reader.value("transcript", session=ID)["state"] == "pending"


def test_a_lock_that_names_a_live_process_means_transcribing(reader: Reader) -> None:
    folder = make_done(reader.root)
    lock = folder / "transcribing.lock"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lock.write_text(str(process.pid), encoding="ascii")
        assert reader.value("transcript", session=ID)["state"] == "transcribing"
        assert reader.value("sessions")[0]["transcribing"] is True
        process.communicate(b"\n")
    assert reader.value("transcript", session=ID)["state"] == "done"
    for content in ("", "0", "-1", "many", "9" * 400):
        lock.write_text(content, encoding="ascii")
        assert reader.value("transcript", session=ID)["state"] == "done"


def test_live_beats_transcribing_beats_done_beats_pending(reader: Reader) -> None:
    folder = make(reader.root)
    states = [reader.value("transcript", session=ID)["state"]]
    (folder / "transcript.md").write_text("", encoding="utf-8")
    states.append(reader.value("transcript", session=ID)["state"])
    (folder / "transcribing.lock").write_text(str(os.getpid()), encoding="ascii")
    states.append(reader.value("transcript", session=ID)["state"])
    grow(folder)
    states.append(reader.value("transcript", session=ID)["state"])
    assert states == ["pending", "done", "transcribing", "live"]
    (row,) = reader.value("sessions")
    assert (row["live"], row["transcribing"], row["transcribed"]) == (True, True, True)


def test_a_session_whose_name_is_not_utf_8_is_listed_and_readable(reader: Reader) -> None:
    raw_name = b"caf\xe9"
    folder = os.fsencode(reader.root) + b"/" + raw_name
    os.mkdir(folder)
    with open(folder + b"/session.json", "wb") as file:
        file.write(b"{}")
    (row,) = reader.value("sessions")
    assert os.fsencode(row["id"]) == raw_name
    assert reader.value("transcript", session=row["id"])["state"] == "pending"
