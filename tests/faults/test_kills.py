"""SIGKILL at random instants and at every write: nothing published is lost, doubled or changed.

The short form takes a part of the kill points, another one each day. The long form, `make faults`,
takes them all.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests import running
from tests.faults import invariants
from tests.faults.test_crashes import SAMPLE, fingerprint, raw_lines

LONG = os.environ.get("AMBIENT_FAULTS") == "long"
KILLS = 200 if LONG else 20
SEED = int(os.environ.get("AMBIENT_SEED", time.time() // (24 * 3600)))
"""A day has the same kill points everywhere, so that a failure can be had again."""

SHORT_BOUNDARIES = 6
"""Of each role in the short form; each costs about four seconds."""

SHORT_SAMPLE_S = 4
HOOK = Path(__file__).parent / "hooks"
MODULES = {"capture": running.CAPTURE, "worker": running.WORKER}

pytestmark = pytest.mark.timeout(2 * 3600 if LONG else 300)


@pytest.fixture(scope="module")
def reference() -> list[dict[str, Any]]:
    """The lines of the whole sample, recorded in peace."""
    with running.place() as at, running.daemon(at, "--source", str(SAMPLE), "--source-speed", "4"):
        session = at.ctl("record").stdout.strip()
        invariants.wait_until_done(at)
        return raw_lines(at, session)


@pytest.fixture(scope="module")
def short_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples, rate_hz = soundfile.read(SAMPLE, dtype="int16")
    path = tmp_path_factory.mktemp("short") / "short.wav"
    soundfile.write(path, samples[: SHORT_SAMPLE_S * rate_hz], rate_hz)
    return path


def stranger(place: running.Place) -> Path:
    """Leave a folder that is not ours and looks as if it was in need of help."""
    folder = place.root / "not-ours"
    (folder / "audio").mkdir(parents=True)
    place.root.chmod(0o700)
    (folder / "session.json").write_text('{"id":"not-ours","recorder":"somebody/1"}')
    (folder / "audio" / "room.native.wav").write_bytes(b"RIFF nothing we should mend")
    os.utime(folder / "audio" / "room.native.wav", (1, 1))
    return folder


class Recorder:
    """A daemon that is started again when it was killed, and what readers have seen."""

    def __init__(self, place: running.Place) -> None:
        self.place = place
        self.seen: dict[str, list[dict[str, Any]]] = {}
        self.captured_ms: dict[str, int] = {}
        self.client = running.Client(place.environ)
        self.client.initialize()
        self.start()

    def start(self) -> None:
        self.daemon = running.Daemon(
            self.place,
            "--source",
            str(SAMPLE),
            "--source-speed",
            "4",
            log=self.place.folder / "log",
        )
        self.daemon.wait_until_ready()

    def look(self) -> dict[str, Any] | None:
        """Read as a client does, and return the open session; one is begun if there is none."""
        status = self.place.status()
        if status["session"] is None:
            self.place.ctl("record", check=False)
            status = self.place.status()
        session: dict[str, Any] | None = status["session"]
        if session is not None:
            self.captured_ms[session["id"]] = session["captured_ms"]
            self.seen.setdefault(session["id"], [])
        for name, lines in self.seen.items():
            answer = self.client.tool("transcript", session=name, since=len(lines))
            assert answer["next"] >= len(lines), "the cursor went back"
            self.seen[name] = lines + answer["lines"]
        return session

    def kill(self, victim: str) -> None:
        if victim == "daemon":
            self.daemon.kill()
            self.start()
        elif victim == "shim":
            self.client.process.kill()
            self.client.close()
            self.client = running.Client(self.place.environ)
            self.client.initialize()
        else:
            for pid in running.children(self.daemon.process.pid, MODULES[victim]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        self.place.ctl("stop", check=False)


def test_any_process_may_be_killed_at_any_instant(
    at: running.Place, reference: list[dict[str, Any]]
) -> None:
    dice = random.Random(SEED)
    folder = stranger(at)
    before = fingerprint(folder)
    recorder = Recorder(at)
    kills: dict[str, int] = {}
    try:
        for number in range(KILLS):
            recorder.look()
            time.sleep(dice.uniform(0.0, 1.5))
            victim = dice.choice(["daemon", "capture", "capture", "worker", "worker", "shim"])
            recorder.look()
            recorder.kill(victim)
            kills[victim] = kills.get(victim, 0) + 1
            print(f"kill {number + 1} of {KILLS}, seed {SEED}: {victim}")
        recorder.look()
        recorder.end()
        done = invariants.wait_until_done(at)
    finally:
        recorder.client.close()
        recorder.daemon.terminate()
    for session in done:
        invariants.check(
            at,
            session,
            seen=recorder.seen.get(session, []),
            captured_ms=recorder.captured_ms.get(session, 0),
            reference=reference,
        )
    assert set(recorder.seen) <= set(done), "a session is gone"
    assert fingerprint(folder) == before
    print(f"survived {kills} in {len(done)} sessions")


class Doomed(running.Place):
    """A place in which a process dies at a planned call."""

    def __init__(self, folder: Path) -> None:
        self.plan, self.log = folder / "plan", folder / "calls"
        hooked = {
            "PYTHONPATH": str(HOOK),
            "KILL_BELOW": str(folder / "sessions"),
            "KILL_PLAN": str(self.plan),
            "KILL_LOG": str(self.log),
        }
        super().__init__(folder, hooked)

    def calls(self, role: str) -> int:
        lines = self.log.read_text(encoding="ascii").splitlines()
        return sum(line.split()[0] == role for line in lines)

    def record(self, source: Path) -> list[str]:
        """Record, survive whatever the plan says, and return the ids of what is done in the end."""
        arguments = ("--source", str(source), "--source-speed", "8")
        log = self.folder / "ambientd.log"
        running_one = running.Daemon(self, *arguments, log=log)
        try:
            with contextlib.suppress(RuntimeError):
                running_one.wait_until_ready()
                self.ctl("record", check=False)
            running.wait_until(lambda: self._is_over(running_one), 60)
        finally:
            running_one.kill() if self._died(running_one) else running_one.terminate()
        self.plan.unlink(missing_ok=True)
        with running.daemon(self):
            return invariants.wait_until_done(self)

    def _died(self, daemon: running.Daemon) -> bool:
        return daemon.process.poll() is not None

    def _is_over(self, daemon: running.Daemon) -> bool:
        if self._died(daemon):
            return True
        status = self.ctl("status", "--json", check=False)
        if status.returncode:
            return False
        answer = json.loads(status.stdout)
        return (
            not answer["listening"]
            and not answer["finishing"]
            and not answer["recovering"]["waiting"]
        )


@contextlib.contextmanager
def doomed() -> Iterator[Doomed]:
    with running.place() as at:
        yield Doomed(at.folder)


def some(numbers: range) -> list[int]:
    """Return all of them in the long form, else a few that differ from day to day."""
    if LONG or len(numbers) <= SHORT_BOUNDARIES:
        return list(numbers)
    return sorted(random.Random(SEED).sample(numbers, SHORT_BOUNDARIES))


def moments(number: int) -> list[str]:
    """Return when to die at a call: each of them in the long form."""
    every = ["before", "middle", "after"]
    return every if LONG else [every[(number + SEED) % 3]]


@pytest.mark.parametrize("role", ["daemon", "capture"])
def test_a_process_may_die_at_each_of_its_writes(
    role: str, reference: list[dict[str, Any]], short_sample: Path
) -> None:
    with doomed() as at:
        (session,) = at.record(short_sample)
        calls = at.calls(role)
    assert calls > 10
    short = [turn for turn in reference if turn["end_ms"] <= (SHORT_SAMPLE_S - 1) * 1000]
    tried = 0
    for number in some(range(1, calls + 1)):
        for when in moments(number):
            with doomed() as at:
                folder = stranger(at)
                before = fingerprint(folder)
                at.plan.write_text(f"{role} {number} {when}", encoding="ascii")
                done = at.record(short_sample)
                print(f"{role} died {when} call {number} of {calls}: {len(done)} done")
                for session in done:
                    invariants.check(at, session, seen=[], captured_ms=0, reference=short)
                assert fingerprint(folder) == before
                tried += 1
    print(f"{tried} deaths of {role}, seed {SEED}")


@pytest.mark.parametrize("role", ["daemon", "respool"])
def test_recovery_may_die_at_each_of_its_writes(
    role: str, reference: list[dict[str, Any]], tmp_path: Path
) -> None:
    crashed = tmp_path / "crashed"
    with running.place() as at:
        daemon = running.Daemon(at, "--source", str(SAMPLE), "--source-speed", "4")
        daemon.wait_until_ready()
        session = at.ctl("record").stdout.strip()
        running.wait_until(lambda: len(raw_lines(at, session)) >= 2)
        captured_ms = at.status()["session"]["captured_ms"]
        daemon.kill()
        seen = raw_lines(at, session)
        shutil.copytree(at.root, crashed)
    with doomed() as at:
        shutil.copytree(crashed, at.root)
        with running.daemon(at):
            invariants.wait_until_done(at)
        calls = at.calls(role)
    assert calls >= 2
    for number in some(range(1, calls + 1)):
        for when in moments(number):
            with doomed() as at:
                shutil.copytree(crashed, at.root)
                at.plan.write_text(f"{role} {number} {when}", encoding="ascii")
                daemon = running.Daemon(at)
                with contextlib.suppress(RuntimeError):
                    daemon.wait_until_ready()
                running.wait_until(lambda: not at.plan.exists(), 60)
                daemon.terminate()
                with running.daemon(at):
                    done = invariants.wait_until_done(at)
                print(f"recovery: {role} died {when} call {number} of {calls}")
                assert done == [session]
                invariants.check(
                    at, session, seen=seen, captured_ms=captured_ms, reference=reference
                )
