"""Official MCP clients, which nobody here wrote, read through the installed `ambient mcp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import running
from tests.interop import clients

DRIVE = Path(__file__).parent / "drive.py"
DRIVE_NODE = Path(__file__).parent / "drive.mjs"
SERVER = [str(running.BIN / "ambient"), "mcp"]

COMMANDS = {
    "python 2.x": [sys.executable, str(DRIVE)],
    "python 1.x": [str(clients.PYTHON_1 / "bin" / "python"), str(DRIVE)],
    "typescript 2.x": [clients.node(), str(DRIVE_NODE), str(clients.NODE), "client"],
    "typescript 1.x": [clients.node(), str(DRIVE_NODE), str(clients.NODE), "sdk"],
}


@pytest.fixture
def talk(at: running.Place) -> running.Place:
    folder = at.root / "talk"
    folder.mkdir(parents=True, mode=0o700)
    at.root.chmod(0o700)
    (folder / "session.json").write_text('{"name":"Gespräch"}', encoding="utf-8")
    lines = [
        {"track": "room", "start_ms": 0, "end_ms": 900, "text": "one"},
        {"track": "room", "start_ms": 1000, "end_ms": 1900, "text": "Grüße \u2028 😀 \r\n \0"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "raw.jsonl").write_text(text, encoding="utf-8")
    (folder / "transcript.md").write_text("", encoding="utf-8")
    return at


def drive(at: running.Place, name: str) -> dict[str, Any]:
    if name in clients.missing():
        if os.environ.get("CI"):
            pytest.fail(f"the {name} client was not installed")
        pytest.skip(f"needs the {name} client: python -m tests.interop.clients")
    done = subprocess.run(
        [*COMMANDS[name], *SERVER],
        env=at.environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def assert_all_was_seen(seen: dict[str, Any]) -> None:
    assert seen["server"] == "ambient"
    assert seen["tools"] == ["sessions", "transcript", "status"]
    assert seen["status"] == {"live": None, "awaiting_transcript": 0, "sessions": 1}
    assert [row["name"] for row in seen["sessions"]] == ["Gespräch"]
    (line,) = seen["transcript"]["lines"]
    assert line["text"] == "Grüße \u2028 😀 \r\n \0"
    assert seen["failed"] is True
    assert seen["refused"] == -32602
    assert seen.get("problems", []) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_official_client_reads_from_the_daemon(talk: running.Place, name: str) -> None:
    with running.daemon(talk):
        assert_all_was_seen(drive(talk, name))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_official_client_reads_while_no_daemon_runs(talk: running.Place, name: str) -> None:
    assert_all_was_seen(drive(talk, name))
