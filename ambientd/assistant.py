"""Carries out the toolset ``control`` for an assistant, as far as a person has allowed it.

Every call is a line in the daemon's log and, while a session is open, an event of the session.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ambientd import logs, mcp, wire
from ambientd.control import Control
from ambientd.daemon import Daemon
from ambientd.errors import AmbientError, RefusedError
from ambientd.rpc.service import Act
from ambientd.tools import control

Call = Callable[[Control, dict[str, Any]], Awaitable[dict[str, Any]]]

METHODS: dict[str, Call] = {
    "record_start": Control.record,
    "record_stop": Control.stop,
    "pause": Control.pause,
    "resume": Control.resume,
}


def actor(daemon: Daemon) -> Act:
    """Return what carries out the tools of one daemon."""

    async def act(tool: str, arguments: dict[str, Any], client: str) -> dict[str, Any]:
        outcome = "cancelled"
        try:
            _check_allowed(daemon)
            answer = await _carry_out(daemon, tool, arguments, client)
            outcome = "done"
        except wire.Fault as fault:
            outcome = "wrong_arguments"
            return mcp.tool_failure(f"{tool}: {fault.message}")
        except AmbientError as error:
            outcome = error.code
            return mcp.tool_failure(str(error))
        finally:
            level = logging.INFO if outcome == "done" else logging.WARNING
            logs.event("assistant.called", level=level, tool=tool, client=client, outcome=outcome)
        return mcp.tool_success(answer)

    return act


def _check_allowed(daemon: Daemon) -> None:
    if daemon.settings.text("mcp.allow_control") != "on":
        raise RefusedError(
            "assistants may not control what is recorded here",
            f'a person can allow it: set allow_control = "on" below [mcp] in {wire.config_file()} '
            "and restart ambientd",
            code="control_not_allowed",
        )


async def _carry_out(
    daemon: Daemon, tool: str, arguments: dict[str, Any], client: str
) -> dict[str, Any]:
    descriptor = next(one.descriptor for one in control.TOOLS if one.name == tool)
    unknown = set(arguments) - set(descriptor["inputSchema"]["properties"])
    if unknown:
        name = wire.short(min(unknown))
        raise wire.Fault(wire.INVALID_PARAMS, f"there is no argument `{name}`")
    open_before = daemon.listening
    if open_before is not None:
        open_before.note_call(tool, client)
    answer = await METHODS[tool](Control(daemon, client), arguments)
    if open_before is None and (begun := daemon.listening) is not None:
        begun.note_call(tool, client)
    names = {"id": "session", "devices": "devices", "problem": "problem"}
    return {names[key]: value for key, value in answer.items() if key in names}
