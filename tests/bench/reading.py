"""Cost of the three tools over the socket and the shim, beside the official SDK's server.

10,000 finished sessions and one of 20,000 lines. The SDK's server runs the same functions, so the
difference is the protocol's.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ambientd import wire
from tests import running
from tests.bench.live import resident_mb
from tests.bench.percentiles import percentile

SESSIONS = 10_000
LINES = 20_000
RUNS = 1000
SLOW_RUNS = 30
"""So few that the p99 of ``sessions`` is its slowest."""

START_S = 3.0
"""A daemon that has just started looks through all sessions for unfinished ones."""

SDK_SERVER = """
import sys, anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from ambientd.tools.sessions import TOOLS
root = sys.argv[1]
table = {tool.name: tool for tool in TOOLS}
async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool.model_validate(t.descriptor) for t in TOOLS])
async def call_tool(ctx, params):
    text = table[params.name].run(root, params.arguments or {})
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
async def main():
    server = Server("sdk", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
anyio.run(main)
"""

Ask = Callable[[bytes], bytes]


def run() -> list[dict[str, Any]]:
    """Return a row for each way and tool."""
    rows = []
    with running.place() as at:
        _fill(at.root)
        with running.daemon(at) as daemon:
            time.sleep(START_S)
            for way, opened in (
                ("socket", _socket(at)),
                ("ambient mcp", _process([str(running.BIN / "ambient"), "mcp"], at)),
                ("sdk server", _process([sys.executable, "-c", SDK_SERVER, str(at.root)], at)),
            ):
                with opened as ask:
                    rows += _measure(way, ask)
            before_mb = resident_mb(daemon.process.pid)
            with _socket(at) as ask:
                _measure("socket", ask)
            after_mb = resident_mb(daemon.process.pid)
    rows.append({"daemon_mb": round(before_mb, 1), "after_as_many_polls_mb": round(after_mb, 1)})
    return rows


def _fill(root: Path) -> None:
    root.mkdir(mode=0o700)
    for number in range(SESSIONS):
        folder = root / f"session-{number:05d}"
        folder.mkdir()
        meta = f'{{"name":"s","started_at":"2026-01-01T{number // 600:02d}:{number % 60:02d}:00Z"}}'
        (folder / "session.json").write_text(meta, encoding="utf-8")
        (folder / "transcript.md").touch()
    line = {"track": "room", "start_ms": 0, "end_ms": 900, "text": "some words that were said"}
    lines = "".join(json.dumps({**line, "start_ms": number}) + "\n" for number in range(LINES))
    (root / "session-00000" / "raw.jsonl").write_text(lines, encoding="utf-8")
    time.sleep(0.2)  # what changed a moment ago is not relied on


def _measure(way: str, ask: Ask) -> list[dict[str, Any]]:
    rows = []
    for name, tool, arguments, runs in (
        ("poll of 20,000 lines", "transcript", {"session": "session-00000", "since": LINES}, RUNS),
        ("status of 10,000", "status", {}, RUNS),
        ("sessions of 10,000", "sessions", {}, SLOW_RUNS),
    ):
        params = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        line = wire.encode(request)
        for _ in range(3):
            ask(line)
        times_ms = []
        for _ in range(runs):
            start_s = time.perf_counter()
            ask(line)
            times_ms.append((time.perf_counter() - start_s) * 1000)
        rows.append(
            {
                "way": way,
                "what": name,
                "p50_ms": round(percentile(times_ms, 0.5), 2),
                "p99_ms": round(percentile(times_ms, 0.99), 2),
            }
        )
    return rows


@contextmanager
def _socket(at: running.Place) -> Iterator[Ask]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(str(at.socket))
        with link.makefile("rb") as answers:

            def ask(line: bytes) -> bytes:
                link.sendall(line)
                return answers.readline()

            yield ask


@contextmanager
def _process(command: list[str], at: running.Place) -> Iterator[Ask]:
    process = subprocess.Popen(
        command,
        env={**at.environ, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def ask(line: bytes) -> bytes:
        requests.write(line)
        requests.flush()
        return answers.readline()

    started = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "0"},
    }
    ask(wire.encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": started}))
    requests.write(wire.encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()
