"""The toolset ``control``: an assistant starts and stops recordings, if a person has allowed it.

Off unless a client asks for it, and refused unless ``mcp.allow_control`` is set. Standing consent
is not among it: only a person gives that. These are the descriptors; ``ambientd.assistant`` carries
them out.
"""

from __future__ import annotations

from typing import Any

from ambientd.tools.registry import Tool, Toolset

INSTRUCTIONS = """\
With `record_start`, `record_stop`, `pause` and `resume` you control whether people are recorded.
Use them only when the user asks for it, and say so when you did. What a person paused you cannot
resume."""

_SESSION = {"type": "string", "description": "id for `transcript`"}


def _tool(
    name: str,
    title: str,
    description: str,
    arguments: dict[str, Any],
    results: dict[str, Any],
    *,
    is_destructive: bool = False,
) -> Tool:
    return Tool(
        {
            "name": name,
            "title": title,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": arguments,
                "additionalProperties": False,
            },
            "outputSchema": {
                "type": "object",
                "properties": results,
                "required": list(results),
            },
            "annotations": {
                "title": title,
                "readOnlyHint": False,
                "destructiveHint": is_destructive,
                "idempotentHint": False,
                "openWorldHint": False,
            },
        },
        None,
    )


TOOLS = (
    _tool(
        "record_start",
        "Start recording",
        "Starts to record and transcribe what is said near this computer. Returns its session, "
        "once audio arrives, and the device of each track (null while it is waited for). Refused "
        "while another session is open.",
        {
            "name": {"type": "string", "description": "what the session is called"},
            "seconds": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "how long it lasts; absent: until it is stopped",
            },
            "call": {
                "type": "boolean",
                "description": "also record what the speakers play; absent: as the user has it set",
            },
        },
        {
            "session": _SESSION,
            "devices": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        },
    ),
    _tool(
        "record_stop",
        "Stop recording",
        "Ends the session that is being recorded, whoever started it, and closes the microphone. "
        "Its last lines come a moment later: `transcript` says done then. `problem` is empty if "
        "all is well; session is null if only a start was given up.",
        {},
        {
            "session": {"type": ["string", "null"], "description": "id for `transcript`"},
            "problem": {"type": "string"},
        },
        is_destructive=True,
    ),
    _tool(
        "pause",
        "Pause recording",
        "Closes the microphone inside the session: nothing is heard until `resume`.",
        {},
        {"session": _SESSION},
    ),
    _tool(
        "resume",
        "Resume recording",
        "Opens the microphone again after `pause`. Refused when a person paused.",
        {},
        {"session": _SESSION},
    ),
)

TOOLSET = Toolset("control", TOOLS, INSTRUCTIONS)
