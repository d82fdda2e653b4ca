"""Runs the installed commands for real: a daemon on folders of its own, and an MCP client's pipes.

Used by the end-to-end tests and the demo; standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ambientd import wire
from tests import accounts

BIN = Path(sys.executable).parent
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 40.0

CAPTURE = "ambientd.audio.capture"
WORKER = "ambientd.speech.worker"
"""The modules that the daemon's children run."""

PROC = Path("/proc/self")
"""Exists where ``children`` can be had."""


def wait_until(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Return the first true value of a condition that another process brings about."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"it did not come about within {timeout_s:g} s")
        time.sleep(0.02)
    return value


def children(parent: int, module: str = "") -> list[int]:
    """Return the process ids of the children that run a module, or of all; needs /proc."""
    listed = [
        pid
        for path in Path(f"/proc/{parent}/task").glob("*/children")
        for pid in path.read_text(encoding="ascii").split()
    ]
    return [int(pid) for pid in listed if not module or module in command_line(pid)]


def command_line(pid: str | int) -> list[str]:
    """Return the words a process was started with; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


class Place:
    """A root, a socket and a state folder that nobody else uses.

    Attributes:
        root: the sessions folder.
        environ: what each command of this place must be started with.
    """

    def __init__(self, folder: Path, extra: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.root = folder / "sessions"
        self.socket = folder / "d.sock"
        self.environ = {
            **os.environ,
            "AMBIENT_HOME": str(self.root),
            "AMBIENT_SOCKET": str(self.socket),
            "AMBIENT_STATE": str(folder / "state"),
            "AMBIENT_CONFIG": str(folder / "config.toml"),
            # How full the disk of the tests is, is not what they test.
            "AMBIENT_CAPTURE_DISK_FLOOR_MB": "0",
            # What a daemon leaves is finished by the next one, unless a test wants it to go on.
            "AMBIENT_SESSION_CONTINUE_WITHIN_S": "0",
            **(extra or {}),
        }
        (folder / "config.toml").touch()

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `ambientctl`."""
        return subprocess.run(
            [str(BIN / "ambientctl"), *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            check=check,
            timeout=120,
        )

    def status(self) -> dict[str, Any]:
        """Return what `ambientctl status --json` prints."""
        answer: dict[str, Any] = json.loads(self.ctl("status", "--json").stdout)
        return answer

    def track(self, name: str = "room") -> dict[str, Any]:
        """Return what the status of the open session says of a track."""
        told: dict[str, Any] = self.status()["session"]["tracks"][name]
        return told

    def events(self, session: str, *kinds: str) -> list[dict[str, Any]]:
        """Return a session's events of some kinds, in order."""
        path = self.root / session / "events.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [one for line in text.splitlines() if (one := json.loads(line))["kind"] in kinds]

    def lines(self, session: str) -> list[dict[str, Any]]:
        """Return what raw.jsonl of a session holds."""
        path = self.root / session / "raw.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@contextlib.contextmanager
def place(extra: dict[str, str] | None = None) -> Iterator[Place]:
    """Make a place in a short temporary folder: a socket's path has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ambient-") as folder:
        yield Place(Path(folder), extra)


class Daemon:
    """A running `ambientd`."""

    def __init__(self, at: Place, *arguments: str, log: Path | None = None) -> None:
        self._at = at
        self.log = log or at.folder / "ambientd.log"
        with self.log.open("a", encoding="utf-8") as file:
            # Sessions of their own: Ctrl-C in the terminal is for whoever runs them.
            self.process = subprocess.Popen(
                [str(BIN / "ambientd"), *arguments],
                env=at.environ,
                stderr=file,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Return when its socket accepts connections."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                break
            if self._at.ctl("status", check=False).returncode == wire.EXIT_OK:
                return
            time.sleep(0.05)
        raise RuntimeError(f"ambientd did not start:\n{self.log.read_text(encoding='utf-8')}")

    def terminate(self) -> int:
        """Stop it as a service manager does and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill_child(self, module: str) -> None:
        """Kill the child that runs a module with SIGKILL."""
        (pid,) = children(self.process.pid, module)
        os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def daemon(at: Place, *arguments: str) -> Iterator[Daemon]:
    """Run a daemon until the end of the block."""
    running = Daemon(at, *arguments)
    try:
        running.wait_until_ready()
        yield running
    finally:
        try:
            running.terminate()
        except subprocess.TimeoutExpired:
            running.kill()
    accounts.check(at.root, running.log)


class Client:
    """A bare MCP client over the pipes of a real `ambient mcp`."""

    def __init__(self, environ: dict[str, str], stderr: TextIO | int | None = None) -> None:
        self.process = subprocess.Popen(
            [str(BIN / "ambient"), "mcp"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            start_new_session=True,
        )
        self._next_id = 0
        self._lock = threading.Lock()

    def initialize(self) -> dict[str, Any]:
        """Shake hands."""
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "0"},
        }
        answer = self.request("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("ambient mcp closed its stdout")
        message: dict[str, Any] = json.loads(line)
        return message

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        with self._lock:
            self._next_id += 1
            self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
            answer = self.receive()
        if answer["id"] != self._next_id or "result" not in answer:
            raise RuntimeError(f"{method}: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    def tool_text(self, name: str, **arguments: Any) -> str:
        """Call a tool and return the text of its answer."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        text: str = result["content"][0]["text"]
        if result["isError"]:
            raise RuntimeError(text)
        return text

    def tool(self, name: str, **arguments: Any) -> Any:
        """Call a tool and return the JSON value of its answer."""
        return json.loads(self.tool_text(name, **arguments))

    def close(self) -> int:
        """Close its stdin and return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def client(at: Place) -> Iterator[Client]:
    """Run `ambient mcp` and shake hands; it is closed at the end of the block."""
    running = Client(at.environ)
    try:
        running.initialize()
        yield running
    finally:
        if running.process.poll() is None:
            running.close()
