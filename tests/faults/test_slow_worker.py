"""A machine that transcribes three times slower than people speak: late, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import soundfile

from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
SPEED = 2

ENGINE = f"""
import os, time
from ambientd.speech.engine import Decode

class Slow:
    def __init__(self, settings): pass
    def load(self): pass
    def unload(self): pass
    def decode(self, samples, effort):
        end_s = time.monotonic() + 3 * len(samples) / 16000 / {SPEED}
        while os.path.exists(os.environ["SLOW_WHILE"]) and time.monotonic() < end_s:
            sum(range(10_000))  # takes the processor, as a decode does
        return Decode("words", "en", -0.1, 0.0, 2, False)
"""

Span = tuple[int, int]

TOLERANCE_MS = 1000
"""How stale what is told of the lag may be."""


class Look(NamedTuple):
    """What was told of a session, between two readings of how many turns were out."""

    captured_ms: int
    position_ms: int
    out_before: int
    out_after: int


@pytest.fixture
def slowed(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "slow_engine.py").write_text(ENGINE, encoding="utf-8")
    return {
        "PYTHONPATH": str(tmp_path),
        "AMBIENT_SPEECH_ENGINE": "slow_engine:Slow",
        "SLOW_WHILE": str(tmp_path / "load"),
    }


def spans(at: running.Place, session: str) -> list[Span]:
    raw = at.root / session / "raw.jsonl"
    lines = raw.read_text(encoding="utf-8").splitlines() if raw.exists() else []
    return [(line["start_ms"], line["end_ms"]) for line in map(json.loads, lines)]


def test_slow_text_is_late_in_order_and_whole_and_the_lag_is_told(
    slowed: dict[str, str], tmp_path: Path
) -> None:
    with running.place(slowed) as at:
        with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"):
            session = at.ctl("record").stdout.strip()
            running.wait_until(lambda: (at.root / session / "transcript.md").exists())
        expected = spans(at, session)
    assert len(expected) > 8
    load = tmp_path / "load"
    load.touch()
    looks: list[Look] = []
    with (
        running.place(slowed) as at,
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", str(SPEED)),
    ):
        session = at.ctl("record").stdout.strip()

        def look() -> dict[str, Any] | None:
            before = len(spans(at, session))
            status = at.status()
            told: dict[str, Any] | None = status["session"] or next(iter(status["finishing"]), None)
            if told is not None:
                position_ms = told["captured_ms"] - told["lag_ms"]
                after = len(spans(at, session))
                looks.append(Look(told["captured_ms"], position_ms, before, after))
            return told

        # The load goes while people still speak.
        running.wait_until(lambda: (told := look()) is not None and told["captured_ms"] > 18_000)
        assert looks[-1].out_after < len([end for _, end in expected if end < 18_000]) - 2
        load.unlink()
        running.wait_until(lambda: (told := look()) is not None and told["lag_ms"] < 2500)
        assert looks[-1].captured_ms < 28_000, "it caught up before the talk was over"
        running.wait_until(lambda: (at.root / session / "transcript.md").exists())
        assert spans(at, session) == expected, "no turn skipped, doubled, moved or out of order"
        recorded = soundfile.info(at.root / session / "audio" / "room.wav")
        assert recorded.frames == soundfile.info(SAMPLE).frames, "no frame is lost"
    assert len(looks) > 20
    for seen in looks:
        # Everything up to the first turn that is not out, and nothing behind it.
        waiting = [start for start, _ in expected[seen.out_after :]]
        assert seen.position_ms <= min([*waiting, seen.captured_ms]) + TOLERANCE_MS
        if seen.out_before:
            assert seen.position_ms >= expected[seen.out_before - 1][1] - TOLERANCE_MS
