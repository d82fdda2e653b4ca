"""Whatever comes in: nothing is raised, and every id gets exactly one answer."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ambientd import mcp, wire
from tests.contract.conftest import Reader

PING = b'{"jsonrpc":"2.0","id":"next","method":"ping"}'

OK, NO_SUCH, PARSE, INVALID, TOOL = 0, -32601, -32700, -32600, -1
"""What a line gets: a result, an error's code, or the failure of a tool."""

CORPUS: dict[str, tuple[bytes, int]] = {
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', PARSE),
    "overlong UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}', PARSE),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"), PARSE),
    "byte order mark": (b"\xef\xbb\xbf" + PING, PARSE),
    "NUL": (b"\0" + PING, PARSE),
    "NUL inside": (b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000b"}', NO_SUCH),
    "carriage return": (PING + b"\r", OK),
    "line separator": ('{"jsonrpc":"2.0","id":1,"method":"\u2028"}'.encode(), NO_SUCH),
    "lone surrogate": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"\\udfff"}', NO_SUCH),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}', PARSE),
    "infinity": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":-Infinity}', PARSE),
    "1e400": (b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', INVALID),
    "1e400 in since": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"transcript","arguments":{"session":"x","since":1e400}}}',
        -32602,
    ),
    "huge integer": (b'{"jsonrpc":"2.0","id":' + b"9" * 100_000 + b',"method":"ping"}', PARSE),
    "large id": (b'{"jsonrpc":"2.0","id":' + b"9" * 4000 + b',"method":"ping"}', OK),
    "duplicate keys": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x","method":"ping"}', OK),
    "deep array": (b"[" * 100_000 + b"]" * 100_000, PARSE),
    "deep array, not long": (b"[" * 9_000 + b"]" * 9_000, PARSE),
    "deep object": (b'{"a":' * 100_000, PARSE),
    "many arrays": (b"[" + b"[]," * 300_000 + b"[]]", PARSE),
    "too long": (
        b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * wire.MAX_LINE_BYTES + b'"}',
        PARSE,
    ),
    "long enough": (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1_000_000 + b'"}', NO_SUCH),
    "half a line": (b'{"jsonrpc":"2.0","id":1,"meth', PARSE),
    "batch": (b"[" + PING + b"," + PING + b"]", INVALID),
    "prototype": (
        b'{"__proto__":{},"constructor":1,"jsonrpc":"2.0","id":1,"method":"ping"}',
        OK,
    ),
    "many keys": (json.dumps({str(n): n for n in range(20_000)}).encode(), PARSE),
    "since beyond 64 bits": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"transcript","arguments":{"session":"x","since":' + b"9" * 30 + b"}}}",
        TOOL,
    ),
}


def serve(root: Path, data: bytes) -> list[dict[str, Any]]:
    out = io.BytesIO()
    mcp.serve(io.BytesIO(data), out, root)
    raw = out.getvalue()
    assert raw.isascii()
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


def assert_well_formed(answer: dict[str, Any]) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    assert answer["id"] is None or type(answer["id"]) in (str, int)
    if "error" in answer:
        assert answer["error"]["code"] in (-32700, -32600, -32601, -32602)
        assert len(answer["error"]["message"]) < 300


@pytest.mark.parametrize("name", CORPUS)
def test_a_hostile_line_gets_one_answer_and_the_next_line_its_own(
    reader: Reader, name: str
) -> None:
    line, expected = CORPUS[name]
    answers = reader.ask(line, PING)
    assert len(answers) == 2
    for answer in answers:
        assert_well_formed(answer)
    if "error" in answers[0]:
        assert answers[0]["error"]["code"] == expected
    else:
        assert expected == (TOOL if answers[0]["result"].get("isError") else OK)
    assert answers[1] == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_the_error_for_an_unknown_method_does_not_echo_a_megabyte(tmp_path: Path) -> None:
    (answer, _) = serve(tmp_path, CORPUS["long enough"][0] + b"\n" + PING)
    assert len(answer["error"]["message"]) < 200


def test_an_endless_line_is_not_kept(tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        """Sixty-four megabytes without a newline, then a ping."""

        left = 1024

        def readable(self) -> bool:
            return True

        def read1(self, size: int = -1) -> bytes:
            self.left -= 1
            if self.left > 0:
                return b"x" * 65536
            return b"\n" + PING + b"\n" if self.left == 0 else b""

    out = io.BytesIO()
    tracemalloc.start()
    try:
        mcp.serve(Endless(), out, tmp_path)  # type: ignore[arg-type]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * wire.MAX_LINE_BYTES
    bad, good = (json.loads(line) for line in out.getvalue().splitlines())
    assert bad["error"]["code"] == -32700
    assert good["id"] == "next"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["jsonrpc", "id", "method", "params", "name", "arguments", "session", "since", "verbatim"]
)
VALUES = JSON | st.sampled_from(
    ["2.0", "tools/call", "ping", "initialize", "transcript", "status", "sessions", "..", "x"]
)
MESSAGES = st.dictionaries(WORDS | st.text(max_size=3), VALUES, max_size=7)
CALLS = st.builds(
    lambda params, id_: {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params},
    st.dictionaries(WORDS, VALUES | st.dictionaries(WORDS, VALUES, max_size=4), max_size=4),
    st.integers() | st.text(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_raise(tmp_path: Path, line: bytes) -> None:
    for piece in line.split(b"\n"):
        answer = mcp.handle(piece, tmp_path)
        if answer is not None:
            assert_well_formed(json.loads(wire.encode(answer)))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(MESSAGES | CALLS)
def test_every_request_with_an_id_gets_one_answer_with_that_id(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    answers = serve(tmp_path, json.dumps(message).encode() + b"\n" + PING + b"\n")
    assert answers[-1]["id"] == "next"
    for answer in answers:
        assert_well_formed(answer)
    is_request = isinstance(message.get("method"), str) and message.get("jsonrpc") == "2.0"
    if is_request and "id" in message:
        id_ = message["id"]
        valid = isinstance(id_, str | int) and not isinstance(id_, bool)
        assert [answer["id"] for answer in answers[:-1]] == [id_ if valid else None]
    elif is_request:
        assert len(answers) == 1
