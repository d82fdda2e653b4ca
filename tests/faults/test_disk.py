"""A disk that is full, fails, is slow, hangs, or whose folders are taken away while it is used."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
HOOK = Path(__file__).parent / "hooks"
MB = 1_000_000

pytestmark = pytest.mark.timeout(240)


class SmallDisk:
    """A filesystem of its own that a test can fill.

    Attributes:
        at: where it is mounted.
    """

    def __init__(self, at: Path, size_mb: int) -> None:
        self.at = at
        self._ballast = at / ".ballast"
        at.mkdir(mode=0o700)
        options = f"size={size_mb * MB},mode=700"
        command = ["mount", "-t", "tmpfs", "-o", options, "ambient-test", str(at)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"needs to mount a tmpfs: {done.stderr.strip()}")

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the room, or all but so much."""
        with self._ballast.open("ab", buffering=0) as file:
            while (size := self.free_bytes() - leave_bytes) > 0:
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), file.tell(), size)
                    file.seek(0, os.SEEK_END)

    def free_bytes(self) -> int:
        room = os.statvfs(self.at)
        return room.f_bavail * room.f_frsize

    def make_room(self) -> None:
        self._ballast.unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.at)], check=False)


@contextlib.contextmanager
def small_disk(at: running.Place, size_mb: int) -> Iterator[SmallDisk]:
    disk = SmallDisk(at.root, size_mb)
    try:
        yield disk
    finally:
        disk.unmount()


class Hook:
    """Faults of a real disk that root cannot make, in every process of a place."""

    def __init__(self, at: running.Place) -> None:
        self._control = at.folder / "fault"
        at.environ["PYTHONPATH"] = str(HOOK)
        at.environ["DISK_BELOW"] = str(at.root)
        at.environ["DISK_FAULT"] = str(self._control)

    def begin(self, fault: str) -> None:
        """Have calls misbehave, as ``hooks/ailing_disk.py`` says."""
        new = self._control.with_suffix(".new")
        new.write_text(fault, encoding="ascii")
        new.rename(self._control)

    def end(self) -> None:
        self._control.unlink(missing_ok=True)


@pytest.fixture
def hook(at: running.Place) -> Iterator[Hook]:
    made = Hook(at)
    yield made
    made.end()


def long_talk(folder: Path, times: int) -> Path:
    """Return a file with the sample so often."""
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    path = folder / "long.wav"
    soundfile.write(path, numpy.tile(samples, times), rate_hz)
    return path


def recorded(at: running.Place, session: str) -> numpy.ndarray:
    path = at.root / session / "audio" / "room.wav"
    samples: numpy.ndarray = soundfile.read(path, dtype="int16")[0]
    return samples


def json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def lines(at: running.Place, session: str) -> list[dict[str, Any]]:
    found = json_lines(at.root / session / "raw.jsonl")
    for before, after in itertools.pairwise(found):
        assert before["end_ms"] <= after["start_ms"], "in order and once"
    return found


def events(at: running.Place, session: str, kind: str) -> list[dict[str, Any]]:
    found = json_lines(at.root / session / "events.jsonl")
    return [event for event in found if event["kind"] == kind]


def words(found: list[dict[str, Any]]) -> str:
    return " ".join(line["text"] for line in found).lower()


def captured_ms(at: running.Place) -> int:
    session = at.status()["session"]
    return 0 if session is None else int(session["captured_ms"])


def wait_until_done(at: running.Place, session: str) -> None:
    running.wait_until((at.root / session / "transcript.md").exists, 90)
    running.wait_until(lambda: not at.status()["finishing"])


def wait_for_disk(at: running.Place, state: str) -> dict[str, Any]:
    """Return the disk's row of a status as soon as it has a state."""

    def look() -> dict[str, Any] | None:
        disk: dict[str, Any] = at.status()["disk"]
        return disk if disk["state"] == state else None

    found: dict[str, Any] = running.wait_until(look)
    return found


def test_audio_and_turns_wait_for_room_and_nothing_is_lost(at: running.Place) -> None:
    with (
        small_disk(at, 4) as disk,
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", "2"),
    ):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(lines(at, session)) >= 1)
        disk.fill()
        said = wait_for_disk(at, "disk_full")
        page = at.ctl("status").stdout
        time.sleep(3)  # 6 s of the talk: the next turns have ended and cannot be written
        disk.make_room()
        wait_for_disk(at, "ok")
        wait_until_done(at, session)
        original, _ = soundfile.read(SAMPLE, dtype="int16")
        assert (recorded(at, session) == original).all()
        told = events(at, session, "disk_full")
        assert not events(at, session, "gap")
        assert words(lines(at, session)).endswith("please tell me when it works.")
    assert "No space left" in said["message"]
    assert "free some room" in page
    assert said["message"] in page
    assert [event["end_ms"] > event["start_ms"] + 3000 for event in told] == [True]


def test_what_memory_does_not_hold_is_a_gap_of_the_full_disk(
    at: running.Place, tmp_path: Path
) -> None:
    source = long_talk(tmp_path, 3)
    with (
        small_disk(at, 12) as disk,
        running.daemon(at, "--source", str(source), "--source-speed", "10"),
    ):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 5000)
        disk.fill()
        running.wait_until(lambda: at.track()["lost_frames"] > 24_000)
        disk.make_room()
        wait_until_done(at, session)
        written = recorded(at, session)
        gaps = events(at, session, "gap")
        text = lines(at, session)
        told = events(at, session, "disk_full")
    original, rate_hz = soundfile.read(source, dtype="int16")
    assert [gap["reason"] for gap in gaps] == ["disk_full"]
    start_ms, end_ms = gaps[0]["start_ms"], gaps[0]["end_ms"]
    start, end = start_ms * rate_hz // 1000, end_ms * rate_hz // 1000
    assert len(written) == len(original)
    assert (written[:start] == original[:start]).all()
    assert not written[start:end].any()
    assert (written[end:] == original[end:]).all(), "what follows is where it was said"
    assert told[0]["start_ms"] <= start_ms
    assert told[0]["end_ms"] >= end_ms - 20, "the disk was full until there was room again"
    assert not [line for line in text if line["start_ms"] < end_ms and line["end_ms"] > start_ms]
    assert text[-1]["start_ms"] > end_ms


def test_a_stop_while_the_disk_is_full_is_in_order_and_the_text_waits(at: running.Place) -> None:
    with (
        small_disk(at, 4) as disk,
        running.daemon(at, "--source", str(SAMPLE)),
    ):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 4000)
        disk.fill()
        wait_for_disk(at, "disk_full")
        stopped = at.ctl("stop", check=False)
        told = at.status()["disk"]
        assert not (at.root / session / "transcript.md").exists()
        disk.make_room()
        wait_until_done(at, session)
        written = recorded(at, session)
        gap = events(at, session, "gap")
        meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
        assert words(lines(at, session)).startswith("good morning")
        assert at.ctl("record").returncode == 0, "the next one may begin"
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert told["state"] == "disk_full"
    original, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    assert (written == original[: len(written)]).all()
    assert len(written) > 4 * rate_hz
    assert [one["reason"] for one in gap] == ["disk_full"]
    assert gap[0]["start_ms"] == len(written) * 1000 // rate_hz
    assert meta["duration_s"] == round(len(written) * 1000 // rate_hz / 1000, 3)


def test_a_daemon_killed_on_a_full_disk_is_recovered_when_there_is_room(at: running.Place) -> None:
    with small_disk(at, 4) as disk:
        first = running.Daemon(at, "--source", str(SAMPLE))
        first.wait_until_ready()
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(lines(at, session)) >= 2)
        disk.fill()
        wait_for_disk(at, "disk_full")
        first.kill()
        published = lines(at, session)
        with running.daemon(at):
            told = wait_for_disk(at, "disk_full")
            disk.make_room()
            wait_until_done(at, session)
            text = lines(at, session)
            written = recorded(at, session)
    assert "No space left" in told["message"]
    assert text[: len(published)] == published
    original, _ = soundfile.read(SAMPLE, dtype="int16")
    assert (written == original[: len(written)]).all()


def test_nothing_starts_on_a_full_disk_and_nothing_is_left_of_it(at: running.Place) -> None:
    with small_disk(at, 4) as disk, running.daemon(at, "--source", str(SAMPLE)):
        disk.fill()
        refused = at.ctl("record", check=False)
        left = [path for path in at.root.iterdir() if path.is_dir()]
        disk.make_room()
        assert at.ctl("record").returncode == 0
    assert refused.returncode == 1
    assert "No space left on device; free some room" in refused.stderr
    assert left == []


def test_below_the_floor_nothing_starts_and_what_runs_ends_in_order(at: running.Place) -> None:
    at.environ["AMBIENT_CAPTURE_DISK_FLOOR_MB"] = "2"
    with small_disk(at, 6) as disk, running.daemon(at, "--source", str(SAMPLE)):
        disk.fill(leave_bytes=MB)
        refused = at.ctl("record", check=False)
        low = at.status()["disk"]
        disk.make_room()
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 4000)
        disk.fill(leave_bytes=MB)
        wait_until_done(at, session)
        status = at.status()
        written = recorded(at, session)
        told = events(at, session, "disk_full")
        assert words(lines(at, session)).startswith("good morning")
    assert refused.returncode == 4
    assert "below 2 MB" in refused.stderr
    assert "lower capture.disk_floor_mb" in refused.stderr
    assert low["state"] == "disk_low"
    assert low["floor_bytes"] == 2 * MB
    assert "capture.disk_floor_mb" in status["why"]
    assert status["listening"] is False
    original, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    assert (written == original[: len(written)]).all()
    assert 4 * rate_hz < len(written) < len(original)
    assert "capture.disk_floor_mb" in told[0]["reason"]
    assert 4000 < told[0]["start_ms"] <= len(written) * 1000 // rate_hz


@pytest.mark.parametrize("code", ["EIO", "EROFS"])
def test_a_disk_that_fails_for_a_while_costs_nothing(
    at: running.Place, hook: Hook, code: str
) -> None:
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "2"):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(lines(at, session)) >= 1)
        hook.begin(f"pwrite,write,open,rename,fsync,fdatasync {code}")
        said = wait_for_disk(at, "disk_failing")
        time.sleep(2)  # 4 s of the talk
        hook.end()
        wait_until_done(at, session)
        original, _ = soundfile.read(SAMPLE, dtype="int16")
        assert (recorded(at, session) == original).all()
        assert words(lines(at, session)).endswith("please tell me when it works.")
        assert not events(at, session, "gap")
        assert len(events(at, session, "disk_failing")) == 1
    assert said["message"]
    assert said["hint"]


@pytest.mark.parametrize("fault", ["fsync,fdatasync slow 2", "fdatasync hang"])
def test_neither_audio_nor_text_waits_for_a_sync(at: running.Place, hook: Hook, fault: str) -> None:
    hook.begin(fault)
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "2"):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 15_000)
        running.wait_until(lambda: len(lines(at, session)) >= 4)
        hook.end()
        wait_until_done(at, session)
        original, _ = soundfile.read(SAMPLE, dtype="int16")
        assert (recorded(at, session) == original).all()
        assert words(lines(at, session)).endswith("please tell me when it works.")
        assert not (at.root / session / "events.jsonl").exists(), "nothing to tell of"


def test_a_last_sync_that_takes_long_costs_the_recording_nothing(
    at: running.Place, hook: Hook
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 3000)
        hook.begin("fdatasync slow 7")
        time.sleep(2)  # a sync is in hand
        assert at.ctl("stop").returncode == 0
        hook.end()
        wait_until_done(at, session)
        written = recorded(at, session)
        kinds = [event["kind"] for event in json_lines(at.root / session / "events.jsonl")]
    assert kinds == [], "nothing happened that anybody must know"
    original, _ = soundfile.read(SAMPLE, dtype="int16")
    assert (written == original[: len(written)]).all()


def test_a_spool_that_cannot_be_read_for_a_while_costs_no_turn(
    at: running.Place, hook: Hook
) -> None:
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "2"):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(lines(at, session)) >= 1)
        hook.begin("pread EIO")
        time.sleep(10)  # longer than five workers live that die at once
        assert at.status()["session"]["worker"]["state"] != "failed"
        hook.end()
        wait_until_done(at, session)
        assert words(lines(at, session)).endswith("please tell me when it works.")
        assert not events(at, session, "skipped")


def folder_of(at: running.Place, session: str, which: str) -> Path:
    return at.root / session if which == "session" else at.root


@pytest.mark.parametrize("which", ["session", "root"])
def test_a_folder_that_is_removed_ends_the_recording_and_the_daemon_goes_on(
    at: running.Place, which: str
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 3000)
        shutil.rmtree(folder_of(at, session, which))
        running.wait_until(lambda: not at.status()["listening"])
        running.wait_until(lambda: not at.status()["finishing"])
        status = at.status()
        assert not (at.root / session).exists(), "nothing is written where it was"
        again = at.ctl("record", check=False)
        assert daemon.terminate() == 0
    assert "its folder was removed or renamed" in status["why"]
    if which == "session":
        assert again.returncode == 0
        assert status["disk"]["state"] == "ok"
    else:
        assert status["disk"]["state"] == "root_gone"
        assert "restart ambientd" in status["disk"]["hint"]
        assert again.returncode == 1
        assert "restart ambientd" in again.stderr
        assert not at.root.exists()


def test_a_log_that_is_replaced_costs_the_text_and_neither_the_audio_nor_what_it_points_to(
    at: running.Place,
) -> None:
    stranger = at.folder / "stranger"
    stranger.write_text("not ours")
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: at.status()["session"]["turns"] > 0)
        (at.root / session / "raw.jsonl").unlink()
        (at.root / session / "raw.jsonl").symlink_to(stranger)
        running.wait_until(lambda: at.status()["session"]["worker"]["problem"])
        said = at.status()["session"]
        stopped = at.ctl("stop", "--wait", check=False)
    assert said["worker"]["problem"] == "cannot write raw.jsonl: it was removed"
    assert said["tracks"]["room"]["input"] == "ok"
    assert stopped.returncode == 1
    assert "cannot write raw.jsonl: it was removed" in stopped.stderr
    assert stranger.read_text() == "not ours"
    seconds = soundfile.info(at.root / session / "audio" / "room.wav").duration
    assert seconds * 1000 >= said["captured_ms"]


@pytest.mark.parametrize("which", ["session", "root"])
def test_a_folder_that_is_renamed_ends_the_recording_and_keeps_what_was_heard(
    at: running.Place, which: str
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: captured_ms(at) > 3000)
        moved = at.folder / "moved" if which == "root" else at.root / "moved"
        folder_of(at, session, which).rename(moved)
        running.wait_until(lambda: not at.status()["listening"])
        running.wait_until(lambda: not at.status()["finishing"], 60)
        why = at.status()["why"]
        assert not (at.root / session).exists(), "nothing is written where it was"
    assert "its folder was removed or renamed" in why
    if which == "root":
        session, at.root = session, moved
        at.environ["AMBIENT_HOME"] = str(moved)
    else:
        session = "moved"
    published = lines(at, session)
    original, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    written = recorded(at, session)
    assert len(written) > 3 * rate_hz
    assert (written == original[: len(written)]).all()
    assert [event["kind"] for event in events(at, session, "folder_gone")] == ["folder_gone"]
    with running.daemon(at):
        wait_until_done(at, session)
    assert lines(at, session)[: len(published)] == published
    assert words(lines(at, session)).startswith("good morning")


def test_a_disk_that_hangs_holds_up_no_stop_and_no_other_client(
    at: running.Place, hook: Hook
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(lines(at, session)) >= 1)
        published = lines(at, session)
        hook.begin("all hang")
        running.wait_until(lambda: at.status()["disk"]["state"] == "disk_hanging", 60)
        with running.client(at) as client:
            asked = client.request("tools/call", {"name": "status", "arguments": {}})
            assert asked["isError"], "it says that it cannot look"
            assert client.request("ping", {}) == {}
        stopped = at.ctl("stop", check=False)
        assert stopped.returncode == 1
        assert "the disk does not take the end" in stopped.stderr
        threads = len(os.listdir(f"/proc/{daemon.process.pid}/task"))
        for _ in range(5):
            at.status()
        assert len(os.listdir(f"/proc/{daemon.process.pid}/task")) <= threads
        children = running.children(daemon.process.pid)
        assert daemon.terminate() == 0
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    hook.end()
    with running.daemon(at):
        wait_until_done(at, session)
        assert lines(at, session)[: len(published)] == published
        original, _ = soundfile.read(SAMPLE, dtype="int16")
        written = recorded(at, session)
    assert (written == original[: len(written)]).all()


def test_nothing_starts_on_a_disk_that_hangs_and_the_daemon_can_be_stopped(
    at: running.Place, hook: Hook
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        hook.begin("all hang")
        refused = at.ctl("record", check=False)
        assert not at.status()["listening"]
        hook.end()
        running.wait_until(lambda: at.status()["disk"]["state"] == "ok")
        assert at.ctl("record").returncode == 0, "nothing of the first start is in the way"
        hook.begin("all hang")
        assert daemon.terminate() == 0
        hook.end()
    assert refused.returncode == 1
    assert "the disk of the sessions does not answer" in refused.stderr
