"""What a connection can ask for: the control methods, and MCP over the sessions folder."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ambientd import bounded, logs, mcp, wire
from ambientd.tools import toolsets
from ambientd.tools.registry import Toolset

DEADLINE_S = 5.0
"""How long a tool may take before its caller is told that it timed out."""

MAX_DISK_THREADS = 8
"""Threads that may hang on a slow disk at once; further requests time out waiting."""

MAX_CLIENT_CHARS = 80

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

Act = Callable[[str, dict[str, Any], str], Awaitable[dict[str, Any]]]
"""Carries out a tool that only the daemon can: takes its name, the arguments and the client's name,
returns the MCP result."""


@dataclass(frozen=True, slots=True)
class ControlMethod:
    """One control method.

    Attributes:
        run: takes the params object, returns the result object.
        waits: it may take long and must not hold up later requests of its connection.
    """

    run: Handler
    waits: bool = False


@dataclass(slots=True)
class Client:
    """What is known of the one at the other end of a connection.

    Attributes:
        is_attached: it speaks for an MCP client, and the control methods do not exist for it.
        offered: the toolsets that exist for it.
        name: what the MCP client calls itself; to be told to people, not to be believed.
    """

    is_attached: bool = False
    offered: tuple[Toolset, ...] = toolsets.DEFAULT
    name: str = "an assistant"

    def take_name(self, params: object) -> None:
        """Note who it says it is in ``initialize``."""
        info = params.get("clientInfo") if isinstance(params, dict) else None
        name = info.get("name") if isinstance(info, dict) else None
        if isinstance(name, str) and name.strip():
            printable = "".join(char for char in name if char.isprintable())
            self.name = printable[:MAX_CLIENT_CHARS]


class Service:
    """Answers requests, whichever connection they came from.

    Attributes:
        root: the sessions folder.
        readers: how many MCP clients are attached.
    """

    def __init__(self, root: Path, methods: Mapping[str, ControlMethod], act: Act) -> None:
        self.root = root
        self.readers = 0
        self._methods = methods
        self._act = act
        self._disk = bounded.Threads(MAX_DISK_THREADS)

    def waits(self, request: wire.Request, client: Client) -> bool:
        """Tell whether a request runs beside those after it."""
        if request.is_notification:
            return False
        if mcp.call_for_daemon(request, client.offered) is not None:
            return True
        known = None if client.is_attached else self._methods.get(request.method)
        return known is not None and known.waits

    async def control(self, request: wire.Request) -> dict[str, Any]:
        """Run a control method.

        Raises:
            wire.Fault: there is no such method, or its params are wrong.
            AmbientError: it was refused or failed.
        """
        method = self._methods.get(request.method)
        if method is None:
            raise wire.unknown_method(request.method)
        params = {} if request.params is None else request.params
        if not isinstance(params, dict):
            raise wire.Fault(wire.INVALID_PARAMS, f"{request.method}: `params` must be an object")
        return await method.run(params)

    async def mcp(self, request: wire.Request, client: Client) -> bytes | None:
        """Answer an MCP request, encoded; None for a notification.

        What reads the disk runs in a thread and is left behind at its deadline: a stuck disk must
        not take the other connections with it.
        """
        if request.method == "initialize":
            client.take_name(request.params)
        if not mcp.reads_disk(request):
            return _encoded(request, self.root, client.offered)
        if (call := mcp.call_for_daemon(request, client.offered)) is not None:
            return wire.encode(await self._carry_out(request, *call, client.name))
        with contextlib.suppress(TimeoutError):
            return await self._disk.run(DEADLINE_S, _encoded, request, self.root, client.offered)
        if request.is_notification:
            return None
        late = mcp.tool_failure(f"timed out after {DEADLINE_S:g} s")
        return wire.encode(wire.result(request.id, late))

    async def _carry_out(
        self, request: wire.Request, tool: str, arguments: dict[str, Any], client: str
    ) -> dict[str, Any]:
        try:
            return wire.result(request.id, await self._act(tool, arguments, client))
        except Exception:  # noqa: BLE001 - the boundary: a defect in one tool ends one request
            logs.event("request.failed", level=logging.ERROR, exc_info=True, method=tool)
            return wire.error(wire.Fault(wire.INTERNAL_ERROR, "internal error", request.id))


# Several long answers at once take no less time and leave the event loop less of the interpreter.
_encoding = threading.Lock()


def _encoded(request: wire.Request, root: Path, offered: tuple[Toolset, ...]) -> bytes | None:
    answer = mcp.answer(request, root, offered)
    if answer is None:
        return None
    with _encoding:
        return wire.encode(answer)
