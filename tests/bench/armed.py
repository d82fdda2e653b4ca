"""What it costs to be armed while nobody speaks: processor time and memory, by process.

Beside it, in the same run: the daemon deaf. Needs PulseAudio; what it hears is silence.
"""

from __future__ import annotations

import time
from typing import Any

from tests import pulse, running
from tests.bench.live import resident_mb
from tests.bench.whisper_live import cpu_s

SECONDS = 60.0
MODULES = {"capture": running.CAPTURE, "ear": "ambientd.speech.ear"}


def run() -> list[dict[str, Any]]:
    """Return a row deaf, and one armed and silent."""
    missing = pulse.missing_packages()
    if missing:
        raise SystemExit(f"this bench needs {', '.join(missing)}")
    with pulse.server() as server, running.place(server.environ) as at:
        server.control("set-default-source", "mic")
        with running.daemon(at) as daemon:
            rows = [_row("deaf", {"daemon": daemon.process.pid})]
            at.ctl("arm")
            running.wait_until(lambda: _level(at) is not None)
            time.sleep(3)  # its models are loaded
            found = {
                name: running.children(daemon.process.pid, module)[0]
                for name, module in MODULES.items()
            }
            rows.append(_row("armed", {"daemon": daemon.process.pid, **found}))
            at.ctl("disarm")
    return rows


def _level(at: running.Place) -> float | None:
    standby: dict[str, Any] = at.status()["standby"] or {}
    level: float | None = standby["room"]["level_dbfs"] if standby else None
    return level


def _row(case: str, processes: dict[str, int]) -> dict[str, Any]:
    before_s = {name: cpu_s(pid) for name, pid in processes.items()}
    time.sleep(SECONDS)
    row: dict[str, Any] = {"case": case, "seconds": SECONDS}
    total = 0.0
    for name, pid in processes.items():
        share = (cpu_s(pid) - before_s[name]) / SECONDS
        total += share
        row[f"{name}_cpu_%"] = round(100 * share, 2)
        row[f"{name}_mb"] = round(resident_mb(pid), 1)
    row["cpu_%"] = round(100 * total, 2)
    row["mb"] = round(sum(resident_mb(pid) for pid in processes.values()), 1)
    return row
