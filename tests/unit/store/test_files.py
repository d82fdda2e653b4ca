import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ambientd.errors import StoreError, WriteError
from ambientd.store import files


@pytest.fixture
def dir_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_log_holds_one_unescaped_line_a_record(dir_fd: int, tmp_path: Path) -> None:
    log = files.JsonLog(dir_fd, "raw.jsonl")
    log.append({"text": "Grüße, \u2028 до свидания"})
    log.append({"text": "b\nc"})
    log.close()
    raw = (tmp_path / "raw.jsonl").read_bytes()
    assert [json.loads(line)["text"] for line in raw.split(b"\n")[:-1]] == [
        "Grüße, \u2028 до свидания",
        "b\nc",
    ]
    assert "Grüße".encode() in raw
    assert (tmp_path / "raw.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "torn", [b'{"text":"to', b"x" * 200_000, b'{"text":"whole but no newline"}']
)
def test_a_torn_tail_is_cut_before_the_first_append(
    dir_fd: int, tmp_path: Path, torn: bytes
) -> None:
    kept = b'{"text":"kept"}\n'
    (tmp_path / "raw.jsonl").write_bytes(kept + torn)
    log = files.JsonLog(dir_fd, "raw.jsonl")
    log.append({"n": 1})
    log.close()
    assert (tmp_path / "raw.jsonl").read_bytes() == kept + b'{"n":1}\n'


def test_a_log_that_was_removed_takes_no_line(dir_fd: int, tmp_path: Path) -> None:
    log = files.JsonLog(dir_fd, "raw.jsonl")
    log.append({"n": 1})
    (tmp_path / "raw.jsonl").unlink()
    with pytest.raises(WriteError, match=r"raw\.jsonl: it was removed") as caught:
        log.append({"n": 2})
    log.close()
    assert not caught.value.may_pass, "nobody waits for it"
    assert not (tmp_path / "raw.jsonl").exists(), "a second log would count its lines anew"


def test_a_file_of_only_a_torn_line_becomes_empty(dir_fd: int, tmp_path: Path) -> None:
    (tmp_path / "raw.jsonl").write_bytes(b"torn")
    log = files.JsonLog(dir_fd, "raw.jsonl")
    log.append({"n": 1})
    log.close()
    assert (tmp_path / "raw.jsonl").read_bytes() == b'{"n":1}\n'


def test_a_short_write_publishes_nothing_and_the_next_append_is_whole(
    dir_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = files.JsonLog(dir_fd, "raw.jsonl")
    log.append({"n": 1})
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    with pytest.raises(StoreError, match="No space left"):
        log.append({"n": 2})
    monkeypatch.undo()
    assert (tmp_path / "raw.jsonl").read_bytes() == b'{"n":1}\n'
    log.append({"n": 3})
    log.close()
    assert (tmp_path / "raw.jsonl").read_bytes() == b'{"n":1}\n{"n":3}\n'


def test_a_record_that_could_not_be_synced_is_published_and_not_doubled(
    dir_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    log = files.JsonLog(dir_fd, "raw.jsonl")
    monkeypatch.setattr(os, "fsync", fail)
    log.append({"n": 1})
    monkeypatch.undo()
    log.append({"n": 2})
    log.close()
    assert (tmp_path / "raw.jsonl").read_bytes() == b'{"n":1}\n{"n":2}\n'


def test_a_log_that_is_a_link_is_refused(dir_fd: int, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"untouched")
    (tmp_path / "raw.jsonl").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError):
        files.JsonLog(dir_fd, "raw.jsonl").append({"n": 1})
    assert (tmp_path / "outside").read_bytes() == b"untouched"


def test_replacing_a_link_leaves_its_target_alone(dir_fd: int, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"untouched")
    (tmp_path / "session.json").symlink_to(tmp_path / "outside")
    files.replace(dir_fd, "session.json", b"new")
    assert (tmp_path / "session.json").read_bytes() == b"new"
    assert not (tmp_path / "session.json").is_symlink()
    assert (tmp_path / "outside").read_bytes() == b"untouched"


def test_a_replace_that_fails_keeps_the_old_content(
    dir_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.replace(dir_fd, "session.json", b"old")

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="No space left"):
        files.replace(dir_fd, "session.json", b"new")
    monkeypatch.undo()
    assert (tmp_path / "session.json").read_bytes() == b"old"
    files.replace(dir_fd, "session.json", b"newer")
    assert (tmp_path / "session.json").read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["session.json"]
