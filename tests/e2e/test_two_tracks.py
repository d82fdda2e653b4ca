"""The microphone and what the speakers play, recorded at once: two virtual devices, two texts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

from tests import pulse, running

CALL_TEXT = (
    "The budget for the second quarter is ready.",
    "We have to cut the travel costs by ten percent.",
    "Please read the numbers before the meeting on Monday.",
)
SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


@pytest.fixture
def place(audio_server: pulse.Server) -> Iterator[running.Place]:
    audio_server.control("set-default-source", "mic")
    audio_server.control("set-default-sink", "call")
    with running.place(audio_server.environ) as made:
        yield made


def words(place: running.Place, session: str, track: str) -> str:
    return " ".join(one["text"] for one in place.lines(session) if one["track"] == track).lower()


def spoken(folder: Path) -> Path:
    """Return a file with the text of the call, by another voice than that of the sample."""
    raw, path = folder / "espeak.wav", folder / "call.wav"
    text = " ".join(CALL_TEXT)
    subprocess.run(["espeak-ng", "-v", "en-us", "-s", "150", "-w", raw, text], check=True)
    samples, rate_hz = soundfile.read(raw, dtype="int16")
    soundfile.write(path, samples, rate_hz)
    return path


def test_two_texts_at_once_are_two_tracks_in_one_log_and_a_lost_one_comes_back(
    place: running.Place, audio_server: pulse.Server, tmp_path: Path
) -> None:
    talk, call = tmp_path / "talk.wav", spoken(tmp_path)
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    soundfile.write(talk, samples, rate_hz)
    with running.daemon(place):
        session = place.ctl("record", "--call").stdout.strip()
        assert place.status()["session"]["tracks"].keys() == {"room", "call"}
        in_call = audio_server.speak(call, "call")
        with audio_server.speak(talk, "room") as in_room:
            assert in_call.wait(30) == 0
            # The default output goes away in the middle, and another one comes.
            headset = audio_server.load("module-null-sink", "sink_name=headset")
            audio_server.control("set-default-sink", "headset")
            running.wait_until(lambda: place.events(session, "device_changed"))
            with audio_server.speak(call, "headset") as again:
                assert again.wait(30) == 0
            assert in_room.wait(60) == 0
        audio_server.unload(headset)
        audio_server.control("set-default-sink", "call")
        place.ctl("stop", "--wait")
    meta = json.loads((place.root / session / "session.json").read_text(encoding="utf-8"))
    assert meta["tracks"]["room"]["device"] != meta["tracks"]["call"]["device"]
    assert "move the upload to the new server" in words(place, session, "room")
    assert "please tell me when it works" in words(place, session, "room")
    assert words(place, session, "call").count("travel") == 2
    assert words(place, session, "call").count("before the meeting") == 2
    assert "budget" not in words(place, session, "room")
    assert "upload" not in words(place, session, "call")
    assert {gap["track"] for gap in place.events(session, "gap")} <= {"call"}
    order = [one["track"] for one in place.lines(session)]
    assert order != sorted(order), "lines are in the order in which they were published"
    starts_ms = [
        int(row[3:5]) * 60 + int(row[6:8])
        for row in (place.root / session / "transcript.md").read_text("utf-8").splitlines()
        if row.startswith("**[")
    ]
    assert starts_ms == sorted(starts_ms), "people read in the order in which it was said"


def test_a_call_that_cannot_be_heard_yet_is_waited_for(
    place: running.Place, audio_server: pulse.Server, tmp_path: Path
) -> None:
    place.environ["AMBIENT_CAPTURE_CALL"] = "headset.monitor"
    with running.daemon(place):
        started = place.ctl("record")
        session = started.stdout.strip()
        assert "call is not heard yet" in started.stderr
        running.wait_until(lambda: "'headset.monitor'" in place.track("call")["warning"])
        assert place.track("call")["device"] is None
        headset = audio_server.load("module-null-sink", "sink_name=headset")
        running.wait_until(lambda: place.track("call")["input"] == "ok")
        with audio_server.speak(spoken(tmp_path), "headset") as in_call:
            assert in_call.wait(30) == 0
        audio_server.unload(headset)
        place.ctl("stop", "--wait")
    assert "travel cost" in words(place, session, "call")
    first = place.events(session, "gap")[0]
    assert (first["track"], first["start_ms"], first["reason"]) == ("call", 0, "late_start")
    meta = json.loads((place.root / session / "session.json").read_text(encoding="utf-8"))
    assert meta["tracks"]["call"]["rate_hz"] == 48_000


def test_a_call_that_never_came_is_one_gap_and_no_file(place: running.Place) -> None:
    place.environ["AMBIENT_CAPTURE_CALL"] = "no such output"
    with running.daemon(place, "--source", str(SAMPLE), "--source-speed", "4"):
        session = place.ctl("record").stdout.strip()
        running.wait_until((place.root / session / "transcript.md").exists, 60)
    assert [path.name for path in (place.root / session / "audio").iterdir()] == ["room.wav"]
    gaps = place.events(session, "gap")
    assert [(gap["track"], gap["reason"]) for gap in gaps] == [("call", "late_start")]
    assert "upload" in words(place, session, "room")


def test_a_named_microphone_is_waited_for_and_no_other_is_taken_in_its_place(
    place: running.Place, audio_server: pulse.Server
) -> None:
    headset = audio_server.load(
        "module-remap-source",
        "master=room.monitor",
        "source_name=headset_mic",
        "source_properties=device.description=Headset",
    )
    place.environ["AMBIENT_CAPTURE_DEVICE"] = "headset"
    with running.daemon(place):
        session = place.ctl("record", "--no-transcribe").stdout.strip()
        assert place.track()["device"] == "Headset"
        audio_server.unload(headset)
        running.wait_until(lambda: place.track()["input"] == "waiting")
        captured = place.track()["captured_frames"]
        assert place.track()["captured_frames"] == captured
        headset = audio_server.load(
            "module-remap-source",
            "master=room.monitor",
            "source_name=headset_mic",
            "source_properties=device.description=Headset",
        )
        running.wait_until(lambda: place.track()["input"] == "ok")
        assert place.track()["device"] == "Headset"
        place.ctl("stop")
        audio_server.unload(headset)
    assert place.events(session, "gap")[0]["reason"] == "device_lost"
    assert not place.events(session, "device_changed")


def test_a_call_that_is_over_is_text_while_the_room_goes_on(
    at: running.Place, tmp_path: Path
) -> None:
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    short = tmp_path / "call.wav"
    # It ends in the middle of a turn: nothing but its end closes that.
    soundfile.write(short, samples[: int(3.2 * rate_hz)], rate_hz)
    with running.daemon(at, "--source", str(SAMPLE), "--call-source", str(short)):
        session = at.ctl("record", "--call").stdout.strip()
        running.wait_until(lambda: "last night" in words(at, session, "call"))
        assert at.status()["state"] == "recording"
        at.ctl("stop", "--wait")
