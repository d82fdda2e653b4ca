"""Speech into a real microphone path, read by the official SDK's client while it is spoken."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import soundfile
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests import pulse, running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
REFERENCE = SAMPLE.with_suffix(".json")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def place(audio_server: pulse.Server) -> Iterator[running.Place]:
    with running.place(audio_server.environ) as at:
        yield at


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


async def poll_until_done(
    place: running.Place, session: str, speaking: Any
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Follow a session as an assistant does, stopping the recording when the speech has ended.

    Returns:
        All lines, the states in order, and how many lines came before the speech had ended.
    """
    server = StdioServerParameters(
        command=str(running.BIN / "ambient"),
        args=["mcp"],
        env={key: value for key, value in place.environ.items() if key.startswith("AMBIENT_")},
    )
    lines: list[dict[str, Any]] = []
    states: list[str] = []
    during_speech = 0
    stopped = False
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        since = 0
        while not states or states[-1] != "done":
            if not stopped and speaking.poll() is not None:
                during_speech = len(lines)
                await anyio.to_thread.run_sync(place.ctl, "stop")
                stopped = True
            result = await client.call_tool("transcript", {"session": session, "since": since})
            answer = json.loads(result.content[0].text)  # type: ignore[union-attr]
            lines += answer["lines"]
            since = answer["next"]
            assert since == len(lines)
            if not states or states[-1] != answer["state"]:
                states.append(answer["state"])
            await anyio.sleep(0.05)
        whole = await client.call_tool("transcript", {"session": session, "since": 0})
        assert json.loads(whole.content[0].text)["lines"] == lines  # type: ignore[union-attr]
    return lines, states, during_speech


def test_words_are_readable_while_the_person_still_speaks(
    place: running.Place, audio_server: pulse.Server, tmp_path: Path
) -> None:
    speech = tmp_path / "speech.wav"
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    soundfile.write(speech, samples, rate_hz)
    with running.daemon(place):
        session = place.ctl("record", "--name", "Über Stand-up!").stdout.strip()
        assert session.endswith("-uber-stand-up")
        status = place.status()
        assert status["listening"] is True
        assert status["session"]["tracks"]["room"]["rate_hz"] == 48000
        with audio_server.speak(speech) as speaking:
            lines, states, during_speech = anyio.run(poll_until_done, place, session, speaking)
        last = place.status()

    assert during_speech >= 1, "nothing was readable before the speech had ended"
    assert states in (["live", "transcribing", "done"], ["live", "done"])
    starts = [line["start_ms"] for line in lines]
    assert starts == sorted(starts)
    assert all(before["end_ms"] <= after["start_ms"] for before, after in itertools.pairwise(lines))
    spoken = words(" ".join(one["text"] for one in json.loads(REFERENCE.read_text())["lines"]))
    heard = words(" ".join(line["text"] for line in lines))
    assert len(set(spoken) & set(heard)) >= 0.8 * len(set(spoken)), heard
    assert len(heard) <= 1.2 * len(spoken), "something was published twice or invented"
    assert last["listening"] is False

    folder = place.root / session
    recording = folder / "audio" / "room.wav"
    info = soundfile.info(recording)
    assert (info.samplerate, info.channels, info.subtype) == (48000, 1, "PCM_16")
    meta = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    assert meta["name"] == "Über Stand-up!"
    assert abs(meta["duration_s"] - info.duration) < 0.001
    assert meta["consent"]["basis"] == "record"
    assert sorted(path.name for path in folder.iterdir()) == [
        "audio",
        "raw.jsonl",
        "session.json",
        "transcript.md",
    ]
    assert [path.name for path in (folder / "audio").iterdir()] == ["room.wav"]
    raw = [json.loads(line) for line in (folder / "raw.jsonl").read_text().splitlines()]
    assert [(one["start_ms"], one["text"]) for one in raw] == [
        (line["start_ms"], line["text"]) for line in lines
    ]
    assert "spoken" not in (place.folder / "ambientd.log").read_text()


def test_devices_lists_what_the_audio_server_has_by_the_names_that_people_know(
    place: running.Place,
) -> None:
    with running.daemon(place):
        devices = json.loads(place.ctl("devices", "--json").stdout)["devices"]
        table = place.ctl("devices").stdout
    found = {device["id"]: device for device in devices if device["host_api"] == "PulseAudio"}
    assert set(found) == {"mic", "room.monitor", "call.monitor"}
    assert [one["id"] for one in devices if one["default"]] == ["mic"]
    assert [one["id"] for one in found.values() if one["monitor"]] == [
        "room.monitor",
        "call.monitor",
    ]
    assert sum(one["played"] for one in devices) == 1
    assert ">* Remapped Monitor of Null Output" in table
    assert {one["id"]: one["chosen"] for one in devices if one["chosen"]} == {"mic": "room"}


def test_devices_marks_what_the_settings_choose(place: running.Place) -> None:
    place.environ["AMBIENT_CAPTURE_DEVICE"] = "call.monitor"
    place.environ["AMBIENT_CAPTURE_CALL"] = "auto"
    with running.daemon(place):
        devices = json.loads(place.ctl("devices", "--json").stdout)["devices"]
    chosen = {one["chosen"]: one for one in devices if one["chosen"]}
    assert set(chosen) == {"room", "call"}
    assert chosen["room"]["id"] == "call.monitor"
    assert chosen["call"]["played"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"AMBIENT_CAPTURE_DEVICE": "no such thing"}, "no input device called 'no such thing'"),
        ({"PULSE_SERVER": "unix:/nonexistent"}, ""),
    ],
)
def test_a_microphone_that_cannot_be_opened_leaves_nothing_behind(
    audio_server: pulse.Server, variables: dict[str, str], says: str
) -> None:
    with running.place({**audio_server.environ, **variables}) as place, running.daemon(place):
        refused = place.ctl("record", check=False)
        assert refused.returncode == 1
        assert refused.stdout == ""
        assert says in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert [path.name for path in place.root.iterdir()] == [".ambientd.lock"]
        assert place.status()["listening"] is False
