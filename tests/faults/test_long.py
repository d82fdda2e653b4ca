"""Recordings of days: files beyond 4 and 8 GiB, and clocks that jump under them.

Nothing of the product knows of these tests. A module of the test's own that Python loads first puts
the days before the sample as a hole, or moves the clock of the daemon and its children. Files keep
the real time, as files do that were written before a clock was set back.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from ambientd.audio.resample import Resampler
from ambientd.speech.segmenter import FRAME_MS
from ambientd.units import SPOOL_RATE_HZ
from tests import running
from tests.faults.test_crashes import (
    assert_in_order_and_once,
    events,
    raw_lines,
    state,
    words,
)

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
RATE_HZ = soundfile.info(SAMPLE).samplerate
SPOOL_BYTES_A_MS = 32

BEFORE_S = 10
"""How much of the sample lies before the limit."""

HEAD = """
import os, sys
if "ambientd.audio.capture" in sys.orig_argv:
    from ambientd.audio.replay import Replay
    begin = Replay.begin
    def begin_late(self, position_frames):
        if position_frames == 0:
            self.ring.push(b"", int(os.environ["HEAD_FRAMES"]))  # no ring has room: a hole
        begin(self, position_frames)
    Replay.begin = begin_late
"""

CLOCK = """
import datetime, os, time
real_ns = time.time_ns
def time_ns():
    with open(os.environ["CLOCK_AHEAD_S"]) as file:
        return real_ns() + int(file.read()) * 10**9
class Datetime(datetime.datetime):
    fromtimestamp = datetime.datetime.fromtimestamp  # of a subclass it forgets which hour it is
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
datetime.datetime = Datetime
"""

pytestmark = pytest.mark.timeout(240)


class Sparse(running.Place):
    """A place whose recordings begin with days that nobody recorded."""

    def __init__(self, folder: Path, head_frames: int) -> None:
        super().__init__(folder, {"PYTHONPATH": str(folder), "HEAD_FRAMES": str(head_frames)})
        (folder / "sitecustomize.py").write_text(HEAD, encoding="utf-8")
        self.head_frames = head_frames
        self.head_ms = head_frames * 1000 // RATE_HZ

    def audio(self, session: str, name: str) -> Path:
        return self.root / session / "audio" / name

    def wait_until_beyond(self, session: str, seconds: float) -> None:
        """Wait until so much of the sample is on disk."""
        native = self.audio(session, "room.native.wav")
        least_bytes = (self.head_frames + int(seconds * RATE_HZ)) * 2
        running.wait_until(lambda: native.stat().st_size > least_bytes)

    def recorded(self, path: Path) -> numpy.ndarray:
        """Return what a file of ours has of the sample."""
        samples: numpy.ndarray = soundfile.read(path, start=self.head_frames, dtype="int16")[0]
        return samples


@pytest.fixture(params=[1 << 31, 1 << 32], ids=["4 GiB", "2^32 samples"])
def days(request: pytest.FixtureRequest) -> Any:
    with running.place() as at:
        yield Sparse(at.folder, request.param - BEFORE_S * RATE_HZ)


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The lines of the sample alone."""
    with running.place() as at, running.daemon(at, "--source", str(SAMPLE), "--source-speed", "4"):
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: (at.root / session / "transcript.md").exists(), 60)
        return raw_lines(at, session)


@pytest.fixture(scope="module")
def sample() -> numpy.ndarray:
    samples: numpy.ndarray = soundfile.read(SAMPLE, dtype="int16")[0]
    return samples


def assert_same_talk(
    lines: list[dict[str, Any]], expected: list[dict[str, Any]], head_ms: int, within_ms: int = 1
) -> None:
    """Check that lines are those that are expected, as much later as the head is long.

    Times are rounded down: by a millisecond if what listens starts where the head ends, else by one
    of its frames.
    """
    assert lines
    for line, same in zip(lines, expected, strict=False):
        assert words(line["text"]) == words(same["text"])
        for key in ("start_ms", "end_ms"):
            assert abs(line[key] - head_ms - same[key]) <= within_ms


def test_a_recording_of_days_goes_on_beyond_what_32_bits_count(
    days: Sparse, expected: list[dict[str, Any]], sample: numpy.ndarray
) -> None:
    with running.daemon(days, "--source", str(SAMPLE), "--source-speed", "4"):
        session = days.ctl("record").stdout.strip()
        native = days.audio(session, "room.native.wav")
        for seconds in (BEFORE_S / 2, BEFORE_S + 4):
            days.wait_until_beyond(session, seconds + 4)  # its sizes are patched once a second
            now = days.recorded(native)
            assert len(now) > seconds * RATE_HZ, "it can be played while it grows"
            assert (now == sample[: len(now)]).all()
        with days.audio(session, "room.live.pcm").open("rb") as spool:
            spool.seek(days.head_frames * 16_000 // RATE_HZ * 2)
            spooled = numpy.frombuffer(spool.read(BEFORE_S * 16_000 * 2), dtype=numpy.int16)
        with running.client(days) as client:
            running.wait_until(lambda: client.tool("transcript", session=session)["next"] > 2)
            answer = client.tool("transcript", session=session, since=2)
            assert answer["state"] == "live"
            assert answer["lines"][0]["start_ms"] > days.head_ms
        running.wait_until(lambda: state(days, session) == "done", 60)
    made = Resampler(RATE_HZ, SPOOL_RATE_HZ).process(sample.tobytes())
    direct = numpy.frombuffer(made, dtype=numpy.int16)
    assert numpy.abs(spooled.astype(int) - direct[: len(spooled)]).max() <= 2
    assert (days.recorded(days.audio(session, "room.wav")) == sample).all()
    lines = raw_lines(days, session)
    assert len(lines) == len(expected)
    assert_same_talk(lines, expected, days.head_ms)
    meta = json.loads((days.root / session / "session.json").read_text(encoding="utf-8"))
    assert abs(meta["duration_s"] - (days.head_frames + len(sample)) / RATE_HZ) < 0.01
    gaps = [one for one in events(days, session) if one["kind"] == "gap"]
    assert [(one["start_ms"], one["end_ms"]) for one in gaps] == [(0, days.head_ms)]


def test_a_killed_recording_of_days_is_recovered_without_writing_them_anew(
    days: Sparse, expected: list[dict[str, Any]], sample: numpy.ndarray
) -> None:
    first = running.Daemon(days, "--source", str(SAMPLE), "--source-speed", "4")
    first.wait_until_ready()
    session = days.ctl("record").stdout.strip()
    days.wait_until_beyond(session, BEFORE_S + 4)
    first.kill()
    # As if none of it had been transcribed yet: all of it is owed.
    (days.root / session / "raw.jsonl").unlink()
    spool = days.audio(session, "room.live.pcm")
    most_bytes = 0

    def is_done() -> bool:
        nonlocal most_bytes
        if spool.exists():
            most_bytes = max(most_bytes, spool.stat().st_blocks * 512)
        return (days.root / session / "transcript.md").exists()

    with running.daemon(days):
        running.wait_until(is_done, 120)
    assert 0 < most_bytes < 1 << 24, "the spool takes the room of what was said"
    recorded = days.recorded(days.audio(session, "room.wav"))
    assert len(recorded) > (BEFORE_S + 4) * RATE_HZ
    assert (recorded == sample[: len(recorded)]).all()
    lines = raw_lines(days, session)
    assert_in_order_and_once(lines)
    assert len(lines) > 3
    assert_same_talk(lines[:-1], expected, days.head_ms)  # the last one was cut short


def test_a_gap_that_a_killed_daemon_did_not_write_down_is_written_when_it_is_recovered(
    expected: list[dict[str, Any]],
) -> None:
    with running.place() as plain:
        at = Sparse(plain.folder, 720 * RATE_HZ)
        first = running.Daemon(at, "--source", str(SAMPLE), "--source-speed", "4")
        first.wait_until_ready()
        session = at.ctl("record").stdout.strip()
        at.wait_until_beyond(session, 8)
        first.kill()
        for name in ("raw.jsonl", "events.jsonl"):
            (at.root / session / name).unlink()
        with running.daemon(at):
            running.wait_until(lambda: (at.root / session / "transcript.md").exists(), 60)
        gaps = [one for one in events(at, session) if one["kind"] == "gap"]
        lines = raw_lines(at, session)
    assert [(one["track"], one["start_ms"], one["reason"]) for one in gaps] == [
        ("room", 1000, "unknown")  # the file's header is in its first second
    ]
    assert at.head_ms - 1000 <= gaps[0]["end_ms"] <= at.head_ms
    assert_same_talk(lines[:-1], expected, at.head_ms, within_ms=FRAME_MS)


def test_a_killed_capture_of_days_leaves_all_it_wrote_readable(
    days: Sparse, expected: list[dict[str, Any]], sample: numpy.ndarray
) -> None:
    with running.daemon(days, "--source", str(SAMPLE), "--source-speed", "4") as daemon:
        session = days.ctl("record").stdout.strip()
        days.wait_until_beyond(session, BEFORE_S + 4)
        daemon.kill_child(running.CAPTURE)
        running.wait_until(lambda: (days.root / session / "transcript.md").exists(), 120)
    recorded = days.recorded(days.audio(session, "room.wav"))
    before = (BEFORE_S + 4) * RATE_HZ
    assert (recorded[:before] == sample[:before]).all()
    lines = raw_lines(days, session)
    assert_in_order_and_once(lines)
    early = [line for line in lines if line["end_ms"] < days.head_ms + BEFORE_S * 1000]
    assert len(early) > 3
    assert_same_talk(early, expected, days.head_ms)


class Clock(running.Place):
    """A place whose programs have a clock of their own."""

    def __init__(self, folder: Path, zone: str) -> None:
        self._ahead = folder / "ahead"
        super().__init__(
            folder, {"PYTHONPATH": str(folder), "CLOCK_AHEAD_S": str(self._ahead), "TZ": zone}
        )
        (folder / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
        self.set_ahead(0)

    def set_ahead(self, seconds: int) -> None:
        """Set the clock so much before the real one."""
        new = self._ahead.with_suffix(".new")
        new.write_text(str(seconds), encoding="ascii")
        new.replace(self._ahead)

    def advance(self, seconds: int) -> None:
        """Let so much time pass at once."""
        self.set_ahead(int(self._ahead.read_text(encoding="ascii")) + seconds)

    def set(self, moment: str) -> None:
        """Set the clock."""
        wanted = datetime.datetime.fromisoformat(moment)
        self.set_ahead(round((wanted - datetime.datetime.now(datetime.UTC)).total_seconds()))

    def meta(self, session: str) -> dict[str, Any]:
        text = (self.root / session / "session.json").read_text(encoding="utf-8")
        meta: dict[str, Any] = json.loads(text)
        return meta


BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
"""Spelt out, so that no table of time zones is needed."""


@pytest.mark.parametrize(
    ("start", "id_", "then", "last_line"),
    [
        ("2026-10-25T02:59:40+02:00", "2026-10-25-0259", "2026-10-25-0200", "02:00:0"),
        ("2026-03-29T01:59:40+01:00", "2026-03-29-0159", "2026-03-29-0300", "03:00:0"),
        ("2026-12-31T23:59:40+01:00", "2026-12-31-2359", "2027-01-01-0000", "00:00:0"),
    ],
    ids=["summer time ends", "summer time begins", "a year ends"],
)
def test_a_recording_across_a_change_of_the_clock_on_the_wall(
    start: str, id_: str, then: str, last_line: str
) -> None:
    with running.place() as plain:
        at = Clock(plain.folder, BERLIN)
        at.set(start)
        with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "max"):
            first = at.ctl("record").stdout.strip()
            running.wait_until(lambda: state(at, first) == "done", 60)
            at.advance(30)
            second = at.ctl("record", "--no-transcribe").stdout.strip()
            running.wait_until(lambda: not at.status()["listening"])
            with running.client(at) as client:
                rows = client.tool("sessions")
            shown = subprocess.run(
                [str(running.BIN / "ambient"), "show", first],
                env=at.environ,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
        meta = at.meta(first)
    assert (first, second) == (id_, then)
    assert [row["id"] for row in rows] == [second, first], "newest first, by what happened first"
    began, ended = (
        datetime.datetime.fromisoformat(meta[key]) for key in ("started_at", "ended_at")
    )
    assert began.isoformat(timespec="seconds")[:16] == start[:16]
    assert began.isoformat()[-6:] == start[-6:]
    assert (ended - began).total_seconds() == pytest.approx(meta["duration_s"], abs=0.002)
    # People compare both with the clock on their wall.
    assert ended.isoformat()[:15].endswith(f"T{last_line[:4]}")
    assert shown.splitlines()[0].startswith(f"[{start[11:17]}")
    assert shown.splitlines()[-1].startswith(f"[{last_line}")


def test_a_clock_set_back_an_hour_moves_nothing_that_is_being_recorded(
    expected: list[dict[str, Any]],
) -> None:
    with running.place() as plain:
        at = Clock(plain.folder, "UTC")
        with (
            running.daemon(at, "--source", str(SAMPLE), "--source-speed", "4") as daemon,
            running.client(at) as client,
        ):
            first = at.ctl("record", "--name", "one").stdout.strip()
            running.wait_until(lambda: raw_lines(at, first))
            seen = client.tool("transcript", session=first)
            at.set_ahead(-3600)
            told = [at.status()["session"]]
            running.wait_until(
                lambda: client.tool("transcript", session=first, since=seen["next"])["lines"]
            )
            told.append(at.status()["session"])
            assert client.tool("transcript", session=first)["state"] == "live"
            assert client.tool("status")["live"] == {"id": first}
            assert [row["live"] for row in client.tool("sessions")] == [True]
            running.wait_until(lambda: state(at, first) == "done", 60)
            lines = raw_lines(at, first)
            second = at.ctl("record", "--name", "two").stdout.strip()
            assert client.tool("status")["live"] == {"id": second}
            at.ctl("stop", "--wait")
            at.set_ahead(0)
            others = []
            for _ in range(2):
                others.append(at.ctl("record", "--name", "one").stdout.strip())
                at.ctl("stop", "--wait")
            rows = client.tool("sessions")
            log = daemon.log.read_text(encoding="utf-8")
        metas = [at.meta(session) for session in (first, second, *others)]
    assert all(one["elapsed_s"] >= 0 and one["lag_ms"] >= 0 for one in told)
    assert told[1]["captured_ms"] > told[0]["captured_ms"]
    assert_same_talk(lines, expected, 0)
    assert len(lines) == len(expected)
    assert len({first, second, *others}) == 4
    assert all(meta["duration_s"] >= 0 and meta["ended_at"] >= meta["started_at"] for meta in metas)
    began = [datetime.datetime.fromisoformat(meta["started_at"]) for meta in metas]
    assert began[1] < began[0]
    assert [row["id"] for row in rows] == [*reversed(others), first, second]
    for trouble in ("error", "warning"):
        assert f" {trouble} " not in log
