"""What one client waits while another floods the daemon.

A process of its own floods for some seconds; meanwhile `status` is asked for a hundred times a
second over another connection. The peak memory is that of this flood and of all before it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ambientd import wire
from tests import running
from tests.bench.live import resident_mb
from tests.bench.percentiles import percentile

SECONDS = 5.0
EVERY_S = 0.01
LINES = 20_000

FLOOD = """
import os, select, socket, sys, time
path, seconds, reads, count = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "1", int(sys.argv[4])
line = eval(sys.argv[5])
links = [socket.socket(socket.AF_UNIX) for _ in range(count)]
for link in links:
    link.connect(path)
    link.setblocking(False)
block = memoryview(line * max(1, 65536 // len(line)))
sent, left = 0, {link: block for link in links}
end = time.monotonic() + seconds
while time.monotonic() < end:
    readable, writable, _ = select.select(links if reads else [], links, [], 0.1)
    for link in readable:
        link.recv(1 << 20)
    for link in writable:
        try:
            left[link] = left[link][link.send(left[link][:65536]):] or block
        except BlockingIOError:
            pass
os._exit(0)
"""

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def call(tool: str, **arguments: Any) -> bytes:
    """Return the line that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return wire.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


# What is sent, as Python would write it; whether the answers are read; over how many connections.
FLOODS: dict[str, tuple[str, bool, int]] = {
    "nothing": ("b''", True, 0),
    "lines that are not JSON": (r"b'\xff\x00{nonsense\n'", True, 2),
    "lines of 1 MiB and a byte": (r"b'x' * ((1 << 20) + 1) + b'\n'", True, 2),
    "nesting of 100,000": (r"b'[' * 100_000 + b'\n'", True, 2),
    "requests, answers never read": (repr(wire.encode(PING)), False, 4),
    "a line without end": (r"b'x' * 65536", True, 4),
    "polls over 200 connections": (repr(call("status")), True, 200),
    "whole transcripts of 20,000 lines": (repr(call("transcript", session="long")), True, 4),
}


def run() -> list[dict[str, Any]]:
    """Return a row for each kind of flood."""
    rows = []
    with running.place() as at:
        _fill(at.root / "long")
        with running.daemon(at) as daemon:
            for name, (line, reads, count) in FLOODS.items():
                times_ms = _measure(at, [str(SECONDS), str(int(reads)), str(count), line], count)
                rows.append(
                    {
                        "flood": name,
                        "polls": len(times_ms),
                        "p50_ms": round(percentile(times_ms, 0.5), 2),
                        "p99_ms": round(percentile(times_ms, 0.99), 2),
                        "max_ms": round(max(times_ms), 2),
                        "peak_mb": round(resident_mb(daemon.process.pid, "VmHWM"), 1),
                    }
                )
    return rows


def _fill(session: Path) -> None:
    session.mkdir(mode=0o700, parents=True)
    session.parent.chmod(0o700)
    (session / "session.json").write_text("{}", encoding="utf-8")
    line = {"track": "room", "start_ms": 0, "end_ms": 900, "text": "some words that were said"}
    lines = "".join(json.dumps({**line, "start_ms": number}) + "\n" for number in range(LINES))
    (session / "raw.jsonl").write_text(lines, encoding="utf-8")


def _measure(at: running.Place, arguments: list[str], count: int) -> list[float]:
    command = [sys.executable, "-c", FLOOD, str(at.socket), *arguments]
    flood = subprocess.Popen(command) if count else None
    times_ms = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(str(at.socket))
        with link.makefile("rb") as answers:
            end_s = time.monotonic() + SECONDS
            while time.monotonic() < end_s:
                start_s = time.perf_counter()
                link.sendall(call("status"))
                answers.readline()
                times_ms.append((time.perf_counter() - start_s) * 1000)
                time.sleep(EVERY_S)
    if flood is not None:
        flood.wait(30)
    return times_ms
