import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ambientd import wire


def fault_of(line: bytes) -> wire.Fault:
    with pytest.raises(wire.Fault) as caught:
        wire.decode(line)
    return caught.value


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
        b"[" * 100_000,
        b'"' + b"x" * wire.MAX_LINE_BYTES + b'"',
    ],
)
def test_what_cannot_be_parsed_is_a_parse_error_without_an_id(line: bytes) -> None:
    fault = fault_of(line)
    assert (fault.code, fault.id) == (wire.PARSE_ERROR, None)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (b"[]", None),
        (b'"text"', None),
        (b"7", None),
        (b"null", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
        (b'{"id":1,"method":"ping"}', 1),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', "a"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', 1),
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"jsonrpc":"2.0","method":7}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
    ],
)
def test_json_that_is_no_request_is_an_invalid_request(line: bytes, id_: object) -> None:
    fault = fault_of(line)
    assert (fault.code, fault.id) == (wire.INVALID_REQUEST, id_)


@pytest.mark.parametrize("line", [b"", b"  \r", b'{"jsonrpc":"2.0","id":4,"result":{}}'])
def test_blank_lines_and_stray_responses_ask_for_no_answer(line: bytes) -> None:
    assert wire.decode(line) is None


def test_a_request_without_an_id_is_a_notification_even_with_null_params() -> None:
    request = wire.decode(b'{"jsonrpc":"2.0","method":"x","params":null}\r')
    assert request is not None
    assert request.is_notification
    assert request.params is None


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5), st.text())
def test_encoded_messages_are_one_ascii_line_and_lose_nothing(value: object, id_: str) -> None:
    line = wire.encode(wire.result(id_, value))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"] == value
    assert wire.response_id(line) == id_


@pytest.mark.parametrize("id_", [0, -5, "a", 'quote"and}', "x" * 20_000])
def test_the_id_of_an_answer_is_found_in_front_of_it(id_: str | int) -> None:
    assert wire.response_id(wire.encode(wire.result(id_, "y" * 100_000))) == id_
    assert wire.response_id(wire.encode(wire.error(wire.Fault(1, "m", id_)))) == id_


@given(st.lists(st.binary(max_size=40)), st.integers(1, 9))
def test_lines_do_not_depend_on_how_the_bytes_arrive(pieces: list[bytes], step: int) -> None:
    data = b"\n".join(pieces)
    splitter = wire.LineSplitter(limit_bytes=1000)
    lines = []
    for start in range(0, len(data), step):
        lines += splitter.feed(data[start : start + step])
    rest = splitter.finish()
    expected = data.split(b"\n")
    assert lines == expected[:-1]
    assert (rest or b"") == expected[-1]


def test_an_endless_line_is_kept_to_the_limit_and_the_next_line_is_whole() -> None:
    splitter = wire.LineSplitter(limit_bytes=10)
    for _ in range(1000):
        assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\nnext\n") == [b"x" * 11, b"next"]


def test_a_named_socket_is_the_only_candidate() -> None:
    assert wire.socket_candidates({"AMBIENT_SOCKET": "/a/b.sock"}) == ["/a/b.sock"]


def test_the_socket_is_found_without_any_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.delenv("AMBIENT_STATE", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    candidates = wire.socket_candidates({})
    assert candidates[-1] == "/home/ann/.local/state/ambient/ambientd.sock"
    assert not any("nowhere" in path for path in candidates)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=30,
)


@given(JSON, st.integers(1, 5))
def test_text_made_in_pieces_is_the_text_made_at_once(value: object, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wire, "PIECE_CHARS", piece)
        patched.setattr(wire, "PIECE_ITEMS", piece)
        assert wire.dumps(value) == json.dumps(value, separators=(",", ":"))
