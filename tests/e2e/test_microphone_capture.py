"""The capture child alone, on a real microphone path: what it hears, and what ends it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from ambientd import clock
from ambientd.audio import wav
from ambientd.units import SILENCE_DBFS
from tests import pulse

RATE_HZ = 48_000
TONE_HZ = 440
TONE_S = 2.0
BOUND_S = 30.0
MAX_RESIDENT_KB = 75 * 1024
SOURCE = {"kind": "device", "name": None, "allow_monitor": True}


class Capture:
    """A capture child with its orders and events."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ambientd.audio.capture"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environ},
        )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def order(self, order: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"order": order, **fields}).encode() + b"\n")
        self.process.stdin.flush()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the next event of a kind; the others before it are passed over."""
        while (got := self._events.get(timeout=BOUND_S)) is not None:
            if got["event"] == event:
                return got
        raise AssertionError(f"it ended before {event}")

    def wait_for_frames(self, frames: int) -> dict[str, Any]:
        """Return the first progress that has so many frames."""
        while (progress := self.wait_for("progress"))["frames"] < frames:
            pass
        return progress

    def record(self, folder: Path) -> None:
        """Open the default microphone and begin."""
        self.order("open", source=SOURCE, wait=False)
        assert self.wait_for("open")["rate_hz"] == RATE_HZ
        target = {"folder": str(folder), "track": "room", "spool": True, "floor_bytes": 0}
        since = {"frames": 0, "at_ns": clock.boot_ns(), "reason": "late_start"}
        self.order("begin", **target, create=True, since=since)
        self.wait_for("begun")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)


@pytest.fixture
def capture(audio_server: pulse.Server) -> Iterator[Capture]:
    running = Capture(audio_server.environ)
    yield running
    running.end()


def strength(samples: numpy.ndarray, rate_hz: int) -> float:
    """Return which share of a recording's energy is the tone."""
    spectrum = numpy.abs(numpy.fft.rfft(samples.astype(float))) ** 2
    hertz = numpy.fft.rfftfreq(len(samples), 1 / rate_hz)
    near = numpy.abs(hertz - TONE_HZ) < 20
    return float(spectrum[near].sum() / spectrum.sum())


def test_what_is_played_is_in_both_files(
    capture: Capture, audio_server: pulse.Server, tmp_path: Path
) -> None:
    tone = tmp_path / "tone.wav"
    seconds = numpy.arange(int(TONE_S * RATE_HZ)) / RATE_HZ
    soundfile.write(tone, 0.3 * numpy.sin(2 * numpy.pi * TONE_HZ * seconds), RATE_HZ)
    capture.record(tmp_path)
    with audio_server.speak(tone) as speaking:
        loudest = SILENCE_DBFS
        while speaking.poll() is None:
            loudest = max(loudest, capture.wait_for("progress")["rms_dbfs"])
    status = Path(f"/proc/{capture.process.pid}/status").read_text(encoding="ascii")
    resident_kb = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    capture.order("stop")
    closed = capture.wait_for("closed")
    assert capture.process.wait(BOUND_S) == 0

    # A sine with a peak of 0.3 is 10.5 dB below full scale, and 3 dB less as RMS.
    assert -16 < loudest < -11
    assert resident_kb <= MAX_RESIDENT_KB
    native, rate_hz = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert (rate_hz, len(native), closed["lost_frames"]) == (RATE_HZ, closed["frames"], 0)
    spool = numpy.frombuffer((tmp_path / "room.live.pcm").read_bytes(), dtype=numpy.int16)
    assert len(spool) == closed["spool_frames"] == closed["frames"] // 3
    for samples, rate in ((native, RATE_HZ), (spool, 16_000)):
        assert strength(samples, rate) > 0.98
        heard_s = numpy.count_nonzero(numpy.abs(samples) > 1000) / rate
        # A sine of this peak is below 1000 for 6 % of the time.
        assert heard_s > 0.85 * TONE_S, "a part of the tone is missing"
    for name in ("room.native.wav", "room.live.pcm"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_lost_audio_server_is_said_and_what_was_heard_stays(
    capture: Capture, audio_server: pulse.Server, tmp_path: Path
) -> None:
    capture.record(tmp_path)
    heard = capture.wait_for_frames(RATE_HZ // 2)
    audio_server.kill()
    try:
        assert capture.wait_for("ended")["reason"] == "device_lost"
        capture.order("stop")
        closed = capture.wait_for("closed")
        assert capture.process.wait(BOUND_S) == 0
    finally:
        audio_server.start()
    assert closed["frames"] >= heard["frames"]
    assert soundfile.info(tmp_path / "room.native.wav").frames == closed["frames"]


def test_a_frozen_audio_server_holds_up_neither_the_opening_nor_the_end(
    capture: Capture, audio_server: pulse.Server
) -> None:
    with audio_server.frozen():
        capture.order("open", source=SOURCE, wait=False)
        capture.close_stdin()
        fault = capture.wait_for("fault")
        assert capture.process.wait(BOUND_S) == 1
    assert fault["code"] == "audio_stuck"
    assert fault["hint"]


def test_an_audio_server_that_freezes_while_recording_is_a_lost_microphone(
    capture: Capture, audio_server: pulse.Server, tmp_path: Path
) -> None:
    capture.record(tmp_path)
    capture.wait_for_frames(RATE_HZ // 2)
    with audio_server.frozen():
        assert capture.wait_for("ended")["reason"] == "device_lost"
        capture.close_stdin()
        closed = capture.wait_for("closed")
        assert capture.process.wait(BOUND_S) == 0
    assert soundfile.info(tmp_path / "room.native.wav").frames == closed["frames"]


def test_a_killed_capture_leaves_a_recording_that_can_be_mended(
    capture: Capture, tmp_path: Path
) -> None:
    capture.record(tmp_path)
    said = capture.wait_for_frames(2 * RATE_HZ)
    capture.process.kill()
    capture.process.wait(BOUND_S)
    path = tmp_path / "room.native.wav"
    # What was said to be written is in the file; its header may be a second behind.
    assert soundfile.info(path).frames >= said["frames"] - RATE_HZ * 3 // 2
    frames = wav.repair(path).frames
    assert frames >= said["frames"]
    assert soundfile.info(path).frames == frames
    assert (tmp_path / "room.live.pcm").stat().st_size >= said["spool_frames"] * 2


def test_signals_to_the_group_do_not_end_it_and_a_closed_stdin_does(
    capture: Capture, tmp_path: Path
) -> None:
    capture.record(tmp_path)
    before = capture.wait_for_frames(RATE_HZ // 4)["frames"]
    capture.process.send_signal(signal.SIGINT)
    capture.process.send_signal(signal.SIGTERM)
    capture.wait_for_frames(before + RATE_HZ // 2)
    capture.close_stdin()
    closed = capture.wait_for("closed")
    assert capture.process.wait(BOUND_S) == 0
    assert soundfile.info(tmp_path / "room.native.wav").frames == closed["frames"]
