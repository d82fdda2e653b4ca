"""Microphones that go away, fall silent or change: seen, said as a gap, and the session goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from tests import pulse, running

RATE_HZ = 48_000

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server() -> Iterator[pulse.Server]:
    """A server of the test's own, which it may break; its microphone hears a hum."""
    missing = pulse.missing_packages()
    if missing:
        pytest.skip(f"needs the system packages {' '.join(missing)}")
    with pulse.server() as own:
        yield own


@pytest.fixture
def place(server: pulse.Server) -> Iterator[running.Place]:
    with running.place(server.environ) as at:
        yield at


@contextlib.contextmanager
def humming(server: pulse.Server, folder: Path, sink: str = "room") -> Iterator[None]:
    """Play a quiet noise: a virtual microphone hears exact zeros otherwise."""
    path = folder / "hum.wav"
    noise = numpy.random.default_rng(1).integers(-60, 60, 60 * RATE_HZ, dtype=numpy.int16)
    soundfile.write(path, noise, RATE_HZ)
    player = server.speak(path, sink)
    try:
        yield
    finally:
        player.kill()
        player.wait()


class Session:
    """A session that is recorded without text, and what its files and the status say of it."""

    def __init__(self, place: running.Place) -> None:
        self._place = place
        self.id = place.ctl("record", "--no-transcribe").stdout.strip()
        self.folder = place.root / self.id
        self.wait_for_audio()

    def status(self) -> dict[str, Any]:
        session: dict[str, Any] = self._place.status()["session"]
        assert session is not None, self._place.status()["why"]
        return session

    def wait_for_audio(self) -> None:
        """Wait until half a second more is on disk."""
        frames = self.status()["captured_frames"] + RATE_HZ // 2
        running.wait_until(lambda: self.status()["captured_frames"] > frames)

    def wait_for_input(self, state: str) -> dict[str, Any]:
        running.wait_until(lambda: self.status()["input"] == state)
        return self.status()

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if not kinds or event["kind"] in kinds]

    def wait_for_event(self, *kinds: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = running.wait_until(lambda: self.events(*kinds))
        return found[-1]

    def end(self) -> float:
        """Stop it and return its length in seconds; all of it is accounted for."""
        self._place.ctl("stop", "--wait")
        meta = json.loads((self.folder / "session.json").read_text(encoding="utf-8"))
        samples, rate_hz = soundfile.read(self.folder / "audio" / "room.wav", dtype="int16")
        assert rate_hz == RATE_HZ
        assert abs(meta["duration_s"] - len(samples) / rate_hz) < 0.002
        position_ms = 0
        for gap in self.events("gap"):
            assert position_ms <= gap["start_ms"] < gap["end_ms"]
            position_ms = gap["end_ms"]
            inside = samples[gap["start_ms"] * 48 + 48 : gap["end_ms"] * 48 - 48]
            assert not inside.any(), "what lies in a gap was not recorded"
        return float(meta["duration_s"])


def test_a_server_that_dies_and_comes_back_leaves_a_gap(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place):
        begun_s = time.monotonic()
        session = Session(place)
        server.kill()
        status = session.wait_for_input("waiting")
        assert "microphone went away" in status["warning"]
        assert session.wait_for_event("device_lost")["start_ms"] >= 500
        time.sleep(1.0)
        server.start()
        with humming(server, tmp_path):
            session.wait_for_input("ok")
            session.wait_for_audio()
            length_s = session.end()
            elapsed_s = time.monotonic() - begun_s
    (gap,) = session.events("gap")
    assert gap["reason"] == "device_lost"
    assert gap["end_ms"] - gap["start_ms"] >= 1000
    assert length_s <= elapsed_s
