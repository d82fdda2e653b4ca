"""`ambientctl devices test`: a person sees that they are heard, and nothing is kept."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import pulse, running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


@pytest.fixture
def heard(audio_server: pulse.Server) -> Iterator[running.Place]:
    audio_server.control("set-default-source", "mic")
    with running.place(audio_server.environ) as place:
        yield place


def begin(place: running.Place) -> subprocess.Popen[str]:
    checking = subprocess.Popen(
        [str(running.BIN / "ambientctl"), "devices", "test"],
        env=place.environ,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    running.wait_until(lambda: place.status()["state"] == "checking")
    return checking


def test_it_shows_level_and_voice_and_keeps_nothing(
    heard: running.Place, audio_server: pulse.Server
) -> None:
    with running.daemon(heard):
        idle = audio_server.streams()
        speaking = audio_server.speak(SAMPLE)
        said = heard.ctl("devices", "test").stdout
        speaking.kill()
        speaking.wait()
        assert heard.status()["state"] == "deaf"
        assert audio_server.streams() == idle
    lines = said.splitlines()
    rows = [line for line in lines if " s  room  " in line]
    assert len(rows) == 20
    assert any("dBFS  #" in row and "voice 0." in row and row.endswith("speech") for row in rows)
    assert "Remapped Monitor of Null Output: speech for " in lines[-1]
    assert not [path for path in heard.root.iterdir() if path.is_dir()]


def test_silence_is_called_silence(heard: running.Place) -> None:
    with running.daemon(heard):
        told = json.loads(heard.ctl("devices", "test", "--json").stdout)
        summary = heard.ctl("devices", "test").stdout.splitlines()[-1]
    (room,) = told["tracks"].values()
    assert told["is_over"]
    assert not any(row["speech"] for row in room["rows"])
    assert {row["level_dbfs"] for row in room["rows"][-5:]} == {-120.0}
    assert "nothing but zeros" in summary


def test_while_it_lasts_nothing_else_listens_and_who_interrupts_it_closes_the_microphone(
    heard: running.Place, audio_server: pulse.Server
) -> None:
    with running.daemon(heard):
        idle = audio_server.streams()
        checking = begin(heard)
        refused = heard.ctl("record", check=False)
        assert refused.returncode == 4
        assert "being tested; end that: ambientctl stop" in refused.stderr
        assert heard.ctl("devices", "test", check=False).returncode == 4
        checking.send_signal(signal.SIGINT)
        checking.communicate()
        assert checking.returncode == 130
        running.wait_until(lambda: heard.status()["state"] == "deaf")
        running.wait_until(lambda: audio_server.streams() == idle)
        heard.ctl("record")
        assert heard.ctl("devices", "test", check=False).returncode == 4


def test_who_arms_meanwhile_is_armed_when_it_is_over(heard: running.Place) -> None:
    with running.daemon(heard):
        checking = begin(heard)
        heard.ctl("arm")
        assert heard.status()["state"] == "checking"
        heard.ctl("stop")
        running.wait_until(lambda: heard.status()["state"] == "armed")
        checking.communicate()
        heard.ctl("disarm")


def test_an_input_that_is_not_there_is_said(audio_server: pulse.Server) -> None:
    variables = {**audio_server.environ, "AMBIENT_CAPTURE_DEVICE": "no such thing"}
    with running.place(variables) as place, running.daemon(place):
        said = place.ctl("devices", "test").stdout
    assert "no input device called 'no such thing'" in said.splitlines()[-1]
