"""Many clients at once, and shims that are started and killed: it costs others nothing, and the
daemon is afterwards what it was before.

`AMBIENT_FAULTS=long` in the environment starts 1,000 shims instead of 100.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import soundfile

from ambientd import dial, wire
from ambientd.rpc.service import MAX_DISK_THREADS
from tests import running
from tests.bench.flood import FLOOD, call
from tests.bench.live import resident_mb
from tests.faults.test_crashes import raw_lines

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
CLIENTS = 100
EVERY_S = 0.1
SHIMS = 1000 if os.environ.get("AMBIENT_FAULTS") == "long" else 100
SHIMS_AT_ONCE = 8
LINES = 300
ANSWER_S = 60.0

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


@contextlib.contextmanager
def connection(at: running.Place) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(str(at.socket))
        yield link


def follow(at: running.Place, session: str, number: int, ended: threading.Event) -> list[Any]:
    """Follow a session as a client does, until it is done; return the lines."""
    lines: list[Any] = []
    state = ""
    with connection(at) as link:
        while state != "done" and not ended.is_set():
            arguments = {"session": session, "since": len(lines)}
            params = {"name": "transcript", "arguments": arguments}
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            answer = dial.exchange(link, wire.encode(request), ANSWER_S)
            assert answer["id"] == number
            assert answer["result"]["isError"] is False
            value = json.loads(answer["result"]["content"][0]["text"])
            lines += value["lines"]
            assert value["next"] == len(lines)
            state = value["state"]
            ended.wait(EVERY_S)
    return lines


def test_a_hundred_clients_and_a_flood_cost_a_recording_neither_a_frame_nor_a_turn(
    at: running.Place,
) -> None:
    expected = json.loads(SAMPLE.with_suffix(".json").read_text(encoding="utf-8"))["lines"]
    ended = threading.Event()
    with (
        running.daemon(at, "--source", str(SAMPLE), "--source-speed", "2"),
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        session = at.ctl("record").stdout.strip()
        arguments = [str(at.socket), "600", "1", "1", repr(call("transcript", session=session))]
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, *arguments])
        try:
            clients = [pool.submit(follow, at, session, one, ended) for one in range(CLIENTS)]
            lost = 0
            while (told := at.status()["session"]) is not None:
                lost = max(lost, told["tracks"]["room"]["lost_frames"])
            read = [client.result(240) for client in clients]
        finally:
            ended.set()
            flood.kill()
            flood.wait()
    assert lost == 0
    recorded, _ = soundfile.read(at.root / session / "audio" / "room.wav", dtype="int16")
    said, _ = soundfile.read(SAMPLE, dtype="int16")
    assert (recorded == said).all()
    keys = ("track", "start_ms", "end_ms", "text")
    lines = [{key: line[key] for key in keys} for line in raw_lines(at, session)]
    assert len(lines) == len(expected)
    for seen in read:
        assert [{key: line[key] for key in keys} for line in seen] == lines


class Holds(NamedTuple):
    """What a daemon holds of the system."""

    descriptors: list[str]
    threads: int
    children: list[str]


def holds(pid: int) -> Holds:
    folder = Path(f"/proc/{pid}")
    links = [os.readlink(one) for one in sorted((folder / "fd").iterdir()) if one.is_symlink()]
    return Holds(
        sorted(link.split(":")[0] for link in links),
        len(list((folder / "task").iterdir())),
        (folder / "task" / str(pid) / "children").read_text(encoding="ascii").split(),
    )


def shims(at: running.Place) -> list[int]:
    """Return the pids of the shims of a place."""
    mark = f"AMBIENT_SOCKET={at.socket}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().split(b"\0")
                environ = (folder / "environ").read_bytes().split(b"\0")
                if b"mcp" in command and mark in environ:
                    found.append(int(folder.name))
    return found


START = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "0"},
}
INITIALIZE = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": START})

Shim = subprocess.Popen[bytes]


def close_stdin(shim: Shim) -> None:
    assert shim.stdin is not None
    shim.stdin.close()


def close_stdout(shim: Shim) -> None:
    assert shim.stdout is not None
    shim.stdout.close()


ENDS: list[Callable[[Shim], None]] = [
    close_stdin,
    close_stdout,
    lambda shim: shim.send_signal(signal.SIGTERM),
    lambda shim: shim.send_signal(signal.SIGINT),
    lambda shim: shim.kill(),
]
SENT = {
    "nothing": b"",
    "half a line": INITIALIZE[:40],
    "a handshake": INITIALIZE,
    "a request under way": INITIALIZE + call("transcript", session="long"),
    "many requests": INITIALIZE + call("transcript", session="long") * 20,
    "nonsense": b"\xff\xfe{\n[1]\n" + INITIALIZE,
}


def run_and_end(at: running.Place, chance: random.Random) -> None:
    """Start a shim, send it something, perhaps wait for an answer, and end it in some way."""
    shim = subprocess.Popen(
        [str(running.BIN / "ambient"), "mcp"],
        env=at.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert shim.stdin is not None
    assert shim.stdout is not None
    with shim.stdin, shim.stdout:
        sent = SENT[chance.choice(list(SENT))]
        with contextlib.suppress(BrokenPipeError):
            shim.stdin.write(sent)
            shim.stdin.flush()
            if sent.startswith(INITIALIZE) and chance.random() < 0.7:
                assert json.loads(shim.stdout.readline())["id"] == 1
            chance.choice(ENDS)(shim)
        if not shim.stdout.closed:
            shim.stdout.read()
        shim.wait(30)


def test_shims_that_are_killed_at_any_moment_leave_nothing_in_the_daemon_and_none_is_left(
    at: running.Place,
) -> None:
    long = at.root / "long"
    long.mkdir(mode=0o700, parents=True)
    at.root.chmod(0o700)
    (long / "session.json").write_text("{}", encoding="utf-8")
    line = json.dumps({"track": "room", "start_ms": 0, "end_ms": 900, "text": "words " * 20})
    (long / "raw.jsonl").write_text(f"{line}\n" * LINES, encoding="utf-8")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chances = [random.Random(seed + number) for number in range(SHIMS)]
    with running.daemon(at) as daemon, ThreadPoolExecutor(SHIMS_AT_ONCE) as pool:
        pid = daemon.process.pid
        # Whatever is loaded or kept at the first use is loaded and kept now.
        list(pool.map(lambda chance: run_and_end(at, chance), chances[: SHIMS // 4]))
        running.wait_until(lambda: at.status()["readers"] == 0)
        before, before_mb = holds(pid), resident_mb(pid)
        list(pool.map(lambda chance: run_and_end(at, chance), chances[SHIMS // 4 :]))
        running.wait_until(lambda: at.status()["readers"] == 0)
        running.wait_until(lambda: holds(pid).descriptors == before.descriptors)
        after, after_mb = holds(pid), resident_mb(pid)
        assert not shims(at)
        with running.client(at) as client:
            assert shims(at), "a shim that runs is found"
            assert client.tool("transcript", session="long")["next"] == LINES
        log = daemon.log.read_text(encoding="utf-8")
    assert after.descriptors == before.descriptors
    assert after.children == before.children == []
    # Those that read the disk are started as they are needed, and kept.
    assert after.threads < before.threads + MAX_DISK_THREADS
    assert after_mb < before_mb + 6
    assert "request.failed" not in log
    assert "connection.failed" not in log
