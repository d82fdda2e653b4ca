"""Processes that are killed, stopped or stuck: nothing published is lost, doubled or changed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import soundfile
import soxr

from ambientd.speech import models
from ambientd.speech.engine import EngineSettings, create
from ambientd.speech.recognition import recognise
from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
SAMPLE_S = soundfile.info(SAMPLE).duration

pytestmark = pytest.mark.timeout(240)


def raw_lines(place: running.Place, session: str) -> list[dict[str, Any]]:
    path = place.root / session / "raw.jsonl"
    if not path.exists():
        return []
    data = path.read_bytes()
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]]


def state(place: running.Place, session: str) -> str:
    with running.client(place) as client:
        return str(client.tool("transcript", session=session)["state"])


def events(place: running.Place, session: str) -> list[dict[str, Any]]:
    path = place.root / session / "events.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def assert_in_order_and_once(lines: list[dict[str, Any]]) -> None:
    position_ms = 0
    for line in lines:
        assert line["start_ms"] >= position_ms
        position_ms = line["end_ms"]


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def worker_pid(place: running.Place) -> int | None:
    session = place.status()["session"]
    pid = session["worker"]["pid"] if session else None
    return int(pid) if pid is not None else None


def test_a_killed_daemon_loses_nothing_and_the_next_one_finishes_the_session(
    at: running.Place,
) -> None:
    strangers = at.root / "not-ours"
    (strangers / "audio").mkdir(parents=True)
    at.root.chmod(0o700)
    (strangers / "session.json").write_text('{"id":"not-ours","recorder":"somebody/1"}')
    (strangers / "audio" / "room.native.wav").write_bytes(b"RIFF nothing we should mend")
    os.utime(strangers / "audio" / "room.native.wav", (1, 1))
    before = fingerprint(strangers)

    first = running.Daemon(at, "--source", str(SAMPLE))
    first.wait_until_ready()
    session = at.ctl("record").stdout.strip()
    running.wait_until(lambda: len(raw_lines(at, session)) >= 2)
    # In the middle of the third sentence.
    captured_ms = running.wait_until(lambda: captured_beyond(at, 6000))
    first.kill()
    published = raw_lines(at, session)
    with (at.root / session / "raw.jsonl").open("ab") as file:
        file.write(b'{"track":"room","start_ms":99')  # a line that was being written

    with running.daemon(at, "--source", str(SAMPLE)):
        running.wait_until(lambda: state(at, session) == "done", 60)
        status = at.status()
    lines = raw_lines(at, session)
    assert lines[: len(published)] == published
    assert len(lines) > len(published), "what was not transcribed yet must follow"
    assert_in_order_and_once(lines)
    meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    assert meta["recovered"] is True
    assert meta["ended_at"] is not None
    info = soundfile.info(at.root / session / "audio" / "room.wav")
    assert info.duration * 1000 >= captured_ms
    assert abs(meta["duration_s"] - info.duration) < 0.01
    assert "recovered" in [event["kind"] for event in events(at, session)]
    assert status["listening"] is False
    assert session in status["why"]
    assert sorted(path.name for path in (at.root / session).iterdir()) == [
        "audio",
        "events.jsonl",
        "raw.jsonl",
        "session.json",
        "transcript.md",
    ]
    assert [path.name for path in (at.root / session / "audio").iterdir()] == ["room.wav"]
    assert fingerprint(strangers) == before


def captured_beyond(place: running.Place, position_ms: int) -> int:
    captured_ms = int(place.status()["session"]["captured_ms"])
    return captured_ms if captured_ms > position_ms else 0


def test_a_worker_killed_in_the_middle_of_a_turn_is_replaced_and_the_turn_arrives_once(
    at: running.Place,
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        session = at.ctl("record").stdout.strip()
        killed = set()
        for count in (1, 3):
            running.wait_until(lambda count=count: len(raw_lines(at, session)) >= count)  # type: ignore[misc]
            running.wait_until(lambda: decoding(at))
            pid = running.wait_until(lambda: worker_pid(at))
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        running.wait_until(lambda: worker_pid(at) not in {None, *killed})
        assert at.status()["session"]["worker"]["restarts"] == 2
        running.wait_until(lambda: state(at, session) == "done", 60)
        log = daemon.log.read_text(encoding="utf-8")
    lines = raw_lines(at, session)
    assert_in_order_and_once(lines)
    text = " ".join(line["text"] for line in lines).lower()
    for words in ("good morning", "build finish", "took very long", "40 minutes", "new server"):
        assert words in text, lines
    assert "please tell me" in text, "the last turn must arrive"
    assert log.count("worker.lost") == 2
    assert "good morning" not in log.lower(), "no spoken word may get into the log"


def decoding(place: running.Place) -> bool:
    session = place.status()["session"]
    return bool(session) and session["worker"]["state"] == "decoding"


def test_a_killed_capture_is_followed_by_another_and_the_session_goes_on(
    at: running.Place,
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(raw_lines(at, session)) >= 1)
        daemon.kill_child(running.CAPTURE)
        running.wait_until(lambda: state(at, session) == "done", 60)
        status = at.status()
    assert "the file has ended" in status["why"]
    recording, rate_hz = soundfile.read(at.root / session / "audio" / "room.wav", dtype="int16")
    original, _ = soundfile.read(SAMPLE, dtype="int16")
    assert len(recording) == len(original)
    (gap,) = [event for event in events(at, session) if event["kind"] == "gap"]
    assert gap["reason"] == "capture_lost"
    start, end = (gap[key] * rate_hz // 1000 for key in ("start_ms", "end_ms"))
    margin = rate_hz // 1000
    assert (recording[: start - margin] == original[: start - margin]).all()
    assert (recording[end + margin :] == original[end + margin :]).all()
    assert "please tell me" in " ".join(line["text"] for line in raw_lines(at, session)).lower()


def test_a_stopped_daemon_does_not_stop_capture(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        session = at.ctl("record").stdout.strip()
        native = at.root / session / "audio" / "room.native.wav"
        running.wait_until(lambda: len(raw_lines(at, session)) >= 1)
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            grown = native.stat().st_size + 4 * 24_000 * 2
            running.wait_until(lambda: native.stat().st_size > grown)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        running.wait_until(lambda: state(at, session) == "done", 60)
        recording, _ = soundfile.read(at.root / session / "audio" / "room.wav", dtype="int16")
    original, _ = soundfile.read(SAMPLE, dtype="int16")
    assert (recording == original).all()
    text = " ".join(line["text"] for line in raw_lines(at, session)).lower()
    assert "please tell me" in text


def test_a_stop_by_signal_drains_and_an_interrupted_drain_is_finished_later(
    at: running.Place,
) -> None:
    first = running.Daemon(at, "--source", str(SAMPLE), "--source-speed", "max")
    first.wait_until_ready()
    session = at.ctl("record").stdout.strip()
    running.wait_until(lambda: len(raw_lines(at, session)) >= 1)
    # Two signals: the second one cuts the drain short.
    first.process.send_signal(signal.SIGTERM)
    running.wait_until(lambda: "daemon.stopping" in first.log.read_text())
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(20) == 0
    assert not at.socket.exists()
    published = raw_lines(at, session)
    assert state(at, session) == "pending"
    with running.daemon(at):
        running.wait_until(lambda: state(at, session) == "done", 60)
    lines = raw_lines(at, session)
    assert lines[: len(published)] == published
    assert_in_order_and_once(lines)
    assert lines[-1]["text"].lower().startswith("please tell me")
    meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    assert meta["recovered"] is False, "it was stopped in good order"


def test_a_file_as_microphone_ends_its_session_by_itself(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"):
        session = at.ctl("record", "--name", "replay").stdout.strip()
        running.wait_until(lambda: state(at, session) == "done", 60)
        status = at.status()
    assert "file has ended" in status["why"]
    recording, _ = soundfile.read(at.root / session / "audio" / "room.wav", dtype="int16")
    original, _ = soundfile.read(SAMPLE, dtype="int16")
    assert (recording == original).all()
    transcript = (at.root / session / "transcript.md").read_text(encoding="utf-8")
    lines = raw_lines(at, session)
    assert f'id: "{session}"' in transcript
    assert 'model: "tiny.en"' in transcript
    for line in lines:
        assert line["text"] in transcript


def test_a_line_is_the_audio_between_its_times(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: state(at, session) == "done", 60)
    settings = EngineSettings(str(models.packaged_folder()), 2, None, 5)
    engine = create("ambientd.speech.engines.faster_whisper:FasterWhisper", settings)
    engine.load()
    samples, rate_hz = soundfile.read(at.root / session / "audio" / "room.wav", dtype="float32")
    lines = raw_lines(at, session)
    assert len(lines) > 5
    for line in lines:
        start, end = (line[key] * rate_hz // 1000 for key in ("start_ms", "end_ms"))
        cut = soxr.resample(samples[start:end], rate_hz, 16_000)
        again = recognise(engine, cut).decode.text
        assert words(again) == words(line["text"])


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


ENGINES = """
import os, signal
from ambientd.speech.engine import Decode

class Base:
    def __init__(self, settings): pass
    def load(self): pass
    def unload(self): pass

class DiesOnShortTurns(Base):
    def decode(self, samples, effort):
        if len(samples) < 16000 * 1.6:
            os.kill(os.getpid(), signal.SIGKILL)
        return Decode("words", "en", -0.1, 0.0, 2, False)

class FailsOnShortTurns(Base):
    def decode(self, samples, effort):
        if len(samples) < 16000 * 1.6:
            raise RuntimeError("out of memory")
        return Decode("words", "en", -0.1, 0.0, 2, False)

class NeverLoads(Base):
    def load(self):
        raise RuntimeError("broken")
"""


@pytest.fixture
def engines(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "fault_engines.py").write_text(ENGINES, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("engine", ["DiesOnShortTurns", "FailsOnShortTurns"])
def test_a_turn_that_costs_two_workers_is_skipped_and_the_rest_follows(
    engines: dict[str, str], engine: str
) -> None:
    variables = {**engines, "AMBIENT_SPEECH_ENGINE": f"fault_engines:{engine}"}
    with (
        running.place(variables) as at,
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"),
    ):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: state(at, session) == "done", 90)
        skipped = [event for event in events(at, session) if event["kind"] == "skipped"]
        lines = raw_lines(at, session)
    assert skipped, "the sample holds turns of less than 1.6 s"
    assert all("two transcriber workers" in event["reason"] for event in skipped)
    assert lines[-1]["end_ms"] > skipped[0]["end_ms"], "the rest must follow"
    spans = sorted([(one["start_ms"], one["end_ms"]) for one in [*lines, *skipped]])
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_folder_that_no_program_of_ours_wrote_does_not_stop_the_daemon(
    at: running.Place,
) -> None:
    deep = at.root / "deep"
    (deep / "audio").mkdir(parents=True)
    at.root.chmod(0o700)
    (deep / "session.json").write_text("[" * 100_000, encoding="utf-8")
    (deep / "audio" / "room.native.wav").write_bytes(b"")
    linked = at.root / "linked"
    linked.mkdir()
    (linked / "session.json").write_text('{"recorder":"ambientd/0.1.0"}', encoding="utf-8")
    outside = at.folder / "outside"
    outside.mkdir()
    (outside / "room.native.wav").write_bytes(b"RIFF of somebody else")
    (linked / "audio").symlink_to(outside)
    before = fingerprint(outside)
    with running.daemon(at):
        assert at.status()["recovering"]["waiting"] == 0
    assert fingerprint(outside) == before


def test_a_session_in_which_nothing_was_recorded_is_removed_and_nothing_else(
    at: running.Place,
) -> None:
    at.root.mkdir(mode=0o700)
    mark = '{"recorder":"ambientd/0.1.0"}'
    for name in ("killed-early", "killed-later", "killed-last", "theirs", "more", "no-mark"):
        (at.root / name / "audio").mkdir(parents=True)
    (at.root / "killed-early" / ".session.json.tmp").write_text("{", encoding="utf-8")
    (at.root / "killed-early" / "transcribing.lock").write_text("1", encoding="ascii")
    for name in ("killed-later", "killed-last", "more"):
        (at.root / name / "session.json").write_text(mark, encoding="utf-8")
    (at.root / "killed-last" / "audio" / "room.native.wav").write_bytes(b"")
    (at.root / "more" / "notes.txt").write_text("mine", encoding="utf-8")
    (at.root / "theirs" / "session.json").write_text("{}", encoding="utf-8")
    with running.daemon(at) as daemon:
        running.wait_until(lambda: not (at.root / "killed-last").exists())
        running.wait_until(lambda: "killed-later" in daemon.log.read_text(encoding="utf-8"))
    left = {path.name for path in at.root.iterdir() if path.is_dir()}
    assert left == {"theirs", "more", "no-mark"}


def test_a_lock_that_was_left_in_a_done_session_does_not_make_it_live_for_ever(
    at: running.Place,
) -> None:
    at.root.mkdir(mode=0o700)
    turn = '{"track":"room","start_ms":0,"end_ms":900,"text":"Hello."}\n'
    for name, recorder in (("2026-01-02-0900", "ambientd/0.1.0"), ("theirs", "somebody/1")):
        (at.root / name).mkdir()
        meta = {"recorder": recorder, "started_at": "2026-01-02T09:00:00.000+00:00"}
        (at.root / name / "session.json").write_text(json.dumps(meta), encoding="utf-8")
        (at.root / name / "raw.jsonl").write_text(turn, encoding="utf-8")
        (at.root / name / "transcript.md").write_text("Hello.", encoding="utf-8")
        # Of the dead daemon's pid has become a program that never ends.
        (at.root / name / "transcribing.lock").write_text("1", encoding="ascii")
    theirs = fingerprint(at.root / "theirs")
    assert state(at, "2026-01-02-0900") == "transcribing"
    with running.daemon(at):
        running.wait_until(lambda: state(at, "2026-01-02-0900") == "done")
    assert fingerprint(at.root / "theirs") == theirs


def test_a_log_that_is_no_file_holds_up_neither_recovery_nor_a_stop(at: running.Place) -> None:
    folder = at.root / "a"
    (folder / "audio").mkdir(parents=True)
    at.root.chmod(0o700)
    meta = {"recorder": "ambientd/0.1.0", "model": "tiny.en", "ended_at": "x", "warnings": []}
    (folder / "session.json").write_text(json.dumps(meta), encoding="utf-8")
    soundfile.write(folder / "audio" / "room.wav", soundfile.read(SAMPLE)[0], 24_000)
    os.mkfifo(folder / "raw.jsonl")
    with running.daemon(at) as daemon:
        running.wait_until(lambda: "recovery.failed" in daemon.log.read_text(encoding="utf-8"))
        assert daemon.terminate() == 0


def test_a_bad_line_in_a_log_costs_the_transcript_and_nothing_else(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(raw_lines(at, session)) >= 1)
        (at.root / session / "edits.jsonl").write_text("broken\n", encoding="utf-8")
        stopped = at.ctl("stop", "--wait", check=False)
        assert stopped.returncode == 1
        assert "edits.jsonl, line 1" in stopped.stderr
        # The daemon is free for the next one.
        assert at.ctl("record").returncode == 0
        assert at.ctl("stop", "--wait").returncode == 0
    meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    assert "edits.jsonl" in meta["warnings"][0]


def test_a_session_that_is_deleted_while_it_is_recorded_ends_and_the_daemon_goes_on(
    at: running.Place,
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(raw_lines(at, session)) >= 1)
        shutil.rmtree(at.root / session)
        at.ctl("stop", check=False)
        running.wait_until(lambda: not at.status()["listening"])
        running.wait_until(lambda: not at.status()["finishing"])
        assert at.ctl("record").returncode == 0
        assert at.ctl("stop", "--wait").returncode == 0


def test_an_engine_that_never_loads_costs_the_text_and_not_the_recording(
    engines: dict[str, str],
) -> None:
    variables = {**engines, "AMBIENT_SPEECH_ENGINE": "fault_engines:NeverLoads"}
    with (
        running.place(variables) as at,
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"),
    ):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: not at.status()["listening"], 60)
        running.wait_until(lambda: not at.status()["finishing"], 60)
        assert state(at, session) == "pending"
        info = soundfile.info(at.root / session / "audio" / "room.wav")
        assert info.duration == SAMPLE_S
        meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
        assert "not fully transcribed" in meta["warnings"][0]
        assert at.ctl("status").returncode == 0
