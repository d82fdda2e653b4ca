"""The engine on a table of test tools, as the conformance suite wants them; on stdin and stdout."""

from __future__ import annotations

import sys
from typing import Any

from ambientd import wire
from ambientd.errors import StoreError
from ambientd.mcp import engine
from ambientd.tools.registry import Tool, Toolset


def _descriptor(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"title": name, "readOnlyHint": True},
    }


def _simple_text(root: str, arguments: dict[str, Any]) -> str:
    return "This is a simple text response for testing."


def _error(root: str, arguments: dict[str, Any]) -> str:
    raise StoreError("This tool intentionally returns an error for testing")


TOOLS = (
    Tool(_descriptor("test_simple_text", "Returns a text."), _simple_text),
    Tool(_descriptor("test_error_handling", "Fails."), _error),
)


def main() -> None:
    from pathlib import Path

    for line in sys.stdin.buffer:
        try:
            request = wire.decode(line)
        except wire.Fault as fault:
            answer: dict[str, Any] | None = wire.error(fault)
        else:
            answer = (
                engine.answer(request, Path("/nonexistent"), (Toolset("table", TOOLS, ""),))
                if request
                else None
            )
        if answer is not None:
            sys.stdout.buffer.write(wire.encode(answer))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
