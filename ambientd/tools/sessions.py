"""The toolset ``sessions``: the three read-only tools that every client gets."""

from __future__ import annotations

from typing import Any

from ambientd import wire
from ambientd.store import reading, states
from ambientd.store.turns import is_integer
from ambientd.tools.registry import Tool, Toolset

INSTRUCTIONS = """\
Ambient turns speech near the user's computer into text while people talk. These
tools only read.
To answer "what did they just say?": call `status`; if `live` is null, nobody is being recorded now.
Else call `transcript` with that id. Keep the answer's `next`, and pass it as `since` the next time:
only new lines come back. Lines never change; a turn is readable about half a second after its end.
Stop polling when `state` is done. At pending the recording waits: text, or the rest of it, comes
only when the daemon works on it again. Older recordings are in `sessions`."""

MAX_RESULT_CHARS = 500_000
"""Assistants that cut long results are asked to take this much; `since` keeps polls far below."""


def _descriptor(
    name: str, title: str, description: str, properties: dict[str, Any], required: list[str]
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {
            "title": title,
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "_meta": {"anthropic/maxResultSizeChars": MAX_RESULT_CHARS},
    }


def _sessions(root: str, arguments: dict[str, Any]) -> str:
    return wire.dumps([row._asdict() for row in reading.summaries(root)])


def _status(root: str, arguments: dict[str, Any]) -> str:
    seen = reading.overview(root)
    return wire.dumps(
        {
            "live": None if seen.live is None else {"id": seen.live},
            "awaiting_transcript": seen.awaiting_transcript,
            "sessions": seen.sessions,
        }
    )


def _transcript(root: str, arguments: dict[str, Any]) -> str:
    session_id = arguments.get("session")
    if not isinstance(session_id, str):
        raise _wrong_type("session", "a string", session_id)
    since = arguments.get("since", 0)
    if not is_integer(since):
        raise _wrong_type("since", "an integer", since)
    if since < 0:
        raise wire.Fault(wire.INVALID_PARAMS, "transcript: `since` must not be negative")
    verbatim = arguments.get("verbatim", False)
    if not isinstance(verbatim, bool):
        raise _wrong_type("verbatim", "a boolean", verbatim)
    with reading.open_session(root, session_id) as session:
        # The state first: a line published after it is in the answer or in the next one, and
        # nobody is told `done` before the last line.
        state = states.state(session)
        total, lines = reading.transcript_appended(session, verbatim, since)
    return wire.dumps(
        {
            "session": session_id,
            "state": state,
            "next": total,
            "lines": [line._asdict() for line in lines],
        }
    )


def _wrong_type(name: str, wanted: str, value: object) -> wire.Fault:
    kinds = {
        type(None): "nothing",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    got = kinds.get(type(value), "something else")
    return wire.Fault(wire.INVALID_PARAMS, f"transcript: `{name}` must be {wanted}, got {got}")


TOOLS = (
    Tool(
        _descriptor(
            "sessions",
            "List sessions",
            "Lists all recorded sessions as a JSON array, newest first. Each row has id, dir, "
            "name, started_at, duration_s, transcribed, live (being recorded now), transcribing, "
            "and error if its files cannot be read. Pass an id to `transcript`.",
            {},
            [],
        ),
        _sessions,
    ),
    Tool(
        _descriptor(
            "transcript",
            "Read a transcript",
            "Returns what was said in a session, also while it is being recorded: session, state, "
            "next, and lines with track, start_ms, end_ms, speaker and text. To follow a live "
            "session, call again with `since` set to the previous answer's `next`: only new lines "
            "come back. `state` is live or transcribing while more may come, done when all is "
            "there, pending when the recording waits for its text and polling is of no use.",
            {
                "session": {
                    "type": "string",
                    "description": "id from `sessions` or `status`",
                },
                "since": {
                    "type": "integer",
                    "description": "how many lines were seen already: the last answer's `next`; "
                    "0 or absent reads from the start",
                },
                "verbatim": {
                    "type": "boolean",
                    "description": "true leaves out corrections and speaker names made afterwards",
                },
            },
            ["session"],
        ),
        _transcript,
    ),
    Tool(
        _descriptor(
            "status",
            "Who is listening",
            "Says whether somebody is being recorded now: `live` is {id} or null for nobody, "
            "awaiting_transcript counts recordings without text yet, sessions counts all.",
            {},
            [],
        ),
        _status,
    ),
)

TOOLSET = Toolset("sessions", TOOLS, INSTRUCTIONS)
