"""Standing consent: nothing is kept until somebody speaks, and then nothing of it is missing."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests import pulse, running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
EAR = "ambientd.speech.ear"


@pytest.fixture
def heard(audio_server: pulse.Server) -> Iterator[running.Place]:
    audio_server.control("set-default-source", "mic")
    with running.place(audio_server.environ) as place:
        place.environ["AMBIENT_ARMED_SILENCE_MINUTES"] = "0.1"
        yield place


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first two sentences of the sample."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    soundfile.write(path, samples[: int(3.8 * rate_hz)], rate_hz)
    return path


def sessions(place: running.Place) -> list[str]:
    return sorted(path.name for path in place.root.iterdir() if path.is_dir())


def stands_by(place: running.Place) -> bool:
    standby: dict[str, Any] = place.status()["standby"] or {}
    # The level says that audio comes; the voice detector has long been there then.
    return "room" in standby and standby["room"]["level_dbfs"] is not None


def wait_for_ear(place: running.Place, daemon: running.Daemon) -> None:
    running.wait_until(lambda: stands_by(place))
    running.wait_until(lambda: running.children(daemon.process.pid, EAR))
    time.sleep(1.5)  # it has loaded its model; nothing says so, because nothing depends on it


def test_a_session_begins_when_somebody_speaks_and_ends_when_nobody_does(
    heard: running.Place, audio_server: pulse.Server, talk: Path
) -> None:
    with running.daemon(heard) as daemon:
        idle = audio_server.streams()
        said = heard.ctl("arm", "--for", "1h").stdout
        wait_for_ear(heard, daemon)
        status = heard.status()
        assert (status["state"], status["listening"]) == ("armed", False)
        assert audio_server.streams() == idle + 1
        assert sessions(heard) == []
        assert not running.children(daemon.process.pid, running.WORKER)
        with running.client(heard) as client:
            assert client.tool("status")["live"] is None
        assert audio_server.speak(talk).wait(30) == 0
        running.wait_until(lambda: heard.status()["state"] == "recording")
        (first,) = sessions(heard)
        running.wait_until(lambda: heard.status()["state"] == "armed", 40)
        running.wait_until((heard.root / first / "transcript.md").exists)
        wait_for_ear(heard, daemon)
        assert audio_server.speak(talk).wait(30) == 0
        running.wait_until(lambda: len(sessions(heard)) == 2)
        ended = heard.ctl("disarm").stdout.strip()
        assert ended == sessions(heard)[1]
        assert heard.status()["state"] == "deaf"
        running.wait_until(lambda: audio_server.streams() == idle)
        assert not running.children(daemon.process.pid, EAR)
        running.wait_until((heard.root / ended / "transcript.md").exists)
    assert said.startswith("armed until ")
    meta = json.loads((heard.root / first / "session.json").read_text(encoding="utf-8"))
    assert meta["consent"]["basis"] == "armed"
    given = datetime.datetime.fromisoformat(meta["consent"]["at"])
    until = datetime.datetime.fromisoformat(meta["consent"]["until"])
    assert datetime.timedelta(minutes=59) < until - given <= datetime.timedelta(hours=1, seconds=1)
    lines = [
        json.loads(line)
        for line in (heard.root / first / "raw.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    text = " ".join(line["text"] for line in lines).lower()
    assert text.startswith("good morning"), "what made it begin is in it, from its first word"
    assert "did the build finish" in text
    # Speech begins behind up to two seconds of what was kept.
    assert 500 <= lines[0]["start_ms"] <= 2500
    assert [one["reason"] for one in heard.events(first, "auto_stopped")] == ["silence"]
    # A virtual microphone is exactly silent when nobody speaks, so it is opened again.
    assert {gap["reason"] for gap in heard.events(first, "gap")} <= {"digital_silence"}


def test_a_stop_leaves_it_armed_and_record_takes_over(
    heard: running.Place, audio_server: pulse.Server, talk: Path
) -> None:
    with running.daemon(heard) as daemon:
        heard.ctl("arm", "--until-disarm")
        wait_for_ear(heard, daemon)
        refused = heard.ctl("stop", check=False)
        session = heard.ctl("record", "--no-transcribe").stdout.strip()
        assert heard.status()["session"]["consent"]["basis"] == "record"
        running.wait_until(lambda: heard.track()["captured_ms"] > 500)
        heard.ctl("stop")
        assert heard.status()["state"] == "armed"
        running.wait_until(lambda: stands_by(heard))
        session2 = heard.ctl("record", "--no-transcribe").stdout.strip()
        going_on = heard.ctl("disarm")
        assert heard.status()["session"]["id"] == session2 != session
        heard.ctl("stop")
        assert heard.status()["state"] == "deaf"
    assert (refused.returncode, "ambientctl disarm" in refused.stderr) == (4, True)
    assert f"{session2} goes on" in going_on.stderr


def test_consent_ends_at_its_time(heard: running.Place, audio_server: pulse.Server) -> None:
    with running.daemon(heard):
        idle = audio_server.streams()
        heard.ctl("arm", "--for", "4s")
        running.wait_until(lambda: stands_by(heard))
        running.wait_until(lambda: heard.status()["state"] == "deaf")
        assert heard.status()["why"] == "the consent to listen ended"
        running.wait_until(lambda: audio_server.streams() == idle)
        again = heard.ctl("disarm", check=False)
    assert (again.returncode, "it is not armed" in again.stderr) == (4, True)


def test_it_is_armed_again_after_a_crash_and_deaf_after_a_stop(heard: running.Place) -> None:
    with running.daemon(heard) as daemon:
        heard.ctl("arm", "--for", "1h")
        before = heard.status()["consent"]
        running.wait_until(lambda: stands_by(heard))
        daemon.kill()
        with running.daemon(heard):
            running.wait_until(lambda: stands_by(heard))
            assert heard.status()["consent"]["until"] == before["until"]
    with running.daemon(heard):
        assert heard.status()["state"] == "deaf"
        assert heard.status()["consent"] is None


@pytest.mark.parametrize(
    "change",
    [{"boot": "another"}, {"until": "2026-01-01T00:00:00+00:00"}, {"until": "soon"}, {"at": None}],
    ids=str,
)
def test_no_consent_comes_back_from_another_start_of_the_machine_or_when_it_is_over(
    at: running.Place, change: dict[str, Any]
) -> None:
    with running.daemon(at, "--source", str(SAMPLE)) as daemon:
        at.ctl("arm", "--until-disarm")
        daemon.kill()
        kept = at.root / ".armed.json"
        record = {**json.loads(kept.read_text(encoding="utf-8")), **change}
        kept.write_text(json.dumps(record), encoding="utf-8")
        with running.daemon(at, "--source", str(SAMPLE)):
            assert at.status()["state"] == "deaf"


def test_an_armed_microphone_that_goes_away_is_waited_for(
    heard: running.Place, audio_server: pulse.Server
) -> None:
    headset = ("module-remap-source", "master=room.monitor", "source_name=headset")
    index = audio_server.load(*headset)
    heard.environ["AMBIENT_CAPTURE_DEVICE"] = "headset"
    with running.daemon(heard):
        heard.ctl("arm")
        running.wait_until(lambda: stands_by(heard))
        audio_server.unload(index)
        running.wait_until(lambda: heard.status()["standby"]["room"]["input"] == "waiting")
        running.wait_until(lambda: "'headset'" in heard.status()["standby"]["room"]["warning"])
        index = audio_server.load(*headset)
        running.wait_until(lambda: stands_by(heard))
        audio_server.unload(index)


def test_the_voice_detector_that_dies_is_followed_by_another(
    heard: running.Place, audio_server: pulse.Server, talk: Path
) -> None:
    with running.daemon(heard) as daemon:
        heard.ctl("arm")
        wait_for_ear(heard, daemon)
        daemon.kill_child(EAR)
        running.wait_until(lambda: not running.children(daemon.process.pid, EAR))
        wait_for_ear(heard, daemon)
        assert audio_server.speak(talk).wait(30) == 0
        running.wait_until(lambda: heard.status()["state"] == "recording")
        heard.ctl("disarm")
