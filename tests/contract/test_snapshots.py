"""Each tool's descriptor is a committed file: a change of what clients see shows in review."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ambientd import settings
from ambientd.tools import control, sessions, toolsets
from ambientd.tools.registry import Tool

FOLDER = Path(__file__).parent / "snapshots"
TOOLS = {tool.name: tool for toolset in toolsets.ALL for tool in toolset.tools}
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
    # Some clients cut descriptions at 2 KB, and allow 60 characters for server and tool name.
    assert len(descriptor["description"]) < 2000
    assert len("ambient_" + name) <= 60
    for schema in descriptor["inputSchema"]["properties"].values():
        assert schema["description"]


def test_names_are_used_once_and_the_three_that_read_are_alone_without_being_asked_for() -> None:
    assert len(TOOLS) == sum(len(toolset.tools) for toolset in toolsets.ALL)
    assert [toolset.tools for toolset in toolsets.DEFAULT] == [sessions.TOOLS]
    assert all(tool.read_only for tool in sessions.TOOLS)
    for tool in sessions.TOOLS:
        assert tool.descriptor["_meta"]["anthropic/maxResultSizeChars"] > 0


def test_the_setting_knows_the_toolsets() -> None:
    pattern = settings.BY_KEY["mcp.toolsets"].pattern
    names = [toolset.name for toolset in toolsets.ALL]
    assert re.fullmatch(pattern, ",".join(names))
    assert all(re.fullmatch(pattern, name) for name in names)
    assert not re.fullmatch(pattern, "tools")


@pytest.mark.parametrize("tool", control.TOOLS, ids=lambda tool: tool.name)
def test_a_tool_that_does_something_says_so_and_what_it_returns(tool: Tool) -> None:
    assert not tool.read_only
    assert tool.run is None
    schema = tool.descriptor["outputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == list(schema["properties"])
