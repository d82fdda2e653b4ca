"""How long `ambient mcp` takes from exec to the answer to initialize, daemon up or down.

Beside it, in the same run: a bare interpreter that prints one line.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ambientd import wire
from tests import running

RUNS = 30


def run() -> list[dict[str, Any]]:
    """Return the times in milliseconds."""
    rows = []
    with running.place() as at:
        with running.daemon(at):
            rows.append(_row("daemon up", lambda: _start(at)))
        rows.append(_row("daemon down", lambda: _start(at)))
    rows.append(_row("bare interpreter", _bare))
    return rows


def _row(name: str, measure: Callable[[], float]) -> dict[str, Any]:
    measure()
    times_ms = sorted(measure() * 1000 for _ in range(RUNS))
    return {
        "case": name,
        "median_ms": round(statistics.median(times_ms), 1),
        "p95_ms": round(times_ms[int(RUNS * 0.95)], 1),
        "max_ms": round(times_ms[-1], 1),
    }


def _start(at: running.Place) -> float:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    start_s = time.perf_counter()
    process = subprocess.Popen(
        [str(running.BIN / "ambient"), "mcp"],
        env=at.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(wire.encode(request))
    process.stdin.flush()
    answer = process.stdout.readline()
    took_s = time.perf_counter() - start_s
    process.communicate()
    if "result" not in json.loads(answer):
        raise RuntimeError(answer)
    return took_s


def _bare() -> float:
    start_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "print(1)"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start_s
