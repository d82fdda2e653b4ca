"""A recording at real time while a hundred clients poll it ten times a second and one more floods.

Each client asks over a connection of its own for the lines after those it has. Delay: from the
moment a poll is sent until its whole answer is read; a poll is sent when it is due or, if that is
later, when the one before was answered. The same talk is recorded first while nobody polls, then
while the hundred do, then with the flood.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import numpy
import soundfile

from ambientd import dial, wire
from tests import running
from tests.bench import sets
from tests.bench.flood import FLOOD, call
from tests.bench.live import usage_of
from tests.bench.percentiles import percentile

CLIENTS = 100
EVERY_S = 0.1
TALKS = 2
"""How often the sample is said."""

LOOK_EVERY_S = 1.0
LATEST_S = 60.0


class Poller:
    """One client: its connection, and what it has read so far."""

    def __init__(self, path: str, session: str, due_s: float) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.connect(path)
        self.due_s = due_s
        self.since = 0
        self._session = session
        self._sent_s = 0.0
        self._answer = b""

    def ask(self) -> None:
        """Send a poll."""
        self._sent_s = time.perf_counter()
        self.link.sendall(call("transcript", session=self._session, since=self.since))

    def take(self) -> float | None:
        """Read; return the delay in milliseconds if the answer is complete."""
        self._answer += self.link.recv(1 << 16)
        if not self._answer.endswith(b"\n"):
            return None
        delay_ms = (time.perf_counter() - self._sent_s) * 1000
        answer = json.loads(self._answer)["result"]
        if answer["isError"]:
            raise RuntimeError(answer["content"][0]["text"])
        self.since = json.loads(answer["content"][0]["text"])["next"]
        self._answer = b""
        return delay_ms


def run(clients: int = CLIENTS) -> list[dict[str, Any]]:
    """Return a row for the talk alone, one with the clients, and one with the flood."""
    samples, _ = sets.join(sets.load("sample") * TALKS)
    return [
        {"load": name, **_measure(samples, count, floods=floods)}
        for name, count, floods in (
            ("nobody", 0, False),
            (f"{clients} clients", clients, False),
            (f"{clients} clients and a flood", clients, True),
        )
    ]


def _measure(samples: numpy.ndarray, count: int, *, floods: bool) -> dict[str, Any]:
    seconds = len(samples) / sets.RATE_HZ
    with running.place() as at:
        talk = at.folder / "talk.wav"
        soundfile.write(talk, samples, sets.RATE_HZ)
        with running.daemon(at, "--source", str(talk)) as daemon:
            session = at.ctl("record").stdout.strip()
            flood = None
            if floods:
                line = call("transcript", session=session)
                arguments = [str(at.socket), str(seconds - 3), "1", "1", repr(line)]
                flood = subprocess.Popen([sys.executable, "-c", FLOOD, *arguments])
            before = usage_of(daemon.process.pid)
            started_s = time.monotonic()
            delays_ms, lags_ms = _poll(at, session, count, seconds - 3)
            polled_s = time.monotonic() - started_s
            after = usage_of(daemon.process.pid)
            told = at.track()
            if flood is not None:
                flood.wait(30)
            raw = at.root / session / "transcript.md"
            running.wait_until(raw.exists, LATEST_S)
        lines = (at.root / session / "raw.jsonl").read_text(encoding="utf-8").splitlines()
        frames = soundfile.info(at.root / session / "audio" / "room.wav").frames
    return {
        "polls": len(delays_ms),
        **_percentiles(delays_ms),
        "lost_frames": told["lost_frames"] + len(samples) - frames,
        "max_lag_ms": max(lags_ms),
        "turns": len(lines),
        **{
            f"{name}_cpu_per_s": round((after[name]["cpu_s"] - before[name]["cpu_s"]) / polled_s, 3)
            for name in before
            if name in after
        },
    }


def _percentiles(delays_ms: list[float]) -> dict[str, Any]:
    if not delays_ms:
        return {}
    return {
        f"{name}_ms": round(percentile(delays_ms, share), 1)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def _poll(
    at: running.Place, session: str, count: int, seconds: float
) -> tuple[list[float], list[int]]:
    """Poll for so long; return each delay, and the lag as it was told once a second."""
    lags_ms: list[int] = []
    ended = threading.Event()
    looking = threading.Thread(target=_note_lags, args=(at, lags_ms, ended))
    looking.start()
    try:
        return _poll_until(time.monotonic() + seconds, at, session, count), lags_ms
    finally:
        ended.set()
        looking.join()


def _note_lags(at: running.Place, lags_ms: list[int], ended: threading.Event) -> None:
    line = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "ambient/status"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(str(at.socket))
        while not ended.wait(LOOK_EVERY_S):
            lags_ms.append(dial.exchange(link, line, 10.0)["result"]["session"]["lag_ms"])


def _poll_until(end_s: float, at: running.Place, session: str, count: int) -> list[float]:
    now_s = time.monotonic()
    pollers = [
        Poller(str(at.socket), session, now_s + EVERY_S * number / count) for number in range(count)
    ]
    waiting = [(one.due_s, number) for number, one in enumerate(pollers)]
    heapq.heapify(waiting)
    delays_ms = []
    with selectors.DefaultSelector() as ready:
        for number, one in enumerate(pollers):
            ready.register(one.link, selectors.EVENT_READ, number)
        while (now_s := time.monotonic()) < end_s:
            while waiting and waiting[0][0] <= now_s:
                pollers[heapq.heappop(waiting)[1]].ask()
            next_s = min(waiting[0][0], end_s) if waiting else end_s
            for key, _ in ready.select(max(0.0, next_s - time.monotonic())):
                one = pollers[key.data]
                delay_ms = one.take()
                if delay_ms is not None:
                    delays_ms.append(delay_ms)
                    one.due_s = max(one.due_s + EVERY_S, time.monotonic())
                    heapq.heappush(waiting, (one.due_s, key.data))
    for one in pollers:
        one.link.close()
    return delays_ms
