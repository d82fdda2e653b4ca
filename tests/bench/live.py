"""Plays each set in real time into a real daemon and reads it as a second process.

Delay: from the true end of speech to the moment at which `ambient mcp` returned the line. The true
ends come from the VAD over the whole set offline: the end of the last frame above 0.5 that is
followed by silence, within the turn. Track time 0 is the start of the session as session.json has
it, less than 60 ms before the first frame is played, so that delays are over-, not underestimated.
A set is played as one talk, so that the model is loaded once, as in a meeting.

Processor time: user and system time of daemon, capture and worker, read from /proc before the
session ends, divided by the length of the audio. It includes what the polls cost the daemon.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import soundfile

from ambientd.speech.segmenter import FRAME_MS
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from tests import running
from tests.bench import sets
from tests.bench.percentiles import percentile
from tests.bench.scoring import Errors, errors, words

POLL_S = 0.05
LOOK_EVERY_S = 1.0
VOICED = 0.5

LATEST_S = 120.0
"""How long after the talk its text may take before it is given up."""


def run(
    names: list[str], variables: dict[str, str], poll_s: float = POLL_S
) -> list[dict[str, Any]]:
    """Return a row of figures for each set that is there.

    Args:
        names: the sets.
        variables: settings for the daemon, as environment variables.
        poll_s: how often it is read: part of the delay, and part of the daemon's processor time.
    """
    rows = []
    for name in names:
        recordings = sets.load(name)
        if recordings:
            rows.append(_measure(name, recordings, variables, poll_s))
    return rows


class Played(NamedTuple):
    """What came of a talk.

    Attributes:
        lines: the published lines.
        arrivals: when each line was read, in seconds of the talk, and the line.
        usage: processor time and peak memory by process.
        worker: what the worker did.
        daemon_mb: the daemon's memory before and after.
    """

    lines: list[dict[str, Any]]
    arrivals: list[tuple[float, dict[str, Any]]]
    usage: dict[str, dict[str, float]]
    worker: dict[str, Any]
    daemon_mb: tuple[float, float]


def play(samples: numpy.ndarray, variables: dict[str, str], poll_s: float = POLL_S) -> Played:
    """Play a talk as the microphone and read it until it is done.

    Args:
        samples: 16-bit samples at 16 kHz.
        variables: settings for the daemon, as environment variables.
    """
    arrivals: list[tuple[float, dict[str, Any]]] = []
    usage: dict[str, dict[str, float]] = {}
    worker: dict[str, Any] = {}
    with running.place(variables) as at:
        talk = at.folder / "talk.wav"
        soundfile.write(talk, samples, sets.RATE_HZ)
        with running.daemon(at, "--source", str(talk)) as daemon:
            before_mb = resident_mb(daemon.process.pid)
            with running.client(at) as client:
                session = at.ctl("record").stdout.strip()
                meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
                origin_s = datetime.datetime.fromisoformat(meta["started_at"]).timestamp()
                since, state, looked_s = 0, "live", 0.0
                deadline_s = time.monotonic() + len(samples) / sets.RATE_HZ + LATEST_S
                while state != "done" and time.monotonic() < deadline_s:
                    answer = client.tool("transcript", session=session, since=since)
                    at_s = time.time() - origin_s
                    arrivals += [(at_s, line) for line in answer["lines"]]
                    since, state = answer["next"], answer["state"]
                    usage = usage_of(daemon.process.pid) or usage
                    if at_s - looked_s >= LOOK_EVERY_S or state == "transcribing":
                        looked_s = at_s
                        worker = _worker(at) or worker
                    time.sleep(poll_s)
            after_mb = resident_mb(daemon.process.pid)
    lines = [line for _, line in arrivals]
    return Played(lines, arrivals, usage, worker, (before_mb, after_mb))


def _measure(
    name: str, recordings: list[sets.Recording], variables: dict[str, str], poll_s: float
) -> dict[str, Any]:
    samples, spans = sets.join(recordings)
    ends_ms = speech_ends_ms(samples)
    seconds = len(samples) / sets.RATE_HZ
    played = play(samples, variables, poll_s)
    delays = []
    for at_s, line in played.arrivals:
        spoken = [one for one in ends_ms if line["start_ms"] < one <= line["end_ms"]]
        if spoken:
            delays.append(at_s - spoken[-1] / 1000)
    row: dict[str, Any] = {"set": name, "audio_s": round(seconds, 1), "turns": len(played.lines)}
    row |= _score(recordings, spans, played.lines) | _percentiles(delays)
    row["uncovered_ends"] = sum(
        not any(line["start_ms"] < end <= line["end_ms"] for line in played.lines)
        for end in ends_ms
    )
    for process, used in played.usage.items():
        row[f"{process}_cpu_per_s"] = round(used["cpu_s"] / seconds, 3)
        row[f"{process}_mb"] = round(used["mb"], 1)
    row["cpu_per_s"] = round(sum(used["cpu_s"] for used in played.usage.values()) / seconds, 3)
    row["daemon_before_mb"], row["daemon_after_mb"] = (round(mb, 1) for mb in played.daemon_mb)
    row |= played.worker
    if played.lines and "decodes" in row:
        row["decodes_per_turn"] = round(row["decodes"] / len(played.lines), 2)
    return row


def _score(
    recordings: list[sets.Recording], spans: list[tuple[int, int]], lines: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the error rate over what was said, and how many words came where nothing was said."""
    total, invented, silent = Errors(0, 0), 0, 0
    for recording, span in zip(recordings, spans, strict=True):
        heard = text_within(lines, span)
        if recording.text == "":
            silent += 1
            invented += len(words(heard))
        elif recording.text is not None:
            found = errors(recording.text, heard)
            total = Errors(total.wrong + found.wrong, total.words + found.words)
    row: dict[str, Any] = {"wer": round(total.rate, 4)} if total.words else {}
    return row | ({"invented": invented} if silent else {})


def text_within(lines: list[dict[str, Any]], span: tuple[int, int]) -> str:
    """Return the text of the lines whose middle lies within a span, in milliseconds."""
    return " ".join(
        line["text"]
        for line in lines
        if span[0] <= (line["start_ms"] + line["end_ms"]) // 2 < span[1]
    )


def _worker(at: running.Place) -> dict[str, Any]:
    """Return what the worker did so far, {} when no session is open."""
    status = at.status()
    session = status["session"] or next(iter(status["finishing"]), None)
    if session is None or session["worker"] is None:
        return {}
    worker = session["worker"]
    return {
        "decodes": worker["decodes"],
        "redos": worker["redos"],
        "rejected": sum(worker["rejected"].values()),
        "lost_frames": session["tracks"]["room"]["lost_frames"],
    }


def speech_ends_ms(samples: numpy.ndarray) -> list[int]:
    """Return where speech ends in a recording, by the VAD over all of it.

    Args:
        samples: 16-bit samples at 16 kHz.
    """
    voiced = _voiced(samples)
    following = [*voiced[1:], False]
    pairs = enumerate(zip(voiced, following, strict=True))
    return [(index + 1) * FRAME_MS for index, (now, then) in pairs if now and not then]


def speech_starts_ms(samples: numpy.ndarray) -> list[int]:
    """Return where speech starts, by the same rule."""
    voiced = _voiced(samples)
    before = [False, *voiced[:-1]]
    pairs = enumerate(zip(before, voiced, strict=True))
    return [index * FRAME_MS for index, (then, now) in pairs if now and not then]


def _voiced(samples: numpy.ndarray) -> list[bool]:
    mono = samples.astype(numpy.float32) / 32768
    count = len(mono) // FRAME_SAMPLES
    return [one >= VOICED for one in Vad().probabilities(mono[: count * FRAME_SAMPLES])]


def _percentiles(delays: list[float]) -> dict[str, Any]:
    if not delays:
        return {}
    return {
        f"delay_{name}_s": round(percentile(delays, share), 2)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    }


def usage_of(daemon_pid: int) -> dict[str, dict[str, float]]:
    """Return processor time and peak memory of the three processes, {} when a child is gone."""
    found = {"daemon": _process(daemon_pid)}
    try:
        for name, module in (("capture", running.CAPTURE), ("worker", running.WORKER)):
            for pid in running.children(daemon_pid, module):
                found[name] = _process(pid)
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
