"""An assistant that controls the recording, through the real `ambient mcp`."""

from __future__ import annotations

import getpass
import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ambientd.tools import control, toolsets
from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
SOURCE = ("--source", str(SAMPLE))
NAMES = [tool.name for tool in control.TOOLS]
SCHEMAS = {tool.name: tool.descriptor["outputSchema"] for tool in control.TOOLS}


@pytest.fixture
def allowed(at: running.Place) -> running.Place:
    (at.folder / "config.toml").write_text(
        '[mcp]\ntoolsets = "sessions,control"\nallow_control = "on"\n', encoding="utf-8"
    )
    return at


def call(client: running.Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that succeeds and return its object, checked against what it declares."""
    result = client.request("tools/call", {"name": tool, "arguments": arguments})
    assert result["isError"] is False, result
    value: dict[str, Any] = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == value
    jsonschema.validate(value, SCHEMAS[tool])
    return value


def failure(client: running.Client, tool: str, **arguments: Any) -> str:
    result = client.request("tools/call", {"name": tool, "arguments": arguments})
    assert result["isError"] is True, result
    text: str = result["content"][0]["text"]
    return text


def listed(client: running.Client) -> list[str]:
    return [tool["name"] for tool in client.request("tools/list", {})["tools"]]


def calls(place: running.Place, session: str) -> list[tuple[str, str]]:
    return [(one["tool"], one["client"]) for one in place.events(session, "assistant")]


def test_an_assistant_records_pauses_resumes_and_stops_and_each_call_is_an_event(
    allowed: running.Place,
) -> None:
    with running.daemon(allowed, *SOURCE), running.client(allowed) as client:
        begun = call(client, "record_start", name="asked for")
        session = begun["session"]
        assert begun["devices"] == {"room": "standup.flac"}
        status = allowed.status()
        given = status["session"]["consent"]
        assert (given["basis"], given["by"]) == ("assistant", f"{getpass.getuser()} through tests")
        assert status["why"].startswith("an assistant's record_start, by ")
        assert "is open" in failure(client, "record_start")
        running.wait_until(lambda: allowed.status()["session"]["turns"] > 0)
        assert call(client, "pause") == {"session": session}
        running.wait_until(lambda: allowed.track()["input"] == "paused")
        assert call(client, "resume") == {"session": session}
        assert call(client, "record_stop") == {"session": session, "problem": ""}
        running.wait_until((allowed.root / session / "transcript.md").exists)
        assert "nothing is being recorded" in failure(client, "record_stop")
    assert calls(allowed, session) == [
        (tool, "tests")
        for tool in ("record_start", "record_start", "pause", "resume", "record_stop")
    ]
    (gap,) = allowed.events(session, "gap")
    assert gap["reason"] == "paused"


def test_what_a_person_paused_an_assistant_does_not_resume(allowed: running.Place) -> None:
    with running.daemon(allowed, *SOURCE), running.client(allowed) as client:
        session = allowed.ctl("record").stdout.strip()
        call(client, "pause")
        allowed.ctl("pause")
        assert "a person paused it" in failure(client, "resume")
        allowed.ctl("resume")
        running.wait_until(lambda: allowed.track()["input"] == "ok")
    assert len(allowed.events(session, "paused")) == 1


def test_without_the_setting_of_a_person_every_call_is_refused(allowed: running.Place) -> None:
    config = allowed.folder / "config.toml"
    config.write_text('[mcp]\ntoolsets = "control"\n', encoding="utf-8")
    with running.daemon(allowed, *SOURCE), running.client(allowed) as client:
        assert listed(client) == NAMES
        for name in NAMES:
            said = failure(client, name)
            assert "a person can allow it" in said
            assert str(config) in said
        assert allowed.status()["state"] == "deaf"
    assert not [path for path in allowed.root.iterdir() if path.is_dir()]


def test_without_being_asked_for_the_tools_do_not_exist(at: running.Place) -> None:
    at.environ["AMBIENT_MCP_ALLOW_CONTROL"] = "on"
    with running.daemon(at, *SOURCE), running.client(at) as client:
        assert listed(client) == ["sessions", "transcript", "status"]
        with pytest.raises(RuntimeError, match="unknown tool"):
            failure(client, "record_start")
        assert at.status()["state"] == "deaf"


def test_no_tool_gives_standing_consent() -> None:
    for toolset in toolsets.ALL:
        assert not [tool for tool in toolset.tools if "arm" in tool.name]


def test_without_a_daemon_they_are_listed_and_say_what_to_do(allowed: running.Place) -> None:
    with running.client(allowed) as client:
        assert listed(client) == ["sessions", "transcript", "status", *NAMES]
        for name in NAMES:
            assert "ambientd is not running; start it" in failure(client, name)


@pytest.mark.parametrize(
    ("name", "arguments", "word"),
    [
        ("record_start", {"name": 3}, "`name`"),
        ("record_start", {"name": ""}, "`name`"),
        ("record_start", {"seconds": -1}, "`seconds`"),
        ("record_start", {"seconds": True}, "`seconds`"),
        ("record_start", {"transcribe": False}, "`transcribe`"),
        ("pause", {"until": "18:00"}, "`until`"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_starts(
    allowed: running.Place, name: str, arguments: dict[str, Any], word: str
) -> None:
    with running.daemon(allowed, *SOURCE), running.client(allowed) as client:
        assert word in failure(client, name, **arguments)
        assert allowed.status()["state"] == "deaf"


@pytest.mark.parametrize("names", ["", "arm", "sessions,", "sessions control"])
def test_a_toolset_that_there_is_not_is_a_usage_error(at: running.Place, names: str) -> None:
    done = subprocess.run(
        [str(running.BIN / "ambient"), "mcp", "--toolsets", names],
        env=at.environ,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "sessions, control, or both" in done.stderr
    assert done.stdout == ""


def test_the_flag_beats_the_setting(allowed: running.Place) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    done = subprocess.run(
        [str(running.BIN / "ambient"), "mcp", "--toolsets", "sessions"],
        env=allowed.environ,
        input=request,
        capture_output=True,
        check=True,
    )
    assert b"record_start" not in done.stdout
    assert b"transcript" in done.stdout


def test_settings_that_cannot_be_read_leave_an_assistant_the_tools_that_read(
    at: running.Place,
) -> None:
    (at.folder / "config.toml").write_text('[mcp]\ntoolsets = "all"\n', encoding="utf-8")
    with running.client(at) as client:
        assert listed(client) == ["sessions", "transcript", "status"]
