from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from ambientd import mcp, wire
from ambientd.rpc import service
from ambientd.rpc.service import Client, ControlMethod, Service
from ambientd.tools import toolsets

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def nobody(tool: str, arguments: dict[str, Any], client: str) -> dict[str, Any]:
    raise AssertionError(tool)


def request(method: str, params: Any) -> wire.Request:
    return wire.Request(method, 7, params, is_notification=False)


async def test_a_tool_that_hangs_on_the_disk_times_out_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    real = mcp.answer

    def hang(asked: wire.Request, root: Path, offered: Any) -> dict[str, Any] | None:
        if asked.method == "tools/call":
            release.wait(30)
        return real(asked, root, offered)

    monkeypatch.setattr(mcp, "answer", hang)
    monkeypatch.setattr(service, "DEADLINE_S", 0.05)
    serving = Service(tmp_path, {}, nobody)
    call = request("tools/call", {"name": "status", "arguments": {}})
    try:
        with anyio.fail_after(10):
            data = await serving.mcp(call, Client())
            assert data is not None
            result = json.loads(data)["result"]
            assert result["isError"] is True
            assert result["content"][0]["text"] == "timed out after 0.05 s"
            ping = await serving.mcp(request("ping", {}), Client())
            assert ping is not None
            assert json.loads(ping) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    finally:
        release.set()


async def test_only_methods_in_the_table_exist_and_params_must_be_an_object(
    tmp_path: Path,
) -> None:
    async def echo(params: dict[str, Any]) -> dict[str, Any]:
        return params

    serving = Service(tmp_path, {"ambient/echo": ControlMethod(echo, waits=True)}, nobody)
    assert await serving.control(request("ambient/echo", {"a": 1})) == {"a": 1}
    assert await serving.control(request("ambient/echo", None)) == {}
    assert serving.waits(request("ambient/echo", {}), Client())
    assert not serving.waits(request("ambient/echo", {}), Client(is_attached=True))
    assert not serving.waits(request("ping", {}), Client())
    for method, params, code in (
        ("ambient/none", {}, wire.METHOD_NOT_FOUND),
        ("ambient/echo", [], wire.INVALID_PARAMS),
    ):
        with pytest.raises(wire.Fault) as caught:
            await serving.control(request(method, params))
        assert caught.value.code == code


CONTROLLED = Client(is_attached=True, offered=toolsets.ALL)
PAUSE = {"name": "pause", "arguments": {}}


async def test_a_defect_in_a_tool_ends_one_request(tmp_path: Path) -> None:
    serving = Service(tmp_path, {}, nobody)
    asked = request("tools/call", PAUSE)
    assert serving.waits(asked, CONTROLLED)
    data = await serving.mcp(asked, CONTROLLED)
    assert data is not None
    assert json.loads(data)["error"]["code"] == wire.INTERNAL_ERROR


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"clientInfo": {"name": "Claude Code"}}, "Claude Code"),
        ({"clientInfo": {"name": "a\nb\u202e" + "c" * 200}}, "ab" + "c" * 78),
        ({"clientInfo": {"name": " "}}, "an assistant"),
        ({"clientInfo": 3}, "an assistant"),
        ([], "an assistant"),
    ],
)
async def test_a_client_is_called_what_it_calls_itself(
    tmp_path: Path, params: Any, name: str
) -> None:
    called = []

    async def act(tool: str, arguments: dict[str, Any], client: str) -> dict[str, Any]:
        called.append(client)
        return {}

    serving = Service(tmp_path, {}, act)
    client = Client(is_attached=True, offered=toolsets.ALL)
    await serving.mcp(request("initialize", params), client)
    await serving.mcp(request("tools/call", PAUSE), client)
    assert called == [name]
