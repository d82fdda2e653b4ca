"""The transcriber worker as a process, with the real model, fed a spool as the daemon would."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile
import soxr

from ambientd.speech import models
from ambientd.speech.segmenter import Rules
from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


class Worker:
    """A running worker; collects its events."""

    def __init__(self, **settings: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ambientd.speech.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        rules = Rules()
        defaults = {
            "model": str(models.packaged_folder()),
            "engine": "ambientd.speech.engines.faster_whisper:FasterWhisper",
            "threads": 2,
            "language": None,
            "beam_size": 5,
            "early_decode": True,
            "unload_after_s": 300,
            "vad": {name: getattr(rules, name) for name in Rules.__slots__},
        }
        self.order("configure", **{**defaults, **settings})

    def order(self, order: str, **fields: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, **fields}).encode() + b"\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait_for(self, timeout_s: float = 60, **wanted: Any) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((one for one in self.events if wanted.items() <= one.items()), None)

        with self._changed:
            assert self._changed.wait_for(lambda: find() is not None, timeout_s), self.events
            found = find()
        assert found is not None
        return found

    def all(self, event: str, track: str = "room") -> list[dict[str, Any]]:
        return [
            one for one in self.events if one["event"] == event and one.get("track", track) == track
        ]

    def end(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait(20)
        self._reader.join()
        self._process.stdout.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker()
    yield running
    running.end()


@pytest.fixture(scope="session")
def speech() -> Any:
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    return soxr.resample(samples, rate_hz, 16_000)


@pytest.fixture
def spool(speech: numpy.ndarray, tmp_path: Path) -> Path:
    path = tmp_path / "room.live.pcm"
    path.write_bytes(speech.tobytes())
    return path


def words(turns: list[dict[str, Any]]) -> str:
    text = " ".join(turn["text"] for turn in turns)
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


def test_turns_arrive_while_the_spool_grows_and_positions_only_go_forward(
    worker: Worker, spool: Path, speech: numpy.ndarray
) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.wait_for(event="ready")
    worker.order("frames", track="room", frames=16_000 * 4)
    first = worker.wait_for(event="turn")
    assert "good morning" in words([first])
    assert 0 < first["confidence"] <= 1
    assert first["language"] == "en"
    for seconds in range(5, len(speech) // 16_000):
        worker.order("frames", track="room", frames=16_000 * seconds)
    worker.order("frames", track="room", frames=len(speech))
    worker.order("finish", track="room")
    worker.wait_for(event="drained")
    assert words(worker.all("turn")).endswith("please tell me when it works")
    positions = [one["position_ms"] for one in worker.all("progress")]
    assert positions == sorted(positions)
    assert positions[-1] == len(speech) // 16
    for turn in worker.all("turn"):
        after = worker.events[worker.events.index(turn) + 1 :]
        assert any(
            one["event"] == "progress" and one["position_ms"] >= turn["end_ms"] for one in after
        )


def feed(worker: Worker, start_ms: int, end_ms: int, until: Callable[[], bool]) -> int:
    """Let audio arrive frame by frame, slower than it can be decoded, until something is so."""
    for position_ms in range(start_ms, end_ms, 32):
        worker.order("frames", track="room", frames=position_ms * 16)
        with contextlib.suppress(TimeoutError):
            running.wait_until(until, 0.5)
            return position_ms
    raise AssertionError("it did not come about")


def test_a_turn_is_decoded_while_its_closing_silence_runs(worker: Worker, spool: Path) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.order("frames", track="room", frames=16 * 1000)
    worker.wait_for(event="model", state="loaded")
    # The first sentence ends at 1323 ms, and the next begins at 1923.
    worker.order("frames", track="room", frames=16 * 1550)
    reached_ms = feed(worker, 1582, 1900, lambda: bool(worker.all("idle")))
    assert worker.all("turn") == [], "the silence is not long enough yet"
    feed(worker, reached_ms, 1920, lambda: bool(worker.all("turn")))
    (turn,) = worker.all("turn")
    assert words([turn]) == "good morning"
    assert (turn["decodes"], worker.all("idle")[0]["decodes"]) == (0, 1)


def test_a_draft_of_a_turn_that_goes_on_is_dropped(
    worker: Worker, speech: numpy.ndarray, tmp_path: Path
) -> None:
    # Some of the silence is cut out, so that the second sentence follows before the turn ends.
    first, second = speech[: 1700 * 16], speech[1923 * 16 : 4364 * 16]
    path = tmp_path / "room.live.pcm"
    path.write_bytes(numpy.concatenate([first, second]).tobytes())
    length_ms = (len(first) + len(second)) // 16
    worker.order("track", track="room", spool=str(path), from_ms=0)
    worker.order("frames", track="room", frames=16 * 1000)
    worker.wait_for(event="model", state="loaded")
    worker.order("frames", track="room", frames=16 * 1550)
    feed(worker, 1582, 1740, lambda: bool(worker.all("idle")))
    worker.order("frames", track="room", frames=length_ms * 16)
    worker.order("finish", track="room")
    worker.wait_for(event="drained")
    assert words(worker.all("turn")) == "good morning did the build finish last night"
    assert sum(turn["decodes"] for turn in worker.all("turn")) >= 1


def test_without_early_decode_there_is_one_decode_a_turn(spool: Path) -> None:
    worker = Worker(early_decode=False)
    try:
        worker.order("track", track="room", spool=str(spool), from_ms=0)
        worker.order("frames", track="room", frames=16 * 1000)
        worker.wait_for(event="model", state="loaded")
        worker.order("frames", track="room", frames=16 * 1550)
        feed(worker, 1582, 1920, lambda: bool(worker.all("turn")))
        assert worker.all("idle") == []
        assert worker.all("turn")[0]["decodes"] == 1
    finally:
        worker.end()


def test_partial_text_comes_only_while_it_is_asked_for_and_what_stands_is_its_beginning(
    worker: Worker, spool: Path
) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.order("frames", track="room", frames=16 * 2000)
    worker.wait_for(event="model", state="loaded")
    # A sentence of two seconds with nobody asking, heard frame by frame and decoded once ended.
    for position_ms in range(2000, 4100, 100):
        worker.order("frames", track="room", frames=position_ms * 16)
        worker.wait_for(event="progress", track="room")
        time.sleep(0.05)
    running.wait_until(lambda: len(worker.all("turn")) == 2)
    assert worker.all("partial") == []
    worker.order("partials", seconds=60)
    feed(worker, 4800, 7700, lambda: len(worker.all("partial")) >= 3)
    for partial in worker.all("partial"):
        assert partial["text"].startswith(partial["stable"])
        assert words([partial]).startswith("yes")
    assert worker.all("partial")[-1]["stable"]


def test_work_goes_on_where_it_is_told_and_no_turn_starts_before(
    worker: Worker, spool: Path, speech: numpy.ndarray
) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=12_001)
    worker.order("frames", track="room", frames=len(speech))
    worker.order("finish", track="room")
    worker.wait_for(event="drained")
    turns = worker.all("turn")
    assert turns[0]["start_ms"] >= 12_001
    assert words(turns).startswith("i think the server was busy")


def test_nothing_is_decoded_across_a_hole(
    worker: Worker, speech: numpy.ndarray, tmp_path: Path
) -> None:
    # The third sentence is cut in the middle: two seconds were not captured there.
    hole = (6000, 8000)
    path = tmp_path / "room.live.pcm"
    cut = numpy.concatenate(
        [speech[: hole[0] * 16], numpy.zeros(2000 * 16, dtype=numpy.int16), speech[hole[0] * 16 :]]
    )
    path.write_bytes(cut.tobytes())
    worker.order("track", track="room", spool=str(path), from_ms=0)
    worker.order("frames", track="room", frames=hole[0] * 16)
    worker.order("hole", track="room", start_ms=hole[0], end_ms=hole[1])
    worker.order("frames", track="room", frames=len(cut))
    worker.order("finish", track="room")
    worker.wait_for(event="drained")
    turns = worker.all("turn")
    assert all(turn["end_ms"] <= hole[0] or turn["start_ms"] >= hole[1] for turn in turns)
    assert any(turn["end_ms"] == hole[0] for turn in turns), "the turn ends where audio ends"
    assert words(turns).endswith("please tell me when it works")


def test_a_turn_that_is_cut_by_the_very_end_loses_nothing(worker: Worker, spool: Path) -> None:
    from ambientd.speech.listener import Listener
    from ambientd.speech.segmenter import Segmenter, Turn

    listener = Listener("room", str(spool), 0, Rules(max_turn_ms=5_024))
    always = Segmenter(Rules(max_turn_ms=5_024))
    for _ in range(156):
        assert always.push(0.9) is None
    listener._segmenter = always
    listener._vad.probabilities = lambda samples: [0.9]  # type: ignore[method-assign]
    listener._next_frame = 156 * 512
    listener._cold = False
    listener.frames, listener.finished = 156 * 512 + 100, True
    turns = listener.advance()
    assert turns[0].start_ms == 0
    assert turns[-1].end_ms == 156 * 32 + 6
    assert all(isinstance(turn, Turn) for turn in turns)
    assert [turn.start_ms for turn in turns[1:]] == [turn.end_ms for turn in turns[:-1]]


def test_two_tracks_are_heard_at_once_each_in_its_own_order(
    worker: Worker, spool: Path, speech: numpy.ndarray, tmp_path: Path
) -> None:
    other = tmp_path / "call.live.pcm"
    other.write_bytes(speech[16_000 * 14 :].tobytes())
    for track, path in (("room", spool), ("call", other)):
        worker.order("track", track=track, spool=str(path), from_ms=0)
        worker.order("frames", track=track, frames=path.stat().st_size // 2)
        worker.order("finish", track=track)
    for track in ("room", "call"):
        worker.wait_for(event="drained", track=track)
        starts = [turn["start_ms"] for turn in worker.all("turn", track)]
        assert starts == sorted(starts)
        assert words(worker.all("turn", track)).endswith("please tell me when it works")


def test_the_model_is_in_memory_only_while_somebody_speaks(spool: Path, tmp_path: Path) -> None:
    silence = tmp_path / "silence.pcm"
    silence.write_bytes(bytes(16_000 * 2 * 60))
    worker = Worker(unload_after_s=1)
    try:
        worker.order("track", track="call", spool=str(silence), from_ms=0)
        worker.order("frames", track="call", frames=16_000 * 60)
        worker.wait_for(event="progress", track="call", position_ms=60_000)
        assert worker.all("model") == [], "nobody has spoken"
        worker.order("track", track="room", spool=str(spool), from_ms=0)
        worker.order("frames", track="room", frames=16_000 * 3)
        worker.wait_for(event="model", state="loaded")
        worker.wait_for(event="turn")
        worker.order("finish", track="room")
        worker.wait_for(event="model", state="unloaded")
    finally:
        assert worker.end() == 0


def test_the_model_loads_when_speech_begins_not_when_it_ends(worker: Worker, spool: Path) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.order("frames", track="room", frames=16_000)  # within "Good morning."
    worker.wait_for(event="model", state="loaded")
    assert worker.all("turn") == []


def test_the_model_leaves_after_speech_that_was_too_short_for_a_turn(
    speech: numpy.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "room.live.pcm"
    path.write_bytes(numpy.concatenate([speech[: 16 * 1800], silence(3)]).tobytes())
    rules = {name: getattr(Rules(), name) for name in Rules.__slots__}
    worker = Worker(unload_after_s=1, vad={**rules, "min_speech_ms": 5000})
    try:
        worker.order("track", track="room", spool=str(path), from_ms=0)
        worker.order("frames", track="room", frames=16 * 1200)
        worker.wait_for(event="model", state="loaded")
        time.sleep(0.3)  # the engine waits by now, and nothing will give it work
        worker.order("frames", track="room", frames=16 * 4500)
        worker.wait_for(10, event="model", state="unloaded")
        assert worker.all("turn") == []
    finally:
        worker.end()


def test_the_model_stays_while_a_turn_is_open_although_no_audio_comes(
    spool: Path,
) -> None:
    worker = Worker(unload_after_s=1)
    try:
        worker.order("track", track="room", spool=str(spool), from_ms=0)
        # In the middle of "Did the build finish last night?".
        worker.order("frames", track="room", frames=16 * 2600)
        worker.wait_for(event="turn")
        time.sleep(2.5)
        assert [one["state"] for one in worker.all("model")] == ["loading", "loaded"]
    finally:
        worker.end()


def test_a_daemon_that_is_gone_ends_it_even_during_a_decode(spool: Path) -> None:
    worker = Worker()
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.order("frames", track="room", frames=16_000 * 20)
    worker.wait_for(event="decoding")
    assert worker.end() == 0


def test_when_to_stop_is_the_daemons_to_decide_and_no_signals(worker: Worker, spool: Path) -> None:
    worker.order("track", track="room", spool=str(spool), from_ms=0)
    worker.wait_for(event="ready")
    worker.signal(signal.SIGINT)
    worker.signal(signal.SIGTERM)
    worker.order("frames", track="room", frames=16_000 * 4)
    worker.wait_for(event="turn")


def test_a_spool_that_cannot_be_read_is_a_fault_that_names_it(
    worker: Worker, tmp_path: Path
) -> None:
    worker.order("track", track="room", spool=str(tmp_path / "gone.pcm"), from_ms=0)
    fault = worker.wait_for(event="fault")
    assert fault["code"] == "spool_unreadable"
    assert "gone.pcm" in fault["message"]
    assert worker.end() == 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"model": "/no/such/folder"}, "model_broken"),
        ({"engine": "no.such:Engine"}, "model_missing"),
    ],
)
def test_what_can_never_work_is_a_fault(spool: Path, settings: dict[str, str], code: str) -> None:
    worker = Worker(**settings)
    try:
        worker.order("track", track="room", spool=str(spool), from_ms=0)
        worker.order("frames", track="room", frames=16_000 * 3)
    except BrokenPipeError:
        pass  # it had ended before
    assert worker.wait_for(event="fault")["code"] == code
    assert worker.end() == 1


def heard(worker: Worker, samples: numpy.ndarray, path: Path) -> str:
    """Return what a worker publishes of a whole recording."""
    path.write_bytes(samples.astype(numpy.int16).tobytes())
    worker.order("track", track="room", spool=str(path), from_ms=0)
    worker.order("frames", track="room", frames=len(samples))
    worker.order("finish", track="room")
    worker.wait_for(event="drained")
    return words(worker.all("turn"))


def silence(seconds: float) -> numpy.ndarray:
    return numpy.zeros(int(seconds * 16_000), dtype=numpy.int16)


def test_one_syllable_between_silences_survives(
    worker: Worker, speech: numpy.ndarray, tmp_path: Path
) -> None:
    # "Yes" of "Yes, it passed".
    yes = speech[16 * 4300 : 16 * 4830]
    samples = numpy.concatenate([silence(2), yes, silence(2)])
    assert heard(worker, samples, tmp_path / "room.live.pcm") == "yes"


def test_the_first_syllable_at_the_very_start_and_the_last_word_at_the_very_end_survive(
    worker: Worker, speech: numpy.ndarray, tmp_path: Path
) -> None:
    first, last = speech[16 * 600 : 16 * 1923], speech[16 * 25_700 : 16 * 27_500]
    samples = numpy.concatenate([first, last])
    text = heard(worker, samples, tmp_path / "room.live.pcm")
    assert text == "good morning please tell me when it works"


def test_quiet_speech_survives(worker: Worker, speech: numpy.ndarray, tmp_path: Path) -> None:
    """At -45 dBFS, as across a large room."""
    level = numpy.sqrt(numpy.mean(speech.astype(float) ** 2)) / 32768
    quiet = numpy.round(speech * (10 ** (-45 / 20) / level))
    text = heard(worker, quiet, tmp_path / "room.live.pcm")
    assert text.startswith("good morning did the build finish last night yes it passed")
    assert text.endswith("thank you please tell me when it works")
