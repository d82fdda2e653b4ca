"""What both ends of the socket must agree on: codes, limits, framing, and where the socket is.

Standard library only, and little of it: every client loads this file before its first answer, so
no dataclasses, no pathlib, no typing at run time. It opens nothing and keeps no state.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# JSON-RPC 2.0 error codes (the specification's section 5.1) and ours from its server range.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TOO_MANY_CONNECTIONS = -32000
REFUSED = -32001
"""A control request that the daemon understood and declined; ``data.code`` says why."""
FAILED = -32002
"""A control request that was tried and did not work; ``data.code`` says why."""

# Exit codes of the three commands.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NO_DAEMON = 3
EXIT_REFUSED = 4

MAX_LINE_BYTES = 1 << 20
"""Longest accepted line, without its newline. Answers may be longer."""

LONG_LINE_BYTES = 64 << 10
MAX_MEMBERS = 10_000
"""A longer line with more commas and opening brackets than this is not parsed: a megabyte of empty
arrays keeps the interpreter for a tenth of a second, and others with it. No request of ours has a
hundred."""

# sun_path holds 108 bytes on Linux and 104 on macOS, the final NUL included (unix(7), unix(4)).
MAX_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


class Fault(Exception):
    """A message that gets a JSON-RPC error for an answer.

    Attributes:
        code: a JSON-RPC error code.
        message: one sentence; clients show an assistant this and nothing else.
        id: the id to answer with; None when the request's own could not be read.
        data: further members for control clients, or None.
    """

    def __init__(
        self,
        code: int,
        message: str,
        id: str | int | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.data = data


class Request:
    """A well-formed request or, when ``is_notification``, a notification.

    Attributes:
        method: the method's name.
        id: string or integer; meaningless for a notification.
        params: whatever JSON value came, None when there was none.
        is_notification: no ``id`` member was sent, so nothing may be answered.
    """

    __slots__ = ("id", "is_notification", "method", "params")

    def __init__(
        self, method: str, id: str | int | None, params: Any, is_notification: bool
    ) -> None:
        self.method = method
        self.id = id
        self.params = params
        self.is_notification = is_notification


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: json makes a new one at each call that is not plain, at a third of a short line's cost.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def decode(line: bytes) -> Request | None:
    """Read one line as a JSON-RPC 2.0 message.

    Args:
        line: the bytes before the newline; a carriage return before it does no harm.

    Returns:
        The request or notification; None when the line asks for no answer at all: it is blank, or
        it is a response (answering one with an error would be a protocol error of ours).

    Raises:
        Fault: the line must be answered with an error.
    """
    if len(line) > MAX_LINE_BYTES:
        raise Fault(PARSE_ERROR, f"line longer than {MAX_LINE_BYTES} bytes")
    if not line.strip():
        return None
    if len(line) > LONG_LINE_BYTES and sum(map(line.count, (b",", b"[", b"{"))) > MAX_MEMBERS:
        raise Fault(PARSE_ERROR, f"the line has more than {MAX_MEMBERS} members")
    try:
        # Decoded here because json.loads would guess UTF-16 and accept a byte order mark.
        message = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise Fault(PARSE_ERROR, "the line is not UTF-8") from None
    except RecursionError:
        raise Fault(PARSE_ERROR, "the line is nested too deep") from None
    except ValueError as error:
        # A JSONDecodeError's own text may quote nothing but positions; never echo the input.
        reason = getattr(error, "msg", "a number or constant that cannot be read")
        raise Fault(PARSE_ERROR, f"the line is not JSON: {reason}") from None
    return _classify(message)


def _classify(message: Any) -> Request | None:
    if not isinstance(message, dict):
        raise Fault(INVALID_REQUEST, "a message must be a JSON object (batches are not accepted)")
    given_id = message.get("id")
    echo = given_id if _is_id(given_id) else None
    if message.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, 'a message must say "jsonrpc":"2.0"', echo)
    if "method" not in message and ("result" in message or "error" in message):
        return None
    method = message.get("method")
    if not isinstance(method, str):
        raise Fault(INVALID_REQUEST, "`method` must be a string", echo)
    if "id" in message and not _is_id(given_id):
        raise Fault(INVALID_REQUEST, "`id` must be a string or an integer")
    return Request(method, echo, message.get("params"), "id" not in message)


MAX_ECHO_CHARS = 100


def short(text: str) -> str:
    """Return a client's own words for an error message: enough to know them by."""
    return text if len(text) <= MAX_ECHO_CHARS else text[:MAX_ECHO_CHARS] + "..."


def unknown_method(method: str) -> Fault:
    """Return the fault for a method that does not exist."""
    return Fault(METHOD_NOT_FOUND, f"unknown method {short(method)}")


def result(id: str | int | None, value: Any) -> dict[str, Any]:
    """Build a JSON-RPC response object."""
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(fault: Fault) -> dict[str, Any]:
    """Build the JSON-RPC error response object for a fault."""
    body: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        body["data"] = fault.data
    return {"jsonrpc": "2.0", "id": fault.id, "error": body}


PIECE_CHARS = 32 << 10
PIECE_ITEMS = 100


def dumps(value: Any) -> str:
    """Serialise a JSON value without blanks, in ASCII.

    ASCII is immune to readers that split at U+2028, to locale encodings and to lone surrogates
    (file names bring them). Long strings and lists are done in pieces: json holds the interpreter
    for the whole of a call, and the event loop would stand still meanwhile.
    """
    if isinstance(value, str):
        pieces = range(0, len(value), PIECE_CHARS)
        return '"' + "".join(_dumps(value[at : at + PIECE_CHARS])[1:-1] for at in pieces) + '"'
    if isinstance(value, dict) and len(value) <= PIECE_ITEMS:
        return (
            "{" + ",".join(f"{_dumps(key)}:{dumps(member)}" for key, member in value.items()) + "}"
        )
    if isinstance(value, list) and len(value) == 1:
        return f"[{dumps(value[0])}]"  # the text of a tool's result is in such a one
    if isinstance(value, list):
        pieces = range(0, len(value), PIECE_ITEMS)
        return "[" + ",".join(_dumps(value[at : at + PIECE_ITEMS])[1:-1] for at in pieces) + "]"
    return _dumps(value)


def _dumps(value: Any) -> str:
    return _ENCODER.encode(value)


def encode(message: Any) -> bytes:
    """Serialise one message as a line.

    Returns:
        The line with its newline; ASCII.
    """
    return dumps(message).encode("ascii") + b"\n"


_ID_PREFIX = b'{"jsonrpc":"2.0","id":'
_MAX_ID_BYTES = 8192


def response_id(line: bytes) -> str | int | None:
    """Return the id of a response that ``encode`` made, without parsing the rest of it.

    An answer may hold megabytes; ``result`` and ``error`` put the id in front for this.
    """
    if line.startswith(_ID_PREFIX):
        head = line[len(_ID_PREFIX) : len(_ID_PREFIX) + _MAX_ID_BYTES].decode("ascii")
        try:
            value, _end = json.JSONDecoder().raw_decode(head)
        except ValueError:
            value = json.loads(line)["id"]
        return value if _is_id(value) else None
    return None


class LineSplitter:
    r"""Cuts a byte stream into lines at ``\n`` with bounded memory.

    A line longer than MAX_LINE_BYTES comes out as its first MAX_LINE_BYTES + 1 bytes, which
    ``decode`` answers as too long, here or after being passed on; the rest is skipped.
    """

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes and return the lines completed by them, without newlines."""
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            self._extend(piece)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._extend(rest)
        return lines

    def finish(self) -> bytes | None:
        """Return the unterminated last line at the end of the stream, if there is one."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest or None

    def _extend(self, piece: bytes) -> None:
        room = self._limit_bytes + 1 - len(self._rest)
        if room > 0:
            self._rest += piece[:room]


def home_folder() -> str:
    """Return the user's home; MCP clients always pass HOME, a daemon's manager may not."""
    return os.path.expanduser("~")


def state_folder() -> str:
    """Return the folder for the socket of last resort and remembered model checks."""
    return os.environ.get("AMBIENT_STATE") or os.path.join(
        home_folder(), ".local", "state", "ambient"
    )


def config_file() -> str:
    """Return the path of the settings file, whether or not it exists."""
    return os.environ.get("AMBIENT_CONFIG") or os.path.join(
        home_folder(), ".config", "ambient", "config.toml"
    )


def default_root() -> str:
    """Return the sessions folder that is used when neither environment nor settings name one."""
    if sys.platform == "darwin":
        return os.path.join(home_folder(), "Library", "Application Support", "Ambient", "Sessions")
    return os.path.join(home_folder(), ".local", "share", "ambient")


def socket_candidates(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return where the daemon's socket may be, in the order to try.

    A socket named by AMBIENT_SOCKET is the only candidate: a client that was told which daemon to
    talk to must not end up with another. XDG_RUNTIME_DIR and TMPDIR are never read, because MCP
    clients do not pass them on.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("AMBIENT_SOCKET")
    if named:
        return [named]
    candidates = []
    runtime_folder = f"/run/user/{os.getuid()}"
    try:
        if os.lstat(runtime_folder).st_uid == os.getuid():
            candidates.append(os.path.join(runtime_folder, "ambient", "ambientd.sock"))
    except OSError:
        pass
    candidates.append(os.path.join(state_folder(), "ambientd.sock"))
    return candidates
