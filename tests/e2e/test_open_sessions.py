"""What a person can do to a session that is open, and how one ends that nobody ends."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import soundfile

from tests import pulse, running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


@pytest.fixture
def heard(audio_server: pulse.Server) -> Iterator[running.Place]:
    audio_server.control("set-default-source", "mic")
    with running.place(audio_server.environ) as place:
        yield place


def test_a_pause_closes_the_stream_and_is_a_gap_of_the_same_session(
    heard: running.Place, audio_server: pulse.Server
) -> None:
    with running.daemon(heard):
        assert heard.status()["state"] == "deaf"
        idle = audio_server.streams()
        session = heard.ctl("record").stdout.strip()
        assert heard.status()["state"] == "recording"
        assert audio_server.streams() == idle + 1
        heard.ctl("pause")
        running.wait_until(lambda: audio_server.streams() == idle)
        paused = heard.status()
        assert (paused["state"], paused["session"]["id"]) == ("paused", session)
        assert paused["session"]["tracks"]["room"]["input"] == "paused"
        assert paused["session"]["tracks"]["room"]["warning"] == ""
        assert "closed: ambientctl resume" in heard.ctl("status").stdout
        with running.client(heard) as client:
            assert client.tool("status")["live"] == {"id": session}
        again = heard.ctl("pause", check=False)
        heard.ctl("resume")
        running.wait_until(lambda: heard.track()["input"] == "ok")
        assert audio_server.streams() == idle + 1
        heard.ctl("stop", "--wait")
        assert audio_server.streams() == idle
    assert again.returncode == 4
    assert "ambientctl resume" in again.stderr
    (gap,) = heard.events(session, "gap")
    assert gap["reason"] == "paused"
    assert [one["kind"] for one in heard.events(session, "paused", "resumed")] == [
        "paused",
        "resumed",
    ]
    recorded, rate_hz = soundfile.read(heard.root / session / "audio" / "room.wav", dtype="int16")
    hole = recorded[gap["start_ms"] * rate_hz // 1000 + 1 : gap["end_ms"] * rate_hz // 1000]
    assert not hole.any()


def test_a_stop_in_a_pause_ends_the_session_with_a_gap(heard: running.Place) -> None:
    with running.daemon(heard):
        session = heard.ctl("record").stdout.strip()
        heard.ctl("pause")
        running.wait_until(lambda: heard.track()["captured_frames"] > 0)
        heard.ctl("stop", "--wait")
        assert heard.status()["state"] == "deaf"
    assert [gap["reason"] for gap in heard.events(session, "gap")] == ["paused"]


def test_a_muted_track_is_a_gap_while_the_other_goes_on(at: running.Place) -> None:
    sources = ("--source", str(SAMPLE), "--call-source", str(SAMPLE))
    with running.daemon(at, *sources):
        session = at.ctl("record", "--call").stdout.strip()
        running.wait_until(lambda: at.track("call")["captured_ms"] > 1000)
        at.ctl("mute", "call")
        running.wait_until(lambda: at.track("call")["input"] == "track_muted")
        captured_ms = at.track("room")["captured_ms"]
        running.wait_until(lambda: at.track("room")["captured_ms"] > captured_ms + 2000)
        again = at.ctl("mute", "call", check=False)
        at.ctl("unmute", "call")
        running.wait_until(lambda: at.track("call")["input"] == "ok")
        at.ctl("stop", "--wait")
    assert (again.returncode, "unmute call" in again.stderr) == (4, True)
    # Two inputs do not open in the same millisecond.
    gaps = [one for one in at.events(session, "gap") if one["reason"] != "late_start"]
    (gap,) = gaps
    assert (gap["track"], gap["reason"]) == ("call", "track_muted")
    assert gap["end_ms"] - gap["start_ms"] > 1500


@pytest.mark.parametrize("verb", [("pause",), ("resume",), ("mute", "room"), ("unmute", "room")])
def test_without_a_session_there_is_nothing_to_close(
    at: running.Place, verb: tuple[str, ...]
) -> None:
    with running.daemon(at):
        refused = at.ctl(*verb, check=False)
    assert refused.returncode == 4
    assert "nothing is being recorded; start with: ambientctl record" in refused.stderr


def test_a_track_that_is_not_recorded_cannot_be_muted(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        at.ctl("record")
        refused = at.ctl("mute", "call", check=False)
        assert at.status()["session"]["tracks"]["room"]["input"] == "ok"
    assert refused.returncode == 4
    assert "no track call; it has room" in refused.stderr


def test_who_allowed_a_session_and_how_is_in_it_and_in_status(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        said = at.status()
    meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    assert said["session"]["consent"] == meta["consent"]
    assert meta["consent"]["basis"] == "record"
    assert meta["consent"]["by"] == getpass.getuser()
    assert meta["consent"]["until"] is None
    assert said["why"] == f"ambientctl record, by {getpass.getuser()}"


def test_the_longest_session_is_announced_and_ended(at: running.Place) -> None:
    at.environ["AMBIENT_SESSION_MAX_MINUTES"] = "0.05"
    with running.daemon(at, "--source", str(SAMPLE)):
        session = at.ctl("record").stdout.strip()
        warning = running.wait_until(lambda: (at.status()["session"]["ends"] or {}).get("warning"))
        running.wait_until(lambda: at.status()["state"] == "deaf")
        why = at.status()["why"]
        running.wait_until((at.root / session / "transcript.md").exists)
    assert "the longest a session may be" in warning
    assert "it lasted 0.05 min, the longest a session may be" in why
    announced, stopped = at.events(session, "ends_soon", "auto_stopped")
    assert announced["reason"] == stopped["reason"] == "max_length"
    assert stopped["start_ms"] + 1000 >= 3000


def test_a_session_in_which_nobody_speaks_any_more_is_ended(
    at: running.Place, tmp_path: Path
) -> None:
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    quiet = tmp_path / "quiet.wav"
    pause = numpy.zeros(60 * rate_hz, dtype=numpy.int16)
    soundfile.write(quiet, numpy.concatenate((samples[: 8 * rate_hz], pause)), rate_hz)
    at.environ["AMBIENT_SESSION_SILENCE_MINUTES"] = "0.1"
    with running.daemon(at, "--source", str(quiet)):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: at.status()["state"] == "deaf", 60)
        assert "nobody spoke for 0.1 min" in at.status()["why"]
        running.wait_until((at.root / session / "transcript.md").exists)
    stopped = at.events(session, "auto_stopped")[0]
    text = (at.root / session / "raw.jsonl").read_text(encoding="utf-8")
    last_ms = json.loads(text.splitlines()[-1])["end_ms"]
    assert stopped["reason"] == "silence"
    assert 4000 <= stopped["start_ms"] - last_ms <= 9000


def test_a_notification_says_when_it_listens_and_when_no_more(
    at: running.Place, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    for name in ("notify-send", "osascript"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n', encoding="utf-8")
        program.chmod(0o755)
    at.environ["PATH"] = f"{tmp_path}:{at.environ['PATH']}"
    with running.daemon(at, "--source", str(SAMPLE)):
        at.ctl("record", "--name", "secret plans")
        at.ctl("pause")
        at.ctl("stop")
        running.wait_until(lambda: said.read_text(encoding="utf-8").count("\n") == 3)
    rows = said.read_text(encoding="utf-8").splitlines()
    assert ["recording" in rows[0], "paused" in rows[1], "stopped" in rows[2]] == [True] * 3
    assert "secret" not in " ".join(rows)
    at.environ["AMBIENT_NOTIFICATIONS"] = "off"
    with running.daemon(at, "--source", str(SAMPLE)):
        at.ctl("record")
        at.ctl("stop", "--wait")
    assert said.read_text(encoding="utf-8").splitlines() == rows
