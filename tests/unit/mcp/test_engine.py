"""The engine with other tools, with tools that fail, and with writers that go away."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ambientd import mcp, wire
from ambientd.errors import StoreError
from ambientd.mcp import engine
from ambientd.tools import toolsets
from ambientd.tools.registry import Tool, Toolset

ROOT = Path("/nowhere")
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


def _say(root: str, arguments: dict[str, Any]) -> str:
    return json.dumps([root, arguments])


def _defect(root: str, arguments: dict[str, Any]) -> str:
    return str(arguments["missing"])


def _failure(root: str, arguments: dict[str, Any]) -> str:
    raise StoreError("the disk is gone", "plug it in")


def _fault(root: str, arguments: dict[str, Any]) -> str:
    raise wire.Fault(wire.INVALID_PARAMS, "say: `words` must be a string")


def tool(name: str, run: Any, read_only: bool = True) -> Tool:
    return Tool({"name": name, "annotations": {"readOnlyHint": read_only}}, run)


TOOLS = (
    tool("say", _say),
    tool("defect", _defect),
    tool("failure", _failure),
    tool("fault", _fault),
    tool("act", None, read_only=False),
)
OFFERED = (Toolset("test", TOOLS, "Ask."),)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    answer = mcp.answer(wire.Request("tools/call", "id", params, False), ROOT, OFFERED)
    assert answer is not None
    assert answer["id"] == "id"
    return answer


def test_the_tools_are_those_of_the_table_and_no_others_exist() -> None:
    listed = mcp.answer(wire.Request("tools/list", 1, None, False), ROOT, OFFERED)
    assert listed is not None
    assert listed["result"] == {"tools": [one.descriptor for one in TOOLS]}
    assert call("say", x=1)["result"]["content"][0]["text"] == '["/nowhere", {"x": 1}]'
    assert call("status")["error"] == {"code": -32602, "message": "unknown tool status"}


def test_a_tool_that_failed_is_a_result_with_what_to_do_about_it() -> None:
    assert call("failure")["result"] == {
        "content": [{"type": "text", "text": "the disk is gone; plug it in"}],
        "isError": True,
    }


def test_an_answer_no_client_takes_is_a_failure_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "MAX_TEXT_CHARS", 30)
    assert call("say", x=1)["result"]["isError"] is False
    result = call("say", x="x" * 30)["result"]
    assert result["isError"] is True
    assert "ask for less of it (`since`)" in result["content"][0]["text"]


def test_wrong_arguments_are_an_error_with_the_requests_id() -> None:
    assert call("fault")["error"] == {"code": -32602, "message": "say: `words` must be a string"}


def test_a_defect_is_told_to_the_log_and_only_that_it_was_one_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, logger="ambientd"):
        answer = call("defect", words="spoken words")
    assert answer["error"] == {"code": -32603, "message": "internal error"}
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "spoken words" not in caplog.text


def test_a_notification_runs_no_tool() -> None:
    params = {"name": "defect", "arguments": {}}
    assert mcp.answer(wire.Request("tools/call", None, params, True), ROOT, OFFERED) is None


def test_only_a_call_reads_the_disk() -> None:
    methods = ["initialize", "ping", "tools/list", "prompts/list", "no/such", "tools/call"]
    reading = [one for one in methods if mcp.reads_disk(wire.Request(one, 1, None, False))]
    assert reading == ["tools/call"]


def test_a_call_may_be_repeated_unless_its_tool_changes_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toolsets, "ALL", OFFERED)
    assert [mcp.is_read_only(name) for name in ("say", "act", "none")] == [True, False, False]


def test_what_only_a_daemon_can_do_is_told_apart_and_fails_without_one() -> None:
    def asked(params: Any, is_notification: bool = False) -> wire.Request:
        return wire.Request("tools/call", 1, params, is_notification)

    act = {"name": "act", "arguments": {"x": 1}}
    assert mcp.call_for_daemon(asked(act), OFFERED) == ("act", {"x": 1})
    for other in (
        asked(act, is_notification=True),
        asked({"name": "say", "arguments": {}}),
        asked({"name": "act"}),
        asked({"name": "none", "arguments": {}}),
        asked([]),
        wire.Request("tools/list", 1, act, False),
    ):
        assert mcp.call_for_daemon(other, OFFERED) is None
    assert "start it" in call("act")["result"]["content"][0]["text"]
    assert call("act")["result"]["isError"] is True


def test_an_assistant_is_told_of_the_toolsets_that_it_has() -> None:
    answer = mcp.answer(wire.Request("initialize", 1, {}, False), ROOT, OFFERED)
    assert answer is not None
    assert answer["result"]["instructions"] == "Ask."


class Pipe(io.RawIOBase):
    """A writer that breaks after some answers, and remembers what reached its reader."""

    def __init__(self, room: int) -> None:
        self.arrived: list[bytes] = []
        self._kept = b""
        self._room = room

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._kept += bytes(data)
        return len(data)

    def flush(self) -> None:
        if not self._kept:
            return
        if len(self.arrived) == self._room:
            self._kept = b""
            raise BrokenPipeError(32, "Broken pipe")
        self.arrived.append(self._kept)
        self._kept = b""


class Client(io.RawIOBase):
    """A client that sends the next request only when the answer to the last has arrived."""

    def __init__(self, pipe: Pipe, count: int) -> None:
        self.sent = 0
        self._pipe = pipe
        self._count = count

    def read1(self, size: int = -1) -> bytes:
        assert len(self._pipe.arrived) == self.sent
        if self.sent == self._count:
            return b""
        self.sent += 1
        return PING % self.sent


def test_each_answer_is_sent_before_the_next_request_is_waited_for() -> None:
    pipe = Pipe(room=9)
    mcp.serve(Client(pipe, 3), pipe, ROOT)  # type: ignore[arg-type]
    assert [json.loads(line)["id"] for line in pipe.arrived] == [1, 2, 3]


def test_a_client_that_reads_no_more_ends_the_service_quietly() -> None:
    pipe, requests = Pipe(room=1), io.BytesIO(b"".join(PING % number for number in range(5)))
    mcp.serve(requests, pipe, ROOT)  # type: ignore[arg-type]
    assert len(pipe.arrived) == 1
