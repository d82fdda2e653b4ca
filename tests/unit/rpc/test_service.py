from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from ambientd import mcp, wire
from ambientd.rpc import service
from ambientd.rpc.service import ControlMethod, Service

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def request(method: str, params: Any) -> wire.Request:
    return wire.Request(method, 7, params, is_notification=False)


async def test_a_tool_that_hangs_on_the_disk_times_out_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    real = mcp.answer

    def hang(asked: wire.Request, root: Path) -> dict[str, Any] | None:
        if asked.method == "tools/call":
            release.wait(30)
        return real(asked, root)

    monkeypatch.setattr(mcp, "answer", hang)
    monkeypatch.setattr(service, "DEADLINE_S", 0.05)
    serving = Service(tmp_path, {})
    call = request("tools/call", {"name": "status", "arguments": {}})
    try:
        with anyio.fail_after(10):
            data = await serving.mcp(call)
            assert data is not None
            result = json.loads(data)["result"]
            assert result["isError"] is True
            assert result["content"][0]["text"] == "timed out after 0.05 s"
            ping = await serving.mcp(request("ping", {}))
            assert ping is not None
            assert json.loads(ping) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    finally:
        release.set()


async def test_only_methods_in_the_table_exist_and_params_must_be_an_object(
    tmp_path: Path,
) -> None:
    async def echo(params: dict[str, Any]) -> dict[str, Any]:
        return params

    serving = Service(tmp_path, {"ambient/echo": ControlMethod(echo, waits=True)})
    assert await serving.control(request("ambient/echo", {"a": 1})) == {"a": 1}
    assert await serving.control(request("ambient/echo", None)) == {}
    assert serving.waits("ambient/echo")
    assert not serving.waits("ping")
    for method, params, code in (
        ("ambient/none", {}, wire.METHOD_NOT_FOUND),
        ("ambient/echo", [], wire.INVALID_PARAMS),
    ):
        with pytest.raises(wire.Fault) as caught:
            await serving.control(request(method, params))
        assert caught.value.code == code
