"""Each tool's descriptor is a committed file: a change of what clients see shows in review."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ambientd.tools import sessions

FOLDER = Path(__file__).parent / "snapshots"
TOOLS = {tool.name: tool for tool in sessions.TOOLS}
HINTS = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}


@pytest.mark.parametrize("name", TOOLS)
def test_a_descriptor_is_the_committed_one(name: str) -> None:
    text = json.dumps(TOOLS[name].descriptor, indent=1) + "\n"
    path = FOLDER / f"{name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "UPDATE_SNAPSHOTS=1 writes it anew"


def test_no_snapshot_is_left_of_a_tool_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_states_its_hints_and_is_short_enough_for_every_client(name: str) -> None:
    descriptor = TOOLS[name].descriptor
    assert set(descriptor["annotations"]) == HINTS
    assert descriptor["_meta"]["anthropic/maxResultSizeChars"] > 0
    # Some clients cut descriptions at 2 KB, and allow 60 characters for server and tool name.
    assert len(descriptor["description"]) < 2000
    assert len("ambient_" + name) <= 60
    for schema in descriptor["inputSchema"]["properties"].values():
        assert schema["description"]
