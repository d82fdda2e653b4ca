"""The ways to the engine: memory buffers, the daemon's socket, the real `ambient mcp` before a
daemon, and `ambient mcp` alone."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ambientd import mcp, wire
from tests import running

Ask = Callable[[list[bytes]], list[dict[str, Any]]]

CLIENT_VARIABLES = ("LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What MCP clients pass to a stdio server, besides HOME."""


class Reader:
    """A root to fill, and a way to ask about it.

    Attributes:
        root: the sessions folder.
        way: ``buffers``, ``socket``, ``shim`` or ``process``.
    """

    def __init__(self, root: Path, way: str, ask: Ask) -> None:
        self.root = root
        self.way = way
        self.ask_lines = ask

    def ask(self, *messages: Any) -> list[dict[str, Any]]:
        """Send messages (objects, or raw lines as bytes) and return every answer."""
        lines = [
            message if isinstance(message, bytes) else json.dumps(message).encode()
            for message in messages
        ]
        return self.ask_lines(lines)

    def request(self, method: str, params: Any = ...) -> dict[str, Any]:
        """Send one request and return the whole answer."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not ...:
            message["params"] = params
        (answer,) = self.ask(message)
        assert answer["id"] == 1
        assert answer["jsonrpc"] == "2.0"
        return answer

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the whole answer."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def value(self, name: str, **arguments: Any) -> Any:
        """Call a tool that succeeds and return the JSON value in its text."""
        result = self.call(name, **arguments)["result"]
        assert result["isError"] is False, result
        (block,) = result["content"]
        assert set(result) == {"content", "isError"}
        assert set(block) == {"type", "text"}
        assert block["type"] == "text"
        text = block["text"]
        value = json.loads(text)
        assert text == json.dumps(value, separators=(",", ":")), "the text must be compact"
        return value

    def failure(self, name: str, **arguments: Any) -> str:
        """Call a tool that runs and fails and return its text."""
        result = self.call(name, **arguments)["result"]
        assert result["isError"] is True, result
        text = result["content"][0]["text"]
        assert isinstance(text, str)
        return text

    def error_code(self, method: str, params: Any = ...) -> int:
        """Send a request that gets an error and return the error's code."""
        code = self.request(method, params)["error"]["code"]
        assert isinstance(code, int)
        return code


def _parse(output: bytes) -> list[dict[str, Any]]:
    assert output == b"" or output.endswith(b"\n")
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def _ask_buffers(root: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    out = io.BytesIO()
    mcp.serve(io.BytesIO(b"\n".join(lines) + b"\n"), out, root)
    return _parse(out.getvalue())


def _ask_socket(path: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(20)
        link.connect(str(path))
        link.sendall(wire.encode(_attach_request()) + b"\n".join(lines) + b"\n")
        link.shutdown(socket.SHUT_WR)
        with link.makefile("rb") as file:
            attached, *answers = _parse(file.read())
    assert "result" in attached
    return answers


def _attach_request() -> dict[str, Any]:
    params = {"client": "tests", "version": "0", "root": None, "toolsets": ["sessions"]}
    return {"jsonrpc": "2.0", "id": "attach", "method": "ambient/attach", "params": params}


def _ask_shim(at: running.Place, lines: list[bytes]) -> list[dict[str, Any]]:
    """Ask a real `ambient mcp` that relays to a daemon: the way of every client."""
    done = subprocess.run(
        [str(running.BIN / "ambient"), "mcp"],
        input=b"\n".join(lines) + b"\n",
        env=at.environ,
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert done.stderr == b"", "it was the daemon that answered"
    return _parse(done.stdout)


def _ask_process(home: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    environ = {name: os.environ[name] for name in CLIENT_VARIABLES if name in os.environ}
    done = subprocess.run(
        [str(running.BIN / "ambient"), "mcp"],
        input=b"\n".join(lines) + b"\n",
        env={**environ, "HOME": str(home)},
        cwd="/",
        capture_output=True,
        timeout=20,
        check=True,
    )
    return _parse(done.stdout)


@pytest.fixture(scope="session")
def daemon_place() -> Iterator[running.Place]:
    with running.place() as at, running.daemon(at):
        yield at


@pytest.fixture(params=["buffers", "socket", "shim", "process"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    way: str = request.param
    if way == "buffers":
        yield Reader(tmp_path, way, lambda lines: _ask_buffers(tmp_path, lines))
    elif way in ("socket", "shim"):
        at: running.Place = request.getfixturevalue("daemon_place")
        _empty(at.root)
        by_socket = way == "socket"
        yield Reader(
            at.root,
            way,
            lambda lines: _ask_socket(at.socket, lines) if by_socket else _ask_shim(at, lines),
        )
    else:
        # A short HOME: nobody serves it, so the process reads the files itself.
        with tempfile.TemporaryDirectory(prefix="home-") as home:
            root = Path(home) / ".local" / "share" / "ambient"
            root.mkdir(parents=True)
            yield Reader(root, way, lambda lines: _ask_process(Path(home), lines))


def _empty(root: Path) -> None:
    for path in root.iterdir():
        if path.is_symlink() or path.is_file():
            if path.name != ".ambientd.lock":
                path.unlink()
        else:
            shutil.rmtree(path)
