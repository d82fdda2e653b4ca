"""A machine that transcribes three times slower than people speak: late, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
SPEED = 4

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
            time.sleep(0.01)
        return Decode("words", "en", -0.1, 0.0, 1.0, 2, False)
"""

Span = tuple[int, int]


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


def session_of(status: dict[str, Any]) -> dict[str, Any] | None:
    return status["session"] or next(iter(status["finishing"]), None)


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
    seen: list[tuple[int, int]] = []
    with (
        running.place(slowed) as at,
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", str(SPEED)),
    ):
        session = at.ctl("record").stdout.strip()

        def look() -> dict[str, Any] | None:
            before = len(spans(at, session))
            told = session_of(at.status())
            if told is not None:
                seen.append((told["captured_ms"] - told["lag_ms"], before))
            return told

        running.wait_until(lambda: at.status()["finishing"], 60)
        told = look()
        assert told is not None
        published = spans(at, session)
        assert 0 < len(published) < len(expected) - 3, "it is behind when the talk is over"
        assert told["lag_ms"] > 5000
        load.unlink()
        running.wait_until(lambda: (at.root / session / "transcript.md").exists(), 30)
        running.wait_until(lambda: look() is None)
        assert spans(at, session) == expected, "no turn skipped, doubled, moved or out of order"
        meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    assert meta["duration_s"] == pytest.approx(28.4, abs=0.1), "no frame is lost"
    for position_ms, count in seen:
        # What is told as done never lies behind a turn that is not out yet.
        assert position_ms <= [*expected, (10**9, 0)][count + 1][0]
        assert count == 0 or position_ms >= expected[count - 1][1] - 1000
