"""Whatever happens on the disk, what is remembered gives the answer of a first look."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ambientd.errors import StoreError
from ambientd.store import catalogue, freshness, reading
from ambientd.store.folder import DiskError, Folder

NAMES = ("a", "b")
STEPS = ("create", "done", "edit", "delete", "link", "live", "finish", "lock", "unlock", "leak")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Times are set by hand here, so that no two changes share a tick.
    monkeypatch.setattr(freshness, "may_deceive", lambda seen: False)
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "session.json").write_text("{}", encoding="utf-8")
    return tmp_path / "root"


def do(root: Path, step: str, name: str) -> None:  # noqa: C901 - one line a step
    folder = root / name
    native = folder / "audio" / "room.native.wav"
    if step == "delete":
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    elif step == "link":
        do(root, "delete", name)
        folder.symlink_to("../outside")
    elif folder.is_symlink():
        return
    elif step == "create":
        (folder / "audio").mkdir(parents=True, exist_ok=True)
        (folder / "audio" / "room.wav").touch()
        (folder / "session.json").write_text("{}", encoding="utf-8")
    elif not folder.exists():
        return
    elif step == "done":
        (folder / "transcript.md").touch()
    elif step == "edit":
        count = len((folder / "session.json").read_text(encoding="utf-8"))
        text = json.dumps({"name": "x" * count})
        (folder / "session.json").write_text(text, encoding="utf-8")
    elif step == "live":
        native.touch()
    elif step == "finish":
        native.unlink(missing_ok=True)
    elif step == "lock":
        (folder / "transcribing.lock").write_text(str(os.getpid()), encoding="ascii")
    elif step == "unlock":
        (folder / "transcribing.lock").unlink(missing_ok=True)
    elif step == "leak":
        (folder / "raw.jsonl").unlink(missing_ok=True)
        (folder / "raw.jsonl").symlink_to("/etc/passwd")


def names_in(root: Path) -> dict[Path, set[str]]:
    folders = [root, *(root / name for name in NAMES if (root / name).is_dir())]
    return {folder: set(os.listdir(folder)) for folder in folders if not folder.is_symlink()}


TICK = itertools.count(10**18, 10**9)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=14))
def test_answers_are_those_of_a_first_look(root: Path, steps: list[tuple[str, str]]) -> None:
    for name in NAMES:
        do(root, "delete", name)
    for step, name in steps:
        before = names_in(root)
        do(root, step, name)
        for folder, names in names_in(root).items():
            if before.get(folder) != names or step in ("create", "link", "leak", "lock"):
                moment_ns = next(TICK)
                os.utime(folder, ns=(moment_ns, moment_ns))
        if step == "live":
            # A session that is done and recorded into again is seen by `sessions` alone.
            reading.summaries(str(root))
        overview = reading.overview(str(root))
        rows = reading.summaries(str(root))
        reading._catalogues.clear()
        assert rows == reading.summaries(str(root))
        reading._catalogues.clear()
        assert overview == reading.overview(str(root))
        assert overview.sessions == len(rows)
        reading._catalogues.clear()
        # And warm once more: what is remembered from here on is checked by the next step.
        reading.summaries(str(root))


def test_a_settled_session_is_not_opened_again_to_be_counted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        do(root, "create", name)
        do(root, "done", name)
    assert reading.overview(str(root)).sessions == len(NAMES)
    looked: list[str] = []
    real = reading._look

    def record(session: Folder, name: str) -> catalogue.Look[reading._Known]:
        looked.append(name)
        return real(session, name)

    for known in reading._catalogues.values():
        monkeypatch.setattr(known, "_look", record)
    assert reading.overview(str(root)).sessions == len(NAMES)
    assert len(reading.summaries(str(root))) == len(NAMES)
    assert looked == []
    do(root, "edit", "b")
    assert [row.name is not None for row in reading.summaries(str(root))].count(True) == 1
    assert looked == ["b"]


def test_what_changes_twice_within_a_tick_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a filesystem that stamps whole seconds."""
    real = freshness.stamp
    second = 1_000_000_000

    def coarse(status: os.stat_result) -> freshness.Stamp:
        exact = real(status)
        mtime_ns, ctime_ns = exact.mtime_ns // second * second, exact.ctime_ns // second * second
        return exact._replace(mtime_ns=mtime_ns, ctime_ns=ctime_ns)

    monkeypatch.setattr(freshness, "stamp", coarse)
    for name in NAMES:
        do(tmp_path, "create", name)
        do(tmp_path, "done", name)
        assert reading.overview(str(tmp_path)).sessions == NAMES.index(name) + 1
        do(tmp_path, "edit", name)
        assert reading.summaries(str(tmp_path))[0].name is not None
    do(tmp_path, "delete", "a")
    assert reading.overview(str(tmp_path)).sessions == 1


def test_a_fault_that_passes_is_an_error_once_and_not_remembered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(root, "create", "a")
    do(root, "done", "a")
    real = Folder.read

    def fail(self: Folder, name: str, limit_bytes: int) -> bytes | None:
        raise DiskError(f"cannot read {name}: Too many open files")

    monkeypatch.setattr(Folder, "read", fail)
    for ask in (reading.overview, reading.summaries):
        with pytest.raises(StoreError, match="Too many open files"):
            ask(str(root))
    monkeypatch.setattr(Folder, "read", real)
    (row,) = reading.summaries(str(root))
    assert (row.error, row.transcribed) == (None, True)


def test_a_done_session_that_is_recorded_into_again_is_live_in_the_list(root: Path) -> None:
    do(root, "create", "a")
    do(root, "done", "a")
    assert not reading.summaries(str(root))[0].live
    (root / "a" / "audio" / "room.native.wav").touch()
    assert reading.summaries(str(root))[0].live
