"""The daemon beside WhisperLive: the same audio, model and threads, one after the other in one run.

An end of speech counts as readable when a stretch of text is there that holds it, give or take
REACH_S, because neither system's times end exactly where speech does; ``never`` counts those that
none held. WhisperLive shows text that it may change and completes it later; ours is complete when
it comes. Only ends with PAUSE_S of silence behind them count, where a line can be expected. Its
processor time is counted from the first audio on, ours from the start of the daemon.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy
import soundfile

from ambientd.speech import models
from tests.bench import live, sets
from tests.bench.percentiles import percentile
from tests.bench.scoring import Errors, errors

REACH_S = 0.5
PAUSE_S = 0.8
DRIVER = Path(__file__).with_name("whisper_live.py")


def run(python: str, names: list[str]) -> list[dict[str, Any]]:
    """Return a row for each system.

    Args:
        python: the interpreter of a virtual environment with whisper-live.
        names: the sets, played as one talk.
    """
    recordings = [one for name in names for one in sets.load(name)]
    samples, spans = sets.join(recordings)
    ends_s = pauses_s(samples)
    seconds = len(samples) / sets.RATE_HZ
    ours = live.play(samples, {})
    reached = [(one["start_ms"] / 1000, one["end_ms"] / 1000, at_s) for at_s, one in ours.arrivals]
    rows = [
        {
            "system": "ambientd",
            **_score(recordings, spans, ours.lines),
            **_delays("readable", ends_s, reached),
            "cpu_per_s": round(sum(used["cpu_s"] for used in ours.usage.values()) / seconds, 3),
        }
    ]
    with tempfile.TemporaryDirectory() as folder:
        talk = Path(folder) / "talk.wav"
        soundfile.write(talk, samples, sets.RATE_HZ)
        command = [python, str(DRIVER), str(models.packaged_folder()), str(talk)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=seconds + 300)
    theirs = json.loads(done.stdout)
    lines = [
        {
            "start_ms": int(float(one["start"]) * 1000),
            "end_ms": int(float(one["end"]) * 1000),
            "text": one["text"],
        }
        for one in theirs["segments"]
    ]
    rows.append(
        {
            "system": "WhisperLive",
            **_score(recordings, spans, lines),
            **_delays("shown", ends_s, theirs["shown"]),
            **_delays("completed", ends_s, theirs["completed"]),
            "cpu_per_s": round(theirs["cpu_s"] / seconds, 3),
        }
    )
    return rows


def pauses_s(samples: numpy.ndarray) -> list[float]:
    """Return the ends of speech with a pause behind them, in seconds."""
    ends_ms = live.speech_ends_ms(samples)
    starts_ms = live.speech_starts_ms(samples)
    found = []
    for end_ms in ends_ms:
        after = [start_ms for start_ms in starts_ms if start_ms >= end_ms]
        if not after or after[0] - end_ms >= PAUSE_S * 1000:
            found.append(end_ms / 1000)
    return found


def _delays(
    name: str, ends_s: list[float], reached: list[tuple[float, float, float]]
) -> dict[str, Any]:
    delays, never = [], 0
    for end_s in ends_s:
        held = [
            at_s
            for from_s, to_s, at_s in reached
            if from_s <= end_s and end_s - REACH_S <= to_s and at_s >= end_s
        ]
        if held:
            delays.append(min(held) - end_s)
        else:
            never += 1
    row: dict[str, Any] = {"ends": len(ends_s), f"{name}_never": never}
    if delays:
        row[f"{name}_p50_s"] = round(percentile(delays, 0.5), 2)
        row[f"{name}_p95_s"] = round(percentile(delays, 0.95), 2)
    return row


def _score(
    recordings: list[sets.Recording], spans: list[tuple[int, int]], lines: list[dict[str, Any]]
) -> dict[str, Any]:
    total = Errors(0, 0)
    for recording, span in zip(recordings, spans, strict=True):
        if recording.text:
            found = errors(recording.text, live.text_within(lines, span))
            total = Errors(total.wrong + found.wrong, total.words + found.words)
    return {"wer": round(total.rate, 4), "words": total.words}
