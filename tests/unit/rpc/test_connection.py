"""One connection beside others: whose turn it is, and in what order answers come."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from ambientd import wire
from ambientd.rpc import connection
from ambientd.rpc.connection import Connection
from ambientd.rpc.service import ControlMethod, Service

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def pair() -> tuple[anyio.abc.SocketStream, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    return await anyio.abc.UNIXSocketStream.from_socket(ours), theirs


async def serve(stream: anyio.abc.SocketStream, service: Service) -> None:
    await Connection(stream, service).serve()
    await stream.aclose()


def ids(theirs: socket.socket) -> list[Any]:
    with theirs.makefile("rb") as answers:
        return [json.loads(line)["id"] for line in answers]


@pytest.mark.parametrize("line", [b"\n", b"1\n", b'{"jsonrpc":"2.0","method":"x"}\n'])
async def test_who_sends_without_pause_leaves_the_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    # Every line a turn of its own: whether it is given up at all must not depend on the machine.
    monkeypatch.setattr(connection, "TURN_S", 0.0)
    taken: list[bytes] = []
    real = wire.decode

    def record(got: bytes) -> wire.Request | None:
        taken.append(got)
        return real(got)

    monkeypatch.setattr(wire, "decode", record)
    service = Service(tmp_path, {}, nobody)
    flooding, flood = await pair()
    asking, other = await pair()
    flood.sendall(line * 1000)
    other.sendall(wire.encode({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
    for theirs in (flood, other):
        theirs.shutdown(socket.SHUT_WR)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as serving:
            serving.start_soon(serve, flooding, service)
            serving.start_soon(serve, asking, service)
            # Somebody must read, or the flood's own answers stop it.
            await anyio.to_thread.run_sync(ids, flood)
    place = next(index for index, got in enumerate(taken) if b"ping" in got)
    assert place < 10, "the other was looked after between two lines of the flood"
    assert ids(other) == [1]
    flood.close()
    other.close()


async def nobody(tool: str, arguments: dict[str, Any], client: str) -> dict[str, Any]:
    raise AssertionError(tool)


@pytest.mark.parametrize("attached", [False, True])
async def test_only_a_control_client_gets_answers_out_of_order(
    tmp_path: Path, attached: bool
) -> None:
    async def slow(params: dict[str, Any]) -> dict[str, Any]:
        await anyio.sleep(0.01)
        return {}

    service = Service(tmp_path, {"ambient/slow": ControlMethod(slow, waits=True)}, nobody)
    stream, theirs = await pair()
    requests = ["ambient/slow", "ping"]
    if attached:
        theirs.sendall(
            wire.encode({"jsonrpc": "2.0", "id": 9, "method": "ambient/attach", "params": {}})
        )
    for id_, method in enumerate(requests):
        theirs.sendall(wire.encode({"jsonrpc": "2.0", "id": id_, "method": method}))
    theirs.shutdown(socket.SHUT_WR)
    with anyio.fail_after(20):
        await serve(stream, service)
    assert ids(theirs) == ([9, 0, 1] if attached else [1, 0])
    theirs.close()


async def test_a_call_that_is_cancelled_is_given_up(tmp_path: Path) -> None:
    given_up = anyio.Event()

    async def act(tool: str, arguments: dict[str, Any], client: str) -> dict[str, Any]:
        try:
            await anyio.sleep_forever()
        except BaseException:
            given_up.set()
            raise
        return {}

    stream, theirs = await pair()

    def send(method: str, params: dict[str, Any], **fields: Any) -> None:
        theirs.sendall(
            wire.encode({"jsonrpc": "2.0", "method": method, "params": params, **fields})
        )

    send("ambient/attach", {"toolsets": ["sessions", "control", "unheard of", 3]}, id=9)
    send("tools/call", {"name": "pause", "arguments": {}}, id=1)
    for other in ("1", 2, True, None, [1]):
        send("notifications/cancelled", {"requestId": other})
    send("ping", {}, id=2)
    send("notifications/cancelled", {"requestId": 1})
    with anyio.fail_after(20):
        async with anyio.create_task_group() as serving:
            serving.start_soon(serve, stream, Service(tmp_path, {}, act))
            await given_up.wait()
            theirs.shutdown(socket.SHUT_WR)
    assert ids(theirs) == [9, 2, 1]
    theirs.close()
