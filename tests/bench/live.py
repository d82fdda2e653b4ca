"""Plays recordings in real time into a real daemon and reads them as a second process.

Delay: from the true end of speech to the moment at which `ambient mcp` returned the line. The true
ends come from the VAD over the whole file offline: the end of the last frame above 0.5 that is
followed by silence, within the turn. Track time 0 is the start of the session as session.json has
it, less than 60 ms before the first frame is played, so that delays are over-, not underestimated.

Processor time: user and system time of daemon, capture and worker, read from /proc before the
session ends, divided by the length of the audio.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy
import soundfile
import soxr

from ambientd.speech.segmenter import FRAME_MS
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from tests import running
from tests.bench.percentiles import percentile

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
POLL_S = 0.02
VOICED = 0.5


def run(files: list[Path]) -> list[dict[str, Any]]:
    """Return a row of figures for each file, and one for all of them."""
    rows = []
    delays: list[float] = []
    for file in files:
        row, found = _measure(file)
        rows.append(row)
        delays += found
    if len(files) > 1:
        rows.append({"file": "all", "turns": len(delays), **_percentiles(delays)})
    return rows


def _measure(file: Path) -> tuple[dict[str, Any], list[float]]:
    ends_ms = speech_ends_ms(file)
    seconds = soundfile.info(file).duration
    with running.place() as at, running.daemon(at, "--source", str(file)) as daemon:
        idle_mb = resident_mb(daemon.process.pid)
        with running.client(at) as client:
            session = at.ctl("record").stdout.strip()
            meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
            origin_s = datetime.datetime.fromisoformat(meta["started_at"]).timestamp()
            delays: list[float] = []
            usage: dict[str, dict[str, float]] = {}
            since, state = 0, "live"
            while state != "done":
                answer = client.tool("transcript", session=session, since=since)
                now_s = time.time()
                for line in answer["lines"]:
                    spoken = [end for end in ends_ms if line["start_ms"] < end <= line["end_ms"]]
                    if spoken:
                        delays.append(now_s - origin_s - spoken[-1] / 1000)
                since, state = answer["next"], answer["state"]
                usage = _usage(daemon.process.pid) or usage
                time.sleep(POLL_S)
        after_mb = resident_mb(daemon.process.pid)
    row: dict[str, Any] = {"file": file.name, "audio_s": round(seconds, 1), "turns": len(delays)}
    row |= _percentiles(delays)
    for name, used in usage.items():
        row[f"{name}_cpu_per_s"] = round(used["cpu_s"] / seconds, 3)
        row[f"{name}_mb"] = round(used["mb"], 1)
    row["cpu_per_s"] = round(sum(used["cpu_s"] for used in usage.values()) / seconds, 3)
    row["daemon_idle_mb"], row["daemon_after_mb"] = round(idle_mb, 1), round(after_mb, 1)
    return row, delays


def speech_ends_ms(file: Path) -> list[int]:
    """Return where speech ends in a recording, by the VAD over the whole file."""
    samples, rate_hz = soundfile.read(file, dtype="float32", always_2d=True)
    mono = soxr.resample(samples.mean(axis=1), rate_hz, 16_000).astype(numpy.float32)
    vad = Vad()
    count = len(mono) // FRAME_SAMPLES
    voiced = [
        vad.probability(frame) >= VOICED
        for frame in mono[: count * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    ]
    return [
        (index + 1) * FRAME_MS
        for index, now in enumerate(voiced)
        if now and not any(voiced[index + 1 : index + 2])
    ]


def _percentiles(delays: list[float]) -> dict[str, Any]:
    if not delays:
        return {}
    return {
        f"delay_{name}_s": round(percentile(delays, share), 2)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    }


def _usage(daemon_pid: int) -> dict[str, dict[str, float]]:
    """Return processor time and peak memory of the three processes, {} when a child is gone."""
    found = {"daemon": _process(daemon_pid)}
    children = Path(f"/proc/{daemon_pid}/task/{daemon_pid}/children").read_text(encoding="ascii")
    for pid in children.split():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            for name in ("capture", "worker"):
                if f".{name}\0" in command:
                    found[name] = _process(int(pid))
        except OSError:
            return {}
    return found if len(found) == 3 else {}


def _process(pid: int) -> dict[str, float]:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return {"cpu_s": ticks / os.sysconf("SC_CLK_TCK"), "mb": resident_mb(pid, "VmHWM")}


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    """Return a memory figure of a process from /proc, in MB of 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6
