"""The real `ambient mcp` as a process: its pipes, its signals, and a daemon that comes and goes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ambient_cli import link as link_module
from ambient_cli import shim as shim_module

from ambientd import wire
from tests import running

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
AMBIENT = str(running.BIN / "ambient")


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def call(name: str, id_: int = 1, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def run(at: running.Place, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [AMBIENT, "mcp"], input=data, env=at.environ, capture_output=True, timeout=20, check=False
    )


@pytest.fixture
def shim(at: running.Place) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [AMBIENT, "mcp"],
        env=at.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        yield process
        process.kill()


def ask(process: subprocess.Popen[bytes], message: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line(message))
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@pytest.mark.parametrize("with_daemon", [False, True])
def test_closed_input_gets_all_answers_and_exit_0(at: running.Place, with_daemon: bool) -> None:
    data = b"".join(line({**PING, "id": number}) for number in range(500))
    last_without_newline = data + json.dumps({**PING, "id": 500}).encode()
    if with_daemon:
        with running.daemon(at):
            done = run(at, last_without_newline)
        assert done.stderr == b""
    else:
        done = run(at, last_without_newline)
        assert b"reading the files" in done.stderr
    assert done.returncode == 0
    assert [json.loads(answer)["id"] for answer in done.stdout.splitlines()] == list(range(501))


def test_no_input_at_all_is_no_fault(at: running.Place) -> None:
    done = run(at, b"")
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_answers_do_not_depend_on_how_input_is_cut(
    shim: subprocess.Popen[bytes], step: int
) -> None:
    data = line(PING) + b"\r\n\n  \nnonsense\n" + line({**PING, "id": "zwei"})
    assert shim.stdin is not None
    for start in range(0, len(data), step):
        shim.stdin.write(data[start : start + step])
        shim.stdin.flush()
    shim.stdin.close()
    assert shim.stdout is not None
    ids = [json.loads(answer)["id"] for answer in shim.stdout]
    assert ids == [1, None, "zwei"]
    assert shim.wait(10) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_word_on_stdout(
    shim: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    ask(shim, PING)
    shim.send_signal(number)
    assert shim.wait(10) == -number
    assert shim.stdout is not None
    assert shim.stdout.read() == b""


def test_a_client_that_no_longer_reads_ends_it(at: running.Place) -> None:
    with running.daemon(at):
        process = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        ask(process, PING)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(10) == 0  # at once, not at the next answer
        assert process.stdin is not None
        process.stdin.close()


def test_a_client_that_gave_it_sockets_and_is_gone_ends_it(at: running.Place) -> None:
    # Node gives its children socket pairs, whose end is told apart from that of a pipe.
    ours, theirs = socket.socketpair()
    with running.daemon(at), theirs:
        process = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=theirs.fileno()
        )
        theirs.close()
        with ours, ours.makefile("rb") as answers:
            assert process.stdin is not None
            process.stdin.write(line(PING))
            process.stdin.flush()
            assert json.loads(answers.readline())["id"] == 1
        assert process.wait(10) == 0
        process.stdin.close()


def test_the_end_of_input_ends_it_even_if_the_daemon_hangs(at: running.Place) -> None:
    with running.daemon(at) as daemon:
        process = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        ask(process, PING)
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            out, _ = process.communicate(timeout=5)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert (out, process.returncode) == (b"", 0)


def test_its_parent_killed_with_sigkill_ends_it(at: running.Place) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([{AMBIENT!r}, 'mcp'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=at.environ, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        running.wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    except OSError:
        os.kill(pid, 0)
        return True
    return state != "Z"


def test_a_client_that_writes_ten_thousand_requests_before_it_reads_gets_every_answer(
    at: running.Place,
) -> None:
    with running.daemon(at):
        process = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(line({**PING, "id": number}) for number in range(10_000)))
        process.stdin.close()
        ids = [json.loads(answer)["id"] for answer in process.stdout]
        assert ids == list(range(10_000))
        assert process.wait(10) == 0
        process.stdout.close()


def memory_kb(process: subprocess.Popen[bytes], field: str) -> int:
    """Return a memory figure of a process; skips the test where none can be had."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc to read a process's memory")
    return int(status.read_text(encoding="ascii").split(f"{field}:")[1].split()[0])


def test_ten_thousand_requests_do_not_make_it_grow(
    at: running.Place, shim: subprocess.Popen[bytes]
) -> None:
    with running.daemon(at):
        running.wait_until(lambda: "result" in ask(shim, PING) and attached(at))
        before_kb = memory_kb(shim, "VmRSS")
        for number in range(10_000):
            ask(shim, {**PING, "id": number})
        assert memory_kb(shim, "VmRSS") < before_kb + 1000


def test_without_a_daemon_long_answers_nobody_reads_do_not_make_it_grow(
    at: running.Place, shim: subprocess.Popen[bytes]
) -> None:
    session = at.root / "talk"
    session.mkdir(parents=True)
    turn = {"track": "room", "start_ms": 0, "end_ms": 1, "text": "x" * 1000}
    (session / "raw.jsonl").write_text((json.dumps(turn) + "\n") * 2000, encoding="utf-8")
    ask(shim, PING)
    assert shim.stdin is not None
    assert shim.stdout is not None
    shim.stdin.write(b"".join(line(call("transcript", n, session="talk")) for n in range(100)))
    shim.stdin.flush()
    # Two hundred megabytes are asked for; it makes no more than it can hold, and then all of it.
    running.wait_until(lambda: memory_kb(shim, "VmRSS") > 15_000)
    for number in range(100):
        assert json.loads(shim.stdout.readline())["id"] == number
    assert memory_kb(shim, "VmHWM") < 80_000


def test_one_client_that_stalls_does_not_hold_up_another(at: running.Place) -> None:
    with running.daemon(at):
        stalled = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        other = subprocess.Popen(
            [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert stalled.stdin is not None
        # More answers than its pipe holds, and nobody reads them.
        stalled.stdin.write(line({**PING, "method": "tools/list"}) * 200)
        stalled.stdin.flush()
        for number in range(50):
            assert ask(other, call("status", number))["id"] == number
        for process in (other, stalled):
            process.kill()
            process.communicate()


def test_what_prints_inside_it_does_not_reach_the_client(at: running.Place) -> None:
    code = (
        "import ambientd.mcp as mcp\n"
        "from ambient_cli import shim\n"
        "real = mcp.handle\n"
        "def noisy(line, root, offered):\n"
        "    print('noise'); __import__('os').system('echo more noise')\n"
        "    return real(line, root, offered)\n"
        "mcp.handle = noisy\n"
        "raise SystemExit(shim.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=at.environ,
        input=line(PING) + line(call("status", 2)),
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert [json.loads(answer)["id"] for answer in done.stdout.splitlines()] == [1, 2]
    assert b"more noise" in done.stderr


def test_it_lives_through_a_restart_of_the_daemon(
    at: running.Place, shim: subprocess.Popen[bytes]
) -> None:
    assert ask(shim, call("status"))["result"]["isError"] is False
    for _ in range(2):
        with running.daemon(at):
            running.wait_until(lambda: "result" in ask(shim, PING) and attached(at))
            assert ask(shim, call("status"))["result"]["isError"] is False
        # The daemon is gone; the same pipes go on, from the files.
        assert json.loads(ask(shim, call("status"))["result"]["content"][0]["text"]) == {
            "live": None,
            "awaiting_transcript": 0,
            "sessions": 0,
        }


def attached(at: running.Place) -> bool:
    return bool(at.status()["readers"] == 1)


class StubDaemon:
    """Attaches clients, then keeps still: a daemon that dies when the test wants it to."""

    def __init__(self, at: running.Place, *, attach: bool = True, root: str = "") -> None:
        self.received: list[dict[str, Any]] = []
        self._attach = attach
        self._root = root or str(at.root)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = at.socket
        self._listener.bind(str(at.socket))
        self._listener.listen()
        self._links: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> StubDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def _serve(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:
            return  # died before anybody came
        self._links.append(link)
        splitter = wire.LineSplitter()
        while data := link.recv(65536):
            for got in splitter.feed(data):
                message = json.loads(got)
                if message["method"] == "ambient/attach" and self._attach:
                    result = {"version": "9.9.0", "root": self._root, "toolsets": ["sessions"]}
                    link.sendall(wire.encode(wire.result(message["id"], result)))
                else:
                    self.received.append(message)

    def die(self) -> None:
        self._path.unlink(missing_ok=True)
        for open_socket in (self._listener, *self._links):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for open_socket in (self._listener, *self._links):
            open_socket.close()


def test_what_was_unanswered_is_asked_again_only_where_that_is_safe(at: running.Place) -> None:
    daemon = StubDaemon(at)
    process = subprocess.Popen(
        [AMBIENT, "mcp"],
        env=at.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    requests = [
        PING,
        call("status", 2),
        {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 4, "method": "ambient/record"},
    ]
    process.stdin.write(b"".join(line(request) for request in requests))
    process.stdin.flush()
    running.wait_until(lambda: len(daemon.received) == 4)
    daemon.die()
    assert process.stdout is not None
    answers = {}
    for _ in range(4):
        answer = json.loads(process.stdout.readline())
        answers[answer["id"]] = answer
    assert answers[1]["result"] == {}
    assert answers[2]["result"]["isError"] is False
    assert len(answers[3]["result"]["tools"]) == 3
    assert answers[4]["error"] == {
        "code": -32603,
        "message": "the daemon restarted; whether this was done is not known",
    }
    _, said = process.communicate(timeout=10)
    assert b"restart the service" in said, "the stub is of another version"
    assert process.returncode == 0


def test_what_the_daemon_answered_before_it_died_is_delivered(at: running.Place) -> None:
    at.root.mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(at.socket))
    listener.listen()
    shim = subprocess.Popen(
        [AMBIENT, "mcp"], env=at.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shim.stdin is not None
    assert shim.stdout is not None
    with contextlib.closing(listener):
        link, _ = listener.accept()
        attach = json.loads(link.recv(65536))
        result = {"version": "9.9.0", "root": str(at.root), "toolsets": ["sessions"]}
        link.sendall(wire.encode(wire.result(attach["id"], result)))
        # More than the socket holds, so that the shim still has to send when the daemon goes.
        notification = {"jsonrpc": "2.0", "method": "notifications/x", "params": "x" * 900_000}
        shim.stdin.write(line({"jsonrpc": "2.0", "id": 4, "method": "ambient/record"}))
        shim.stdin.write(line(notification) * 4)
        shim.stdin.flush()
        link.recv(65536)
        link.sendall(wire.encode(wire.result(4, {"done": True})))
        at.socket.unlink()
        link.close()
    assert json.loads(shim.stdout.readline()) == {
        "jsonrpc": "2.0",
        "id": 4,
        "result": {"done": True},
    }
    shim.communicate(timeout=10)
    assert shim.returncode == 0


def test_a_daemon_that_takes_nothing_is_not_waited_for_at_the_end(
    at: running.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.root.mkdir()
    monkeypatch.setenv("AMBIENT_SOCKET", str(at.socket))
    monkeypatch.setattr(shim_module, "ANSWER_DEADLINE_S", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(at.socket))
        listener.listen()
        stdin, to_shim = os.pipe()
        monkeypatch.setenv("AMBIENT_HOME", str(at.root))
        finder = link_module.Finder("ambient mcp")
        relay = shim_module.Shim(stdin, os.open(os.devnull, os.O_WRONLY), finder, ("sessions",))
        thread = threading.Thread(target=relay.run, daemon=True)
        thread.start()
        link, _ = listener.accept()
        attach = json.loads(link.recv(65536))
        result = {"version": "9.9.0", "root": str(at.root), "toolsets": ["sessions"]}
        link.sendall(wire.encode(wire.result(attach["id"], result)))
        # Notifications only: no answer is owed, so none can be late.
        notification = {"jsonrpc": "2.0", "method": "notifications/x", "params": "x" * 900_000}
        with open(to_shim, "wb") as client:
            client.write(line(notification) * 2)
        listener.close()
        thread.join(10)
        link.close()
        assert not thread.is_alive()
    os.close(stdin)


def test_a_daemon_that_serves_another_root_is_left_alone(at: running.Place) -> None:
    at.root.mkdir()
    with StubDaemon(at, root="/somewhere/else"):
        done = run(at, line(call("status")))
    assert json.loads(done.stdout)["result"]["isError"] is False
    assert b"/somewhere/else" in done.stderr


def test_where_nobody_named_a_root_it_is_the_daemons(at: running.Place, tmp_path: Path) -> None:
    with running.daemon(at, "--root", str(tmp_path / "elsewhere")):
        environ = {key: value for key, value in at.environ.items() if key != "AMBIENT_HOME"}
        (tmp_path / "elsewhere" / "talk").mkdir()
        (tmp_path / "elsewhere" / "talk" / "session.json").write_text("{}", encoding="utf-8")
        listed = subprocess.run(
            [AMBIENT, "sessions", "--json"], env=environ, capture_output=True, check=True
        )
        assert [row["id"] for row in json.loads(listed.stdout)] == ["talk"]
        assert listed.stderr == b""
        at.root.mkdir()
        named = subprocess.run(
            [AMBIENT, "sessions", "--json"], env=at.environ, capture_output=True, check=True
        )
        assert json.loads(named.stdout) == []
        assert b"AMBIENT_HOME" in named.stderr


def test_a_daemon_that_does_not_answer_is_not_waited_for(at: running.Place) -> None:
    with StubDaemon(at, attach=False):
        done = run(at, line(PING) + line(call("status", 2)))
    assert [json.loads(answer)["id"] for answer in done.stdout.splitlines()] == [1, 2]
    assert b"does not answer" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_no_harm(at: running.Place, closed: str) -> None:
    with running.daemon(at):
        done = subprocess.run(
            ["sh", "-c", f"exec {AMBIENT} mcp {closed}"],
            env=at.environ,
            input=line(PING),
            capture_output=True,
            timeout=20,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b'"result":{}' in done.stdout) == (closed == "2>&-")


def test_bad_settings_end_it_with_one_line(at: running.Place) -> None:
    (at.folder / "config.toml").write_text("rooot = 1\n", encoding="utf-8")
    environ = {key: value for key, value in at.environ.items() if key != "AMBIENT_HOME"}
    done = subprocess.run(
        [AMBIENT, "mcp"], env=environ, input=b"", capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert b"config.toml, line 1: unknown key rooot; did you mean root?" in done.stderr
    assert done.stdout == b""


def test_settings_that_are_named_and_not_there_are_an_error_as_for_the_daemon(
    at: running.Place,
) -> None:
    environ = {key: value for key, value in at.environ.items() if key != "AMBIENT_HOME"}
    environ["AMBIENT_CONFIG"] = str(at.folder / "missing.toml")
    done = subprocess.run(
        [AMBIENT, "mcp"], env=environ, input=b"", capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert b"missing.toml, named by AMBIENT_CONFIG, is not there" in done.stderr


def test_bad_settings_do_not_matter_while_a_daemon_answers(at: running.Place) -> None:
    environ = {key: value for key, value in at.environ.items() if key != "AMBIENT_HOME"}
    with running.daemon(at):
        (at.folder / "config.toml").write_text("rooot = 1\n", encoding="utf-8")
        done = subprocess.run(
            [AMBIENT, "mcp"],
            env=environ,
            input=line(call("status")),
            capture_output=True,
            check=True,
        )
    assert json.loads(done.stdout)["result"]["isError"] is False
    assert b"rooot" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("nonsense",), 2),
        (("mcp", "--nonsense"), 2),
        (("--help",), 0),
        (("--version",), 0),
    ],
)
def test_usage_errors_exit_2_and_help_exits_0(
    at: running.Place, arguments: tuple[str, ...], code: int
) -> None:
    done = subprocess.run(
        [AMBIENT, *arguments], env=at.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert ("usage" in done.stderr) == (code == 2)
