"""The daemon as a process: how it starts, refuses to start, answers, and stops."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ambientd import wire
from ambientd.rpc import listener
from ambientd.speech import models
from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


@pytest.fixture
def sampled(at: running.Place) -> Iterator[running.Place]:
    """A place with a daemon whose microphone is the sample."""
    with running.daemon(at, "--source", str(SAMPLE)):
        yield at


def start(at: running.Place, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a daemon that is expected to end by itself."""
    return subprocess.run(
        [str(running.BIN / "ambientd"), *arguments],
        env={**at.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ambientd: ")
    assert "Traceback" not in done.stderr
    for text in says:
        assert text in last


class Link:
    """A connection to the daemon's socket."""

    def __init__(self, at: running.Place) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(at.socket))
        self.socket.settimeout(20)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def ask(self, method: str, params: Any = ..., id_: int = 1) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": id_, "method": method}
        if params is not ...:
            message["params"] = params
        self.socket.sendall(wire.encode(message))
        return self.read()

    def read(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._file.readline())
        return answer


def test_it_starts_deaf_private_and_without_the_heavy_libraries(at: running.Place) -> None:
    with running.daemon(at) as daemon:
        assert at.status()["listening"] is False
        maps = Path(f"/proc/{daemon.process.pid}/maps")
        if maps.exists():
            loaded = maps.read_text(encoding="utf-8")
            for library in ("numpy", "portaudio", "onnxruntime", "ctranslate2"):
                assert library not in loaded
            limits = Path(f"/proc/{daemon.process.pid}/limits").read_text(encoding="utf-8")
            assert "Max core file size        0                    0" in limits
        for path, mode in ((at.root, 0o700), (at.socket, 0o600), (at.socket.parent, 0o700)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
    assert not at.socket.exists()


def test_a_second_daemon_on_the_same_root_or_socket_is_refused(
    at: running.Place, tmp_path: Path
) -> None:
    with running.daemon(at) as first:
        same_root = start(at, AMBIENT_SOCKET=str(at.folder / "other.sock"))
        assert_one_line(same_root, f"pid {first.process.pid}", str(at.root))
        same_socket = start(at, "--root", str(tmp_path / "other"))
        assert_one_line(same_socket, "another ambientd answers", str(at.socket))
        assert at.status()["pid"] == first.process.pid


def test_of_daemons_that_start_at_once_on_one_socket_one_gets_it(
    at: running.Place, tmp_path: Path
) -> None:
    first = running.Daemon(at)
    first.wait_until_ready()
    first.kill()  # its socket is left over, and each of the others wants to remove it
    racing = [running.Daemon(at, "--root", str(tmp_path / str(number))) for number in range(4)]
    try:
        running.wait_until(lambda: [one.process.poll() for one in racing].count(None) == 1)
        (winner,) = [one for one in racing if one.process.poll() is None]
        winner.wait_until_ready()
        assert at.status()["pid"] == winner.process.pid
        for one in racing:
            assert one is winner or one.process.returncode == 1
    finally:
        for one in racing:
            one.terminate()
    assert not at.socket.exists()


def test_a_socket_that_another_daemon_is_about_to_bind_is_left_to_it(at: running.Place) -> None:
    with open(f"{at.socket}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_one_line(start(at), "about to listen", str(at.socket))
    with running.daemon(at):
        pass


def test_a_socket_left_by_a_killed_daemon_is_taken_over(at: running.Place) -> None:
    first = running.Daemon(at)
    first.wait_until_ready()
    first.kill()
    assert at.socket.exists()
    with running.daemon(at):
        assert at.status()["pid"] != first.process.pid


def test_a_file_in_the_sockets_place_is_not_removed(at: running.Place) -> None:
    at.socket.write_text("precious", encoding="utf-8")
    assert_one_line(start(at), "no socket of yours")
    assert at.socket.read_text(encoding="utf-8") == "precious"


def test_a_socket_path_that_is_too_long_is_refused(at: running.Place) -> None:
    assert_one_line(
        start(at, AMBIENT_SOCKET=str(at.folder / ("x" * 120))), "too long", "AMBIENT_SOCKET"
    )


def test_a_root_that_cannot_be_used_is_refused(at: running.Place) -> None:
    at.root.write_text("a file", encoding="utf-8")
    assert_one_line(start(at), str(at.root))
    at.root.unlink()
    at.root.mkdir(mode=0o777)
    at.root.chmod(0o777)
    assert_one_line(start(at), "others can write", "chmod")
    at.root.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(at.root, 12345, -1)
        assert_one_line(start(at), "belongs to user 12345")


def test_bad_settings_and_usage_stop_it_before_anything_is_made(at: running.Place) -> None:
    (at.folder / "config.toml").write_text("[speech]\nthreads = 'many'\n", encoding="utf-8")
    assert_one_line(start(at), "config.toml, line 2", "speech.threads")
    assert start(at, "--nonsense").returncode == 2
    assert start(at, "--source-speed", "0").returncode == 2
    (at.folder / "config.toml").write_text("", encoding="utf-8")
    assert start(at, "--speech-threads", "99").returncode == 2
    assert start(at, "--source-speed", "max").returncode == 2
    assert_one_line(start(at, "--source", "/no/such.wav"), "/no/such.wav")
    assert not at.root.exists()
    assert not at.socket.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_at_any_moment(at: running.Place, number: signal.Signals) -> None:
    daemon = running.Daemon(at)
    daemon.wait_until_ready()
    daemon.process.send_signal(number)
    assert daemon.process.wait(20) == 0
    log = daemon.log.read_text(encoding="utf-8")
    assert "daemon.stopped" in log
    assert all(
        line.split()[1] in {"debug", "info", "warning", "error"} for line in log.splitlines()
    )


def test_without_a_daemon_ctl_exits_3_and_says_how_to_start_one(at: running.Place) -> None:
    for verb in ("status", "record", "stop", "devices"):
        done = at.ctl(verb, check=False)
        assert done.returncode == 3
        assert "ambientd" in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("sing",),
        ("record", "--nonsense"),
        ("stop", "now"),
        ("record", "--seconds", "0"),
        ("record", "--seconds", "nan"),
        ("record", "--seconds", "inf"),
    ],
)
def test_ctl_usage_errors_exit_2(at: running.Place, arguments: tuple[str, ...]) -> None:
    done = at.ctl(*arguments, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_record_and_stop_refuse_with_4_and_the_reason(sampled: running.Place) -> None:
    nothing = sampled.ctl("stop", check=False)
    assert (nothing.returncode, nothing.stdout) == (4, "")
    assert "nothing is being recorded" in nothing.stderr
    session = sampled.ctl("record").stdout.strip()
    again = sampled.ctl("record", check=False)
    assert again.returncode == 4
    assert session in again.stderr
    stopped = json.loads(sampled.ctl("stop", "--wait", "--json").stdout)
    assert stopped == {"id": session, "done": True, "problem": ""}
    assert (sampled.root / session / "transcript.md").exists()


def test_a_stop_that_waits_after_one_that_did_not_waits_for_the_text(
    sampled: running.Place,
) -> None:
    session = sampled.ctl("record").stdout.strip()
    running.wait_until(lambda: sampled.status()["session"]["captured_ms"] > 3000)
    assert sampled.ctl("stop").stdout.strip() == session
    assert session in sampled.status()["why"]
    # Whether the text was complete by then or not, afterwards it is.
    assert sampled.ctl("stop", "--wait", check=False).returncode in (0, 4)
    assert (sampled.root / session / "transcript.md").exists()


def test_sessions_of_the_same_minute_get_numbers(sampled: running.Place) -> None:
    ids = []
    for _ in range(3):
        ids.append(
            sampled.ctl("record", "--no-transcribe", "--name", "  A/b ../ ü  ").stdout.strip()
        )
        sampled.ctl("stop")
    assert len(set(ids)) == 3
    assert all(one.split("-", 4)[4].startswith("a-b-u") for one in ids)
    assert sorted(path.name for path in sampled.root.iterdir() if path.is_dir()) == sorted(ids)


def test_without_transcription_the_session_stays_pending(sampled: running.Place) -> None:
    session = sampled.ctl("record", "--no-transcribe", "--seconds", "0.3").stdout.strip()
    running.wait_until(lambda: not sampled.status()["listening"])
    assert "0.3 s were asked for" in sampled.status()["why"]
    with running.client(sampled) as client:
        assert client.tool("transcript", session=session)["state"] == "pending"
        assert client.tool("status")["awaiting_transcript"] == 1
    assert [path.name for path in (sampled.root / session / "audio").iterdir()] == ["room.wav"]


@pytest.mark.parametrize(
    "params",
    [
        {"name": 5},
        {"name": ""},
        {"name": "x" * 201},
        {"seconds": "5"},
        {"seconds": 0},
        {"seconds": -1},
        {"seconds": True},
        {"seconds": 1e9},
        {"transcribe": 1},
        [],
    ],
)
def test_record_refuses_wrong_params(sampled: running.Place, params: Any) -> None:
    with Link(sampled) as link:
        assert link.ask("ambient/record", params)["error"]["code"] == -32602
    assert sampled.status()["listening"] is False


@pytest.mark.skipif(not running.PROC.exists(), reason="needs /proc to find the capture process")
def test_what_the_daemon_records_is_live_although_its_files_stand_still(
    sampled: running.Place,
) -> None:
    session = sampled.ctl("record").stdout.strip()
    (capture,) = running.children(sampled.status()["pid"], running.CAPTURE)
    os.kill(capture, signal.SIGSTOP)
    try:
        native = sampled.root / session / "audio" / "room.native.wav"
        os.utime(native, (1, 1))
        with Link(sampled) as link:
            answer = link.ask("tools/call", {"name": "status", "arguments": {}})
            assert json.loads(answer["result"]["content"][0]["text"])["live"] == {"id": session}
    finally:
        os.kill(capture, signal.SIGCONT)


@pytest.fixture
def without_model(tmp_path: Path) -> dict[str, str]:
    """An environment in which the model's package is there and its weights are false."""
    package = tmp_path / models.PACKAGE
    shutil.copytree(models.packaged_folder(), package / "model")
    (package / "__init__.py").write_text("", encoding="utf-8")
    with (package / "model" / "model.bin").open("r+b") as file:
        file.write(b"x")
    return {"PYTHONPATH": str(tmp_path)}


def test_a_false_model_is_refused_unless_nothing_is_to_be_transcribed(
    without_model: dict[str, str],
) -> None:
    with running.place(without_model) as at, running.daemon(at, "--source", str(SAMPLE)):
        refused = at.ctl("record", check=False)
        assert refused.returncode == 1
        assert "model.bin is not the file it should be" in refused.stderr
        assert "--no-transcribe" in refused.stderr
        assert [path.name for path in at.root.iterdir()] == [".ambientd.lock"]
        assert at.ctl("record", "--no-transcribe").returncode == 0


@pytest.fixture
def without_portaudio(tmp_path: Path) -> dict[str, str]:
    """An environment in which sounddevice is installed and PortAudio is not."""
    (tmp_path / "sounddevice.py").write_text(
        "raise OSError('PortAudio library not found')\n", encoding="utf-8"
    )
    return {"PYTHONPATH": str(tmp_path)}


def test_without_portaudio_only_opening_a_microphone_fails_and_names_the_package(
    without_portaudio: dict[str, str],
) -> None:
    with running.place(without_portaudio) as at, running.daemon(at):
        for verb in ("record", "devices"):
            refused = at.ctl(verb, check=False)
            assert refused.returncode == 1
            assert "PortAudio is not installed" in refused.stderr
        if sys.platform == "linux":
            assert "libportaudio2" in refused.stderr
        assert at.status()["listening"] is False
        assert [path.name for path in at.root.iterdir()] == [".ambientd.lock"]


def test_an_attached_client_cannot_reach_the_control_methods(at: running.Place) -> None:
    with running.daemon(at), Link(at) as link:
        assert link.ask("ambient/status")["result"]["listening"] is False
        attached = link.ask("ambient/attach", {"client": "t", "version": "0"})["result"]
        assert attached["root"] == str(at.root)
        assert attached["toolsets"] == ["sessions"]
        for method in ("ambient/record", "ambient/status", "ambient/stop", "ambient/attach"):
            assert link.ask(method, {})["error"]["code"] == -32601
        assert link.ask("ping")["result"] == {}


def test_a_torn_line_harms_neither_its_connection_nor_others(at: running.Place) -> None:
    with running.daemon(at), Link(at) as link, Link(at) as other:
        link.socket.sendall(b'{"jsonrpc":"2.0","id":1,"me')
        assert other.ask("ping")["result"] == {}
        link.socket.sendall(b"nonsense\n\xff\n" + b"x" * (3 << 20) + b"\n")
        codes = [link.read()["error"]["code"] for _ in range(3)]
        assert codes == [-32700, -32700, -32700]
        assert link.ask("ping")["result"] == {}


def test_more_connections_than_allowed_get_one_line_and_the_others_go_on(
    at: running.Place,
) -> None:
    with running.daemon(at):
        links = [Link(at) for _ in range(listener.MAX_CONNECTIONS)]
        try:
            assert links[-1].ask("ping")["result"] == {}
            with Link(at) as one_too_many:
                assert one_too_many.read()["error"]["code"] == -32000
                assert one_too_many.socket.recv(1) == b""
            assert links[0].ask("ping")["result"] == {}
        finally:
            for link in links:
                link.__exit__()
        running.wait_until(lambda: at.ctl("status", check=False).returncode == 0)


def flood(link: Link, data: bytes) -> None:
    """Send until the daemon no longer takes anything."""
    while True:
        link.socket.sendall(data)


def test_a_thousand_connections_at_once_are_served_or_told_so(at: running.Place) -> None:
    with running.daemon(at), Link(at) as first:
        links = [Link(at) for _ in range(1000)]
        try:
            request = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            answered = refused = 0
            for link in links:
                with contextlib.suppress(BrokenPipeError):
                    link.socket.sendall(request)
                if "result" in link.read():
                    answered += 1
                else:
                    refused += 1
            assert answered == listener.MAX_CONNECTIONS - 1
            assert refused == 1000 - answered
            assert first.ask("ping")["result"] == {}
        finally:
            for link in links:
                link.__exit__()


def test_running_out_of_descriptors_ends_neither_the_daemon_nor_its_connections(
    at: running.Place,
) -> None:
    log = at.folder / "log"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            ["sh", "-c", f"ulimit -n 40; exec {running.BIN / 'ambientd'}"],
            env=at.environ,
            stderr=file,
        )
    running.wait_until(lambda: at.ctl("status", check=False).returncode == 0)
    with Link(at) as first:
        links = [Link(at) for _ in range(60)]
        try:
            running.wait_until(lambda: "accept.failed" in log.read_text(encoding="utf-8"))
            assert first.ask("ping")["result"] == {}
        finally:
            for link in links:
                link.__exit__()
        running.wait_until(lambda: at.ctl("status", check=False).returncode == 0)
    process.terminate()
    assert process.wait(20) == 0


def test_a_client_that_never_reads_costs_the_others_nothing(at: running.Place) -> None:
    with running.daemon(at), Link(at) as greedy, Link(at) as other:
        request = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        greedy.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            flood(greedy, request * 500)
        for _ in range(200):
            assert other.ask("ping")["result"] == {}
        pid = at.status()["pid"]
        status = Path(f"/proc/{pid}/status")
        if status.exists():
            resident_kb = int(status.read_text(encoding="utf-8").split("VmRSS:")[1].split()[0])
            assert resident_kb < 60_000


@pytest.mark.parametrize("stderr", ["closed", "full"])
def test_a_stderr_that_is_closed_or_never_read_stops_nothing(
    at: running.Place, stderr: str
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    end = " 2>&-" if stderr == "closed" else ""
    command = f"exec {running.BIN / 'ambientd'} --source {SAMPLE} --log-level debug{end}"
    process = subprocess.Popen(["sh", "-c", command], env=at.environ, stderr=writer)
    try:
        running.wait_until(lambda: at.ctl("status", check=False).returncode == 0)
        assert at.ctl("record", "--no-transcribe").returncode == 0
        assert at.ctl("stop").returncode == 0
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        os.close(reader)
        os.close(writer)


def test_what_is_being_said_is_in_the_status_of_those_who_ask_for_it(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)), Link(at) as link:
        at.ctl("record")
        said: list[dict[str, Any]] = []

        def heard() -> bool:
            told = link.ask("ambient/status", {"partials": True})["result"]["session"]["partials"]
            said.extend(told.values())
            return any(one["stable"] for one in said)

        running.wait_until(heard)
        assert all(one["text"].startswith(one["stable"]) for one in said)
        assert "partials" not in link.ask("ambient/status", {})["result"]["session"]
        refused = link.ask("ambient/status", {"partials": 1})
        assert refused["error"]["code"] == wire.INVALID_PARAMS


def test_a_control_notification_does_nothing(sampled: running.Place) -> None:
    with Link(sampled) as link:
        link.socket.sendall(wire.encode({"jsonrpc": "2.0", "method": "ambient/record"}))
        assert link.ask("ping")["result"] == {}
    assert sampled.status()["listening"] is False


def test_names_cannot_control_a_terminal(sampled: running.Place) -> None:
    sampled.ctl("record", "--name", "a\x1b[31mRED", "--no-transcribe")
    assert "\x1b" not in sampled.ctl("status").stdout


def test_an_answer_that_cannot_be_written_is_one_line(sampled: running.Place) -> None:
    for where, code in ((">/dev/full", 1), (">&-", 0)):
        for command in ("ambientctl status", "ambient sessions"):
            done = subprocess.run(
                ["sh", "-c", f"{running.BIN}/{command} {where}"],
                env=sampled.environ,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == code
            assert "Traceback" not in done.stderr


def test_an_inherited_socket_is_used_and_left_in_place(at: running.Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as inherited:
        inherited.bind(str(at.socket))
        inherited.listen()
        environ = {**at.environ, "LISTEN_FDS": "1"}
        # The pid is known only in the child, so it sets LISTEN_PID and becomes the daemon.
        code = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = "
            "str(os.getpid()); os.execv(sys.argv[2], [sys.argv[2]])"
        )
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                code,
                str(inherited.fileno()),
                str(running.BIN / "ambientd"),
            ],
            env=environ,
            pass_fds=(inherited.fileno(),),
            stderr=subprocess.PIPE,
        )
        assert at.status()["socket"] == str(at.socket)
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0
        assert at.socket.exists()
