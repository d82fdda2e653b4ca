"""One connection: lines in, answers out in the order of the requests.

Only what is marked ``waits`` runs beside the others. Until a client attaches it may use control
methods and MCP methods alike; from then on it sees MCP methods only, with the toolsets that it
asked for.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from ambientd import __version__, logs, mcp, wire
from ambientd.errors import AmbientError, RefusedError
from ambientd.rpc.outbox import Outbox, StalledError
from ambientd.rpc.service import Client, Service
from ambientd.tools import toolsets

READ_BYTES = 16 << 10

CANCELLED = "notifications/cancelled"

TURN_S = 0.001
"""How long a connection whose client sends without pause may work before the others are looked
after."""


class Connection:
    """Serves one accepted stream until its end; closing it is the caller's."""

    def __init__(self, stream: anyio.abc.SocketStream, service: Service) -> None:
        self._stream = stream
        self._service = service
        self._outbox = Outbox(stream)
        self._client = Client()
        self._waiting: dict[str | int, anyio.CancelScope] = {}

    async def serve(self) -> None:
        """Answer everything the client sends; returns when it has gone or stalls."""
        try:
            async with anyio.create_task_group() as sending:
                sending.start_soon(self._outbox.run)
                async with anyio.create_task_group() as waiting:
                    await self._read(waiting)
                # The client has closed its side; what it asked for is still delivered.
                self._outbox.close()
        except* StalledError:
            logs.event("connection.stalled", level=logging.WARNING)
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client went away with answers under way
        finally:
            if self._client.is_attached:
                self._service.readers -= 1

    async def _read(self, waiting: anyio.abc.TaskGroup) -> None:
        splitter = wire.LineSplitter()
        while True:
            await self._outbox.wait_for_room()
            try:
                data = await self._stream.receive(READ_BYTES)
            except anyio.EndOfStream:
                last = splitter.finish()
                if last is not None:
                    await self._take(last, waiting)
                return
            turn_end_s = time.monotonic() + TURN_S
            for line in splitter.feed(data):
                await self._take(line, waiting)
                await self._outbox.wait_for_room()
                if time.monotonic() > turn_end_s:
                    await anyio.lowlevel.checkpoint()
                    turn_end_s = time.monotonic() + TURN_S

    async def _take(self, line: bytes, waiting: anyio.abc.TaskGroup) -> None:
        try:
            request = wire.decode(line)
        except wire.Fault as fault:
            self._outbox.put(wire.encode(wire.error(fault)))
            return
        if request is None:
            return
        if request.method == CANCELLED and request.is_notification and self._client.is_attached:
            self._cancel(request.params)
        elif self._service.waits(request, self._client):
            # Known from here on: its cancellation may be in what was received together with it.
            scope = anyio.CancelScope()
            if request.id is not None:
                self._waiting[request.id] = scope
            waiting.start_soon(self._answer_beside, request, scope)
        else:
            await self._answer(request)

    async def _answer_beside(self, request: wire.Request, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._answer(request)
            if scope.cancelled_caught:
                # Answered all the same: the relay counts answers (ADR 0008).
                given_up = wire.result(request.id, mcp.tool_failure("it was cancelled"))
                self._outbox.put(wire.encode(given_up))
        finally:
            # Unless a client that names two requests alike has put another one there.
            if request.id is not None and self._waiting.get(request.id) is scope:
                del self._waiting[request.id]

    def _cancel(self, params: object) -> None:
        """Give up a call of this connection that does something; others are done in no time."""
        named = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(named, str | int) and not isinstance(named, bool):
            for known, scope in self._waiting.items():
                if known == named and type(known) is type(named):
                    scope.cancel()

    async def _answer(self, request: wire.Request) -> None:
        if request.method.startswith("ambient/"):
            if request.is_notification:
                return  # nobody would learn what came of it
            answer = await self._control(request)
            if answer is not None:
                self._outbox.put(wire.encode(answer))
            return
        data = await self._service.mcp(request, self._client)
        if data is not None:
            self._outbox.put(data)

    async def _control(self, request: wire.Request) -> dict[str, Any] | None:
        try:
            if request.method == "ambient/attach" and not self._client.is_attached:
                value = self._attach(request)
            elif self._client.is_attached:
                # To an attached client these methods do not exist.
                raise wire.unknown_method(request.method)
            else:
                value = await self._service.control(request)
        except wire.Fault as fault:
            fault.id = request.id
            return wire.error(fault)
        except AmbientError as error:
            code = wire.REFUSED if isinstance(error, RefusedError) else wire.FAILED
            data = {"code": error.code, "hint": error.hint}
            return wire.error(wire.Fault(code, error.message, request.id, data))
        except Exception:  # noqa: BLE001 - the boundary: a defect in one method ends one request
            logs.event("request.failed", level=logging.ERROR, exc_info=True, method=request.method)
            return wire.error(wire.Fault(wire.INTERNAL_ERROR, "internal error", request.id))
        return wire.result(request.id, value)

    def _attach(self, request: wire.Request) -> dict[str, Any]:
        params = request.params
        if not isinstance(params, dict):
            raise wire.Fault(wire.INVALID_PARAMS, "ambient/attach: `params` must be an object")
        asked = params.get("toolsets")
        self._client.is_attached = True
        # A client that asks for none gets what every client got before there were others.
        if isinstance(asked, list) and asked:
            self._client.offered = toolsets.chosen(asked)
        self._service.readers += 1
        logs.event(
            "client.attached",
            level=logging.DEBUG,
            client=params.get("client"),
            version=params.get("version"),
        )
        return {
            "version": __version__,
            "root": str(self._service.root),
            "toolsets": [toolset.name for toolset in self._client.offered],
        }
