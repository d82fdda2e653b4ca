"""What a connection can ask for: the control methods, and MCP over the sessions folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ambientd import bounded, mcp, wire

DEADLINE_S = 5.0
"""How long a tool may take before its caller is told that it timed out."""

MAX_DISK_THREADS = 8
"""Threads that may hang on a slow disk at once; further requests time out waiting."""

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ControlMethod:
    """One control method.

    Attributes:
        run: takes the params object, returns the result object.
        waits: it may take long and must not hold up later requests of its connection.
    """

    run: Handler
    waits: bool = False


class Service:
    """Answers requests, whichever connection they came from.

    Attributes:
        root: the sessions folder.
        readers: how many MCP clients are attached.
    """

    toolsets = ("sessions",)

    def __init__(self, root: Path, methods: Mapping[str, ControlMethod]) -> None:
        self.root = root
        self.readers = 0
        self._methods = methods
        self._disk = bounded.Threads(MAX_DISK_THREADS)

    def waits(self, method: str) -> bool:
        """Tell whether a method runs beside the requests after it."""
        known = self._methods.get(method)
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

    async def mcp(self, request: wire.Request) -> bytes | None:
        """Answer an MCP request, encoded; None for a notification.

        What reads the disk runs in a thread and is left behind at its deadline: a stuck disk must
        not take the other connections with it.
        """
        if not mcp.reads_disk(request):
            return _encoded(request, self.root)
        with contextlib.suppress(TimeoutError):
            return await self._disk.run(DEADLINE_S, _encoded, request, self.root)
        if request.is_notification:
            return None
        late = mcp.tool_failure(f"timed out after {DEADLINE_S:g} s")
        return wire.encode(wire.result(request.id, late))


# Several long answers at once take no less time and leave the event loop less of the interpreter.
_encoding = threading.Lock()


def _encoded(request: wire.Request, root: Path) -> bytes | None:
    answer = mcp.answer(request, root)
    if answer is None:
        return None
    with _encoding:
        return wire.encode(answer)
