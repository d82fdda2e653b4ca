"""Answers MCP messages: a table of methods, a table of tools, no state and no transport."""

from __future__ import annotations

import logging
import os
from typing import Any, BinaryIO

from ambientd import wire
from ambientd.errors import StoreError
from ambientd.mcp import lifecycle
from ambientd.tools import toolsets
from ambientd.tools.registry import Tool, Toolset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

READ_BYTES = 64 << 10

MAX_TEXT_CHARS = 6 << 20
"""Official clients drop a connection at a line of 10 MiB, and a text grows when it is put into one.
A day of talk is far below this."""

_EMPTY_LISTS = {
    # Not offered, and yet answered: some clients ask for them whatever the capabilities say, and
    # take an error for a broken server.
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


NO_DAEMON = "ambientd is not running; start it with: ambientd"


def handle(
    line: bytes, root: Path, offered: Sequence[Toolset] = toolsets.DEFAULT
) -> dict[str, Any] | None:
    """Answer one line.

    Args:
        line: the bytes before the newline.
        root: the sessions folder.
        offered: the toolsets that exist.

    Returns:
        The response object, or None when nothing is to be answered. Never raises on input.
    """
    try:
        request = wire.decode(line)
    except wire.Fault as fault:
        return wire.error(fault)
    return None if request is None else answer(request, root, offered)


def serve(reader: BinaryIO, writer: BinaryIO, root: Path) -> None:
    """Answer every line of a stream until its end, in order.

    Args:
        reader: where requests come from; its last line needs no newline.
        writer: where answers go, flushed one by one. A broken pipe ends the service quietly.
        root: the sessions folder.
    """
    splitter = wire.LineSplitter()
    read = getattr(reader, "read1", reader.read)
    try:
        while data := read(READ_BYTES):
            for line in splitter.feed(data):
                _reply(writer, line, root)
        last = splitter.finish()
        if last is not None:
            _reply(writer, last, root)
    except BrokenPipeError:
        return


def _reply(writer: BinaryIO, line: bytes, root: Path) -> None:
    response = handle(line, root)
    if response is not None:
        writer.write(wire.encode(response))
        writer.flush()


def answer(
    request: wire.Request, root: Path, offered: Sequence[Toolset] = toolsets.DEFAULT
) -> dict[str, Any] | None:
    """Answer a decoded request; None for a notification.

    Args:
        request: what ``wire.decode`` returned.
        root: the sessions folder.
        offered: the toolsets that exist.
    """
    if request.is_notification:
        return None
    try:
        return wire.result(request.id, _dispatch(request, root, offered))
    except wire.Fault as fault:
        fault.id = request.id
        return wire.error(fault)
    except Exception:  # the boundary: a defect in one tool ends one request
        logging.getLogger("ambientd").exception("request.failed method=%s", request.method)
        return wire.error(wire.Fault(wire.INTERNAL_ERROR, "internal error", request.id))


def reads_disk(request: wire.Request) -> bool:
    """Tell whether answering may have to wait for the disk."""
    return request.method == "tools/call"


def is_read_only(name: str) -> bool:
    """Tell whether a tool may be called again when the first answer was lost.

    Of a tool that is not known here nothing is known: another daemon may have it.
    """
    return any(tool.read_only for tool in _tools(toolsets.ALL) if tool.name == name)


def call_for_daemon(
    request: wire.Request, offered: Sequence[Toolset]
) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a call that only a daemon can carry out; None for all else."""
    if request.method != "tools/call" or request.is_notification:
        return None
    try:
        tool, arguments = _called(request.params, offered)
    except wire.Fault:
        return None  # ``answer`` says what is wrong with it
    return (tool.name, arguments) if tool.run is None else None


def tool_failure(text: str) -> dict[str, Any]:
    """Return the result of a tool that ran and failed."""
    return _tool_result(text, is_error=True)


def tool_success(value: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a tool with an outputSchema: the object, and the same as text."""
    return {**_tool_result(wire.dumps(value), is_error=False), "structuredContent": value}


def _dispatch(request: wire.Request, root: Path, offered: Sequence[Toolset]) -> dict[str, Any]:
    method = request.method
    if method == "initialize":
        return lifecycle.initialize(request.params, offered)
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [tool.descriptor for tool in _tools(offered)]}
    if method in _EMPTY_LISTS:
        return {_EMPTY_LISTS[method]: []}
    if method == "tools/call":
        return _call(request.params, root, offered)
    raise wire.unknown_method(method)


def _tools(offered: Sequence[Toolset]) -> list[Tool]:
    return [tool for toolset in offered for tool in toolset.tools]


def _called(params: object, offered: Sequence[Toolset]) -> tuple[Tool, dict[str, Any]]:
    if not isinstance(params, dict):
        raise wire.Fault(wire.INVALID_PARAMS, "tools/call: `params` must be an object")
    name = params.get("name")
    if not isinstance(name, str):
        raise wire.Fault(wire.INVALID_PARAMS, "tools/call: `name` must be a string")
    tool = next((tool for tool in _tools(offered) if tool.name == name), None)
    if tool is None:
        raise wire.Fault(wire.INVALID_PARAMS, f"unknown tool {wire.short(name)}")
    arguments = params.get("arguments")
    if not isinstance(arguments, dict):
        raise wire.Fault(
            wire.INVALID_PARAMS,
            f"{name}: `arguments` must be sent and be an object, if only {{}}",
        )
    return tool, arguments


def _call(params: object, root: Path, offered: Sequence[Toolset]) -> dict[str, Any]:
    tool, arguments = _called(params, offered)
    if tool.run is None:
        return tool_failure(NO_DAEMON)
    try:
        text = tool.run(os.fspath(root), arguments)
    except StoreError as error:
        return tool_failure(str(error))
    if len(text) > MAX_TEXT_CHARS:
        return tool_failure(
            f"{tool.name}: the answer would be {len(text)} characters long, more than clients "
            "take; ask for less of it (`since`)"
        )
    return _tool_result(text, is_error=False)


def _tool_result(text: str, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
