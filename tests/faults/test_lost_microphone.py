"""Microphones that go away, fall silent or change: seen, said as a gap, and the session goes on."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from tests import pulse, running

RATE_HZ = 48_000

pytestmark = pytest.mark.timeout(120)


def seen(what: str, since_s: float) -> None:
    """Print how long a fault or its end took to be seen; `make faults` shows it."""
    name = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].partition(" ")[0]
    print(f"{what} was seen after {time.monotonic() - since_s:.1f} s ({name})")


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
        status = self._place.status()
        assert status["session"] is not None, status["why"]
        track: dict[str, Any] = status["session"]["tracks"]["room"]
        return track

    def wait_for_audio(self) -> None:
        """Wait until half a second more is on disk."""
        frames = self.status()["captured_frames"] + RATE_HZ // 2
        running.wait_until(lambda: self.status()["captured_frames"] > frames)

    def wait_for_input(self, state: str) -> dict[str, Any]:
        begun_s = time.monotonic()
        running.wait_until(lambda: self.status()["input"] == state)
        seen(state, begun_s)
        return self.status()

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if not kinds or event["kind"] in kinds]

    def wait_for_event(self, *kinds: str) -> dict[str, Any]:
        begun_s = time.monotonic()
        found: list[dict[str, Any]] = running.wait_until(lambda: self.events(*kinds))
        seen(" or ".join(kinds), begun_s)
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


def test_a_microphone_that_is_unplugged_is_not_replaced_by_what_the_speakers_play(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place), humming(server, tmp_path, sink="call"):
        plugged = server.load("module-remap-source", "master=room.monitor", "source_name=usb")
        server.control("set-default-source", "usb")
        session = Session(place)
        # What is left is a monitor, and the server puts that behind the open stream.
        server.control("unload-module", "module-remap-source")
        server.control("set-default-source", "call.monitor")
        status = session.wait_for_input("waiting")
        assert "microphone went away" in status["warning"]
        running.wait_until(lambda: "monitor" in session.status()["warning"])
        server.load("module-remap-source", "master=call.monitor", "source_name=usb")
        server.control("set-default-source", "usb")
        session.wait_for_input("ok")
        session.wait_for_audio()
        session.end()
    assert plugged
    assert [gap["reason"] for gap in session.events("gap")] == ["device_lost"]


def test_a_suspended_microphone_is_waited_for(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place), humming(server, tmp_path):
        session = Session(place)
        server.control("suspend-source", "mic", "1")
        assert "suspended" in session.wait_for_input("waiting")["warning"]
        server.control("suspend-source", "mic", "0")
        session.wait_for_input("ok")
        session.wait_for_audio()
        session.end()
    assert [gap["reason"] for gap in session.events("gap")] == ["suspended"]


def test_a_changed_default_is_followed_and_told_once_it_stays(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    server.load(
        "module-remap-source",
        "master=call.monitor",
        "source_name=headset",
        "source_properties=device.description=Headset",
    )
    with running.daemon(place), humming(server, tmp_path), humming(server, tmp_path, "call"):
        session = Session(place)
        first = session.status()["device"]
        for name in ("headset", "mic", "headset", "mic", "headset"):
            server.control("set-default-source", name)
        session.wait_for_event("device_changed")
        session.wait_for_audio()
        assert session.status()["device"] == "Headset" != first
        assert session.status()["input"] == "ok"
        session.end()
    assert [event["device"] for event in session.events("device_changed")] == ["Headset"]
    assert not session.events("gap"), "the server moves the stream, and nothing is lost"


def test_a_muted_microphone_is_muted_and_not_broken(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place), humming(server, tmp_path):
        session = Session(place)
        server.control("set-source-mute", "mic", "1")
        assert "is muted" in session.wait_for_input("muted")["warning"]
        time.sleep(6)  # longer than a run of zeros may be
        assert session.status()["input"] == "muted"
        server.control("set-source-mute", "mic", "0")
        assert session.wait_for_input("ok")["warning"] == ""
        session.end()
    kinds = [event["kind"] for event in session.events()]
    assert kinds == ["muted", "sound_again"]


def test_exact_zeros_from_a_microphone_are_said_and_opening_it_again_is_tried_once(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place):
        with humming(server, tmp_path):
            session = Session(place)
        # Nobody plays to it now, so what it hears is exactly zero.
        assert "digital silence" in session.wait_for_input("digital_silence")["warning"]
        session.wait_for_event("gap")
        time.sleep(7)
        assert session.status()["input"] == "digital_silence"
        with humming(server, tmp_path):
            assert session.wait_for_input("ok")["warning"] == ""
            session.end()
    kinds = [event["kind"] for event in session.events()]
    assert kinds == ["digital_silence", "gap", "sound_again"]
    assert session.events("gap")[0]["reason"] == "digital_silence"


def test_a_monitor_may_be_silent_and_is_said_to_be_one(
    place: running.Place, server: pulse.Server
) -> None:
    server.control("set-default-source", "call.monitor")
    with running.daemon(place):
        session = Session(place)
        time.sleep(6)
        status = session.status()
        assert status["input"] == "monitor"
        assert "monitor" in status["warning"]
        session.end()
    assert session.events() == []


def test_a_frozen_server_is_a_lost_microphone_until_it_answers(
    place: running.Place, server: pulse.Server, tmp_path: Path
) -> None:
    with running.daemon(place), humming(server, tmp_path):
        session = Session(place)
        with server.frozen():
            session.wait_for_input("waiting")
            time.sleep(3)
        session.wait_for_input("ok")
        session.wait_for_audio()
        session.end()
    assert [gap["reason"] for gap in session.events("gap")] == ["device_lost"]


def test_a_stop_while_there_is_no_microphone_says_the_gap_to_the_end(
    place: running.Place, server: pulse.Server
) -> None:
    with running.daemon(place):
        begun_s = time.monotonic()
        session = Session(place)
        server.kill()
        session.wait_for_input("waiting")
        lost_s = time.monotonic() - begun_s
        time.sleep(2)
        assert session.end() >= 2
        assert place.status()["listening"] is False
    (gap,) = session.events("gap")
    assert gap["end_ms"] - gap["start_ms"] >= 2000
    assert gap["start_ms"] <= lost_s * 1000


class FakeDevice:
    """The control file of ``tests/faults/device``."""

    def __init__(self, folder: Path) -> None:
        self._device = folder / "device.json"
        self._sleep = folder / "slept"
        self.environ = {
            "PYTHONPATH": str(Path(__file__).parent / "device"),
            "FAKE_DEVICE": str(self._device),
            "FAKE_SLEEP": str(self._sleep),
        }

    def set(self, **values: Any) -> None:
        """Have the device be as always but for these."""
        temporary = self._device.with_suffix(".new")
        temporary.write_text(json.dumps(values))
        temporary.rename(self._device)

    def sleep(self, seconds: float) -> None:
        """Have the machine have slept so long."""
        self._sleep.write_text(str(seconds))


@pytest.fixture
def device(tmp_path: Path) -> FakeDevice:
    return FakeDevice(tmp_path)


@pytest.fixture
def fake_place(device: FakeDevice) -> Iterator[running.Place]:
    with running.place(device.environ) as at:
        yield at


def pitch_hz(samples: numpy.ndarray) -> float:
    """Return the frequency of a tone."""
    spectrum = numpy.abs(numpy.fft.rfft(samples * numpy.hanning(len(samples))))
    return float(numpy.argmax(spectrum) * RATE_HZ / len(samples))


def test_a_rate_that_changes_under_the_stream_is_seen_and_converted(
    fake_place: running.Place, device: FakeDevice
) -> None:
    with running.daemon(fake_place):
        session = Session(fake_place)
        device.set(rate_hz=44_100, pace=44_100 / 48_000)
        session.wait_for_event("rate_changed")
        device.set(rate_hz=44_100)
        (gap,) = running.wait_until(lambda: session.events("gap"))
        session.wait_for_audio()
        session.wait_for_audio()
        session.end()
    assert gap["reason"] == "rate_changed"
    samples, _ = soundfile.read(session.folder / "audio" / "room.wav", dtype="int16")
    behind = samples[gap["end_ms"] * 48 + 4800 :][: RATE_HZ // 2]
    before = samples[: RATE_HZ // 4]
    assert abs(pitch_hz(before) - 500) < 5
    assert abs(pitch_hz(behind) - 500) < 5, "what follows is in the file's own rate"


@pytest.mark.parametrize("fault", [{"is_frozen": True}, {"is_frozen": True, "hangs": True}])
def test_callbacks_that_stop_are_a_lost_microphone(
    fake_place: running.Place, device: FakeDevice, fault: dict[str, Any]
) -> None:
    with running.daemon(fake_place) as daemon:
        session = Session(fake_place)
        captures = running.children(daemon.process.pid, running.CAPTURE)
        device.set(**fault)
        session.wait_for_input("waiting")
        if "hangs" in fault:
            now = running.children(daemon.process.pid, running.CAPTURE)
            assert now == captures, "it is said before the stream, which hangs, is closed"
        device.set()
        session.wait_for_input("ok")
        session.wait_for_audio()
        session.end()
    assert [gap["reason"] for gap in session.events("gap")] == ["device_lost"]


def test_without_a_microphone_a_start_is_refused_and_works_when_there_is_one(
    fake_place: running.Place, device: FakeDevice
) -> None:
    device.set(is_there=False)
    with running.daemon(fake_place):
        refused = fake_place.ctl("record", check=False)
        assert refused.returncode == 1
        assert "there is no microphone" in refused.stderr
        assert [path.name for path in fake_place.root.iterdir()] == [".ambientd.lock"]
        device.set()
        session = Session(fake_place)
        device.set(is_there=False)
        session.wait_for_input("waiting")
        running.wait_until(lambda: "there is no microphone" in session.status()["warning"])
        device.set()
        session.wait_for_input("ok")
        session.wait_for_audio()
        session.end()
    assert [gap["reason"] for gap in session.events("gap")] == ["device_lost"]


def test_a_machine_that_slept_has_a_gap_as_long_as_it_slept(
    fake_place: running.Place, device: FakeDevice
) -> None:
    with running.daemon(fake_place):
        session = Session(fake_place)
        device.sleep(3600)
        session.wait_for_event("gap")
        session.wait_for_audio()
        # And again, with a microphone that is gone when it wakes.
        device.set(is_there=False)
        session.wait_for_input("waiting")
        device.sleep(5000)
        device.set()
        session.wait_for_input("ok")
        session.wait_for_audio()
        length_s = session.end()
    first, second = session.events("gap")
    assert (first["reason"], second["reason"]) == ("asleep", "asleep")
    assert first["end_ms"] - first["start_ms"] == pytest.approx(3_600_000, abs=100)
    assert second["end_ms"] - second["start_ms"] >= 1_400_000
    assert length_s >= 5000
    audio = session.folder / "audio" / "room.wav"
    assert audio.stat().st_blocks * 512 < audio.stat().st_size / 10, "a gap takes no room"


def test_a_capture_that_is_killed_again_and_again_is_followed_by_another(
    fake_place: running.Place,
) -> None:
    with running.daemon(fake_place) as daemon:
        session = Session(fake_place)
        for count in (1, 2):
            daemon.kill_child(running.CAPTURE)
            running.wait_until(lambda count=count: len(session.events("gap")) == count)  # type: ignore[misc]
            session.wait_for_audio()
        session.end()
    assert {gap["reason"] for gap in session.events("gap")} == {"capture_lost"}
