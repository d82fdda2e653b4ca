"""What the worker's own parts make of each set, offline: the same text on every run.

Three ways over the same recordings with the same model and threads: ours (voice detection, turns,
fitted windows, guard), plain faster-whisper on the same turns (its call as it stands), and the
whole recording at once, which no live system can do. Processor seconds are those of this process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from ambientd.speech import models
from ambientd.speech.engine import EngineSettings
from ambientd.speech.engines.faster_whisper import FasterWhisper
from ambientd.speech.guard import Verdict
from ambientd.speech.recognition import recognise
from ambientd.speech.segmenter import Rules, Segmenter, Turn
from ambientd.speech.vad import FRAME_SAMPLES, Vad
from tests.bench import sets
from tests.bench.scoring import Errors, errors, words

BASELINE = Path(__file__).with_name("quality.json")
TOLERANCE = 0.005
MEASURES = ("wer", "invented")

Hear = Callable[[numpy.ndarray], tuple[str, dict[str, int]]]


class Hearer:
    """The three ways, with one model between them."""

    def __init__(self, threads: int = 1) -> None:
        self.rules = Rules()
        settings = EngineSettings(str(models.packaged_folder()), threads, None, 5)
        self._engine = FasterWhisper(settings)
        self._engine.load()

    def ours(self, samples: numpy.ndarray) -> tuple[str, dict[str, int]]:
        """Hear a recording as the worker does."""
        texts, counts = [], {"turns": 0, "decodes": 0, "redos": 0, "rejected": 0}
        for turn in self._turns(samples):
            made = recognise(self._engine, _cut(samples, turn))
            counts["turns"] += 1
            counts["decodes"] += made.decodes
            counts["redos"] += made.decodes - 1
            if made.verdict is Verdict.ACCEPT:
                texts.append(made.decode.text)
            else:
                counts["rejected"] += 1
        return " ".join(texts), counts

    def plain(self, samples: numpy.ndarray) -> tuple[str, dict[str, int]]:
        """Hear the same turns with the library's own call."""
        turns = list(self._turns(samples))
        texts = [self._transcribe(_cut(samples, turn)) for turn in turns]
        return " ".join(texts), {"turns": len(turns)}

    def whole(self, samples: numpy.ndarray) -> tuple[str, dict[str, int]]:
        """Hear the whole recording at once with the library's own call."""
        return self._transcribe(samples.astype(numpy.float32) / 32768), {}

    def _transcribe(self, samples: numpy.ndarray) -> str:
        model: Any = self._engine._model
        model.window_frames = 3000
        segments, _ = model.transcribe(samples, language="en", beam_size=5)
        return " ".join(segment.text for segment in segments)

    def _turns(self, samples: numpy.ndarray) -> list[Turn]:
        vad, segmenter, found = Vad(), Segmenter(self.rules), []
        count = len(samples) // FRAME_SAMPLES
        frames = samples[: count * FRAME_SAMPLES].astype(numpy.float32) / 32768
        for probability in vad.probabilities(frames):
            turn = segmenter.push(probability)
            found += [] if turn is None else [turn]
        last = segmenter.finish(len(samples) * 1000 // sets.RATE_HZ)
        return found if last is None else [*found, last]


def _cut(samples: numpy.ndarray, turn: Turn) -> numpy.ndarray:
    per_ms = sets.RATE_HZ // 1000
    return samples[turn.start_ms * per_ms : turn.end_ms * per_ms].astype(numpy.float32) / 32768


def run(
    names: list[str], ways: tuple[str, ...] = ("ours", "plain", "whole")
) -> list[dict[str, Any]]:
    """Return a row for each set and way."""
    hearer = Hearer()
    rows = []
    for name in names:
        recordings = sets.load(name)
        for way in ways if recordings else ():
            row = _measure(name, way, recordings, getattr(hearer, way))
            rows.append(row)
    return rows


def _measure(name: str, way: str, recordings: list[sets.Recording], hear: Hear) -> dict[str, Any]:
    total, counts, invented = Errors(0, 0), dict[str, int](), 0
    start_s = time.process_time()
    for recording in recordings:
        text, counted = hear(recording.samples)
        for key, value in counted.items():
            counts[key] = counts.get(key, 0) + value
        if recording.text == "":
            invented += len(words(text))
        elif recording.text is not None:
            found = errors(recording.text, text)
            total = Errors(total.wrong + found.wrong, total.words + found.words)
    used_s = time.process_time() - start_s
    seconds = sum(len(recording.samples) for recording in recordings) / sets.RATE_HZ
    row: dict[str, Any] = {"set": name, "way": way, "audio_s": round(seconds, 1)}
    if total.words:
        row |= {"wer": round(total.rate, 4), "wrong": total.wrong, "words": total.words}
    if any(recording.text == "" for recording in recordings):
        row["invented"] = invented
    return row | counts | {"cpu_per_s": round(used_s / seconds, 3)}


def check(rows: list[dict[str, Any]], *, update: bool) -> list[str]:
    """Return what is worse than the committed baseline by more than the tolerance.

    Args:
        rows: of ``run``.
        update: write the figures down as the new baseline instead.
    """
    kept = json.loads(BASELINE.read_text(encoding="utf-8"))
    faults = []
    for row in rows:
        figures: dict[str, float] = {key: row[key] for key in MEASURES if key in row}
        if row["way"] != "ours" or not figures:
            continue
        if update:
            kept[row["set"]] = figures
        elif row["set"] not in kept:
            faults.append(f"{row['set']} has no baseline: make one with --update")
        else:
            faults += _worse(row["set"], figures, kept[row["set"]])
    if update:
        BASELINE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return faults


def _worse(name: str, figures: dict[str, float], kept: dict[str, float]) -> list[str]:
    allowed = {"wer": kept.get("wer", 0) + TOLERANCE, "invented": kept.get("invented", 0)}
    return [
        f"{name} is worse than it was: {key} {value:g}, at most {allowed[key]:g}"
        for key, value in figures.items()
        if value > allowed[key]
    ]
