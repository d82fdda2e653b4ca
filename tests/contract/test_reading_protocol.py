"""The JSON-RPC loop, initialize, ping, tools/list and the error classes, three ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ambientd
from tests.contract.conftest import Reader

PING = {"jsonrpc": "2.0", "id": "still here", "method": "ping"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "0"},
}


def test_initialize_answers_with_our_name_version_and_tools(reader: Reader) -> None:
    result = reader.request("initialize", INITIALIZE)["result"]
    assert result["protocolVersion"] == "2025-11-25"
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "ambient"
    assert result["serverInfo"]["version"] == ambientd.__version__
    for word in ("`status`", "`live` is null", "nobody is being recorded", "`next`", "`since`"):
        assert word in result["instructions"]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("", "2025-11-25"),
        (7, "2025-11-25"),
    ],
)
def test_the_revision_is_the_clients_when_we_speak_it_and_our_latest_else(
    reader: Reader, asked: Any, answered: str
) -> None:
    result = reader.request("initialize", {**INITIALIZE, "protocolVersion": asked})["result"]
    assert result["protocolVersion"] == answered


def test_initialize_without_params_is_answered(reader: Reader) -> None:
    assert reader.request("initialize")["result"]["protocolVersion"] == "2025-11-25"


def test_notifications_get_no_line(reader: Reader) -> None:
    answers = reader.ask(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
        {"jsonrpc": "2.0", "method": "no/such/notification"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": 5}},
        PING,
    )
    assert [answer["id"] for answer in answers] == ["still here"]


@pytest.mark.parametrize("id_", [0, -1, 2**70, "a", "", "ü\u2028\ud800"])
def test_ping_round_trips_the_id_with_its_type(reader: Reader, id_: Any) -> None:
    (answer,) = reader.ask({"jsonrpc": "2.0", "id": id_, "method": "ping"})
    assert answer == {"jsonrpc": "2.0", "id": id_, "result": {}}
    assert type(answer["id"]) is type(id_)


def test_tools_list_names_exactly_the_three_tools_in_order(reader: Reader) -> None:
    tools = reader.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["sessions", "transcript", "status"]
    for tool in tools:
        assert tool["inputSchema"]["type"] == "object"
        assert tool["annotations"] == {
            "title": tool["title"],
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
    sessions, transcript, status = (tool["inputSchema"] for tool in tools)
    assert sessions == status == {"type": "object", "properties": {}}
    assert transcript["required"] == ["session"]
    kinds = {name: schema["type"] for name, schema in transcript["properties"].items()}
    assert kinds == {"session": "string", "since": "integer", "verbatim": "boolean"}


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
        ("prompts/list", {"prompts": []}),
    ],
)
def test_lists_that_are_not_offered_are_empty(
    reader: Reader, method: str, result: dict[str, Any]
) -> None:
    assert reader.request(method)["result"] == result


@pytest.mark.parametrize(
    "method", ["no/such/method", "", "server/discover", "logging/setLevel", "resources/read"]
)
def test_an_unknown_method_is_method_not_found(reader: Reader, method: str) -> None:
    assert reader.error_code(method, {}) == -32601


def test_control_methods_do_not_exist_for_mcp_clients(reader: Reader) -> None:
    for method in ("ambient/record", "ambient/stop", "ambient/status", "ambient/attach"):
        assert reader.error_code(method, {}) == -32601


@pytest.mark.parametrize(
    "params",
    [
        ...,
        None,
        [],
        "status",
        {},
        {"name": 5, "arguments": {}},
        {"name": None, "arguments": {}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "status"},
        {"name": "status", "arguments": None},
        {"name": "status", "arguments": []},
        {"name": "status", "arguments": "{}"},
        {"name": "transcript", "arguments": {}},
        {"name": "transcript", "arguments": {"session": 5}},
        {"name": "transcript", "arguments": {"session": "x", "since": "1"}},
        {"name": "transcript", "arguments": {"session": "x", "since": 1.0}},
        {"name": "transcript", "arguments": {"session": "x", "since": True}},
        {"name": "transcript", "arguments": {"session": "x", "since": None}},
        {"name": "transcript", "arguments": {"session": "x", "since": -1}},
        {"name": "transcript", "arguments": {"session": "x", "verbatim": 1}},
        {"name": "transcript", "arguments": {"session": "x", "verbatim": "true"}},
    ],
)
def test_wrong_params_and_arguments_are_invalid_params(reader: Reader, params: Any) -> None:
    assert reader.error_code("tools/call", params) == -32602


def test_the_error_for_missing_arguments_says_that_they_must_be_sent(reader: Reader) -> None:
    message = reader.request("tools/call", {"name": "status"})["error"]["message"]
    assert "must be sent" in message


def test_unknown_arguments_are_ignored(reader: Reader) -> None:
    assert reader.value("status", colour="red")["sessions"] == 0


@pytest.mark.parametrize(
    ("line", "code", "id_"),
    [
        (b"nonsense", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"\xef\xbb\xbf" + json.dumps(PING).encode(), -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (1 << 20) + b'"}', -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600, None),
    ],
)
def test_a_bad_line_gets_its_error_and_the_loop_survives(
    reader: Reader, line: bytes, code: int, id_: Any
) -> None:
    bad, good = reader.ask(line, PING)
    assert (bad["error"]["code"], bad["id"]) == (code, id_)
    assert bad["error"]["message"]
    assert good == {"jsonrpc": "2.0", "id": "still here", "result": {}}


def test_meta_and_cursors_are_taken_and_ignored(reader: Reader) -> None:
    meta = {"_meta": {"progressToken": 7}}
    assert reader.request("ping", meta)["result"] == {}
    listed = reader.request("tools/list", {"cursor": "anything", **meta})["result"]
    assert len(listed["tools"]) == 3
    assert "nextCursor" not in listed
    called = reader.request("tools/call", {"name": "status", "arguments": {}, **meta})
    assert called["result"]["isError"] is False


def test_two_requests_with_one_id_get_an_answer_each(reader: Reader) -> None:
    assert [answer["id"] for answer in reader.ask(PING, PING)] == ["still here"] * 2


def test_a_request_that_is_cancelled_after_it_was_answered_is_answered_once(
    reader: Reader,
) -> None:
    cancel = {"method": "notifications/cancelled", "params": {"requestId": "still here"}}
    answers = reader.ask(PING, {"jsonrpc": "2.0", **cancel}, {**PING, "id": 2})
    assert [answer["id"] for answer in answers] == ["still here", 2]


def test_blank_lines_stray_responses_and_carriage_returns_do_no_harm(reader: Reader) -> None:
    answers = reader.ask(
        b"",
        b"   ",
        b"\r",
        b'{"jsonrpc":"2.0","id":3,"result":{}}',
        json.dumps(PING).encode() + b"\r",
    )
    assert [answer["id"] for answer in answers] == ["still here"]


def test_answers_keep_the_order_of_the_requests(reader: Reader) -> None:
    messages = []
    for number in range(300):
        call = {"name": "status", "arguments": {}}
        method, params = ("tools/call", call) if number % 3 == 0 else ("ping", {})
        messages.append({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert [answer["id"] for answer in reader.ask(*messages)] == list(range(300))


def test_the_last_line_needs_no_newline(reader: Reader) -> None:
    answers = reader.ask_lines([json.dumps(PING).encode(), b'{"jsonrpc":"2.0","id":2,"meth'])
    assert [answer["id"] for answer in answers] == ["still here", None]
