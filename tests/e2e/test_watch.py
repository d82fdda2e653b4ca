"""The live view, in a terminal that is one."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import threading
from pathlib import Path

from ambientctl import watch
from rich.console import Console

from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"


class Terminal:
    """`ambientctl status --watch` in a terminal, and all that it wrote there."""

    def __init__(self, at: running.Place) -> None:
        ours, theirs = pty.openpty()
        environ = {**at.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(
            [str(running.BIN / "ambientctl"), "status", "--watch"],
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._ours = ours
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 1 << 16):
                self._written += data
        except OSError:
            pass  # Linux says so when the other side has closed

    def shows(self, text: str) -> None:
        """Wait until something was written after all that was waited for before."""
        running.wait_until(lambda: text in self._written.decode("utf-8", errors="replace"))
        self._written.clear()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(10)
        self._reader.join()
        os.close(self._ours)
        return code


def test_it_follows_a_session_and_a_daemon_that_comes_and_goes(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE)):
        terminal = Terminal(at)
        try:
            terminal.shows("deaf")
            session = at.ctl("record").stdout.strip()
            terminal.shows(session)
            terminal.shows("Good morning.")
            at.ctl("pause")
            terminal.shows("paused")
            at.ctl("stop")
            terminal.shows("deaf")
        except BaseException:
            terminal.process.kill()
            raise
    terminal.shows("looking for it again")
    with running.daemon(at, "--source", str(SAMPLE)):
        terminal.shows("deaf")
        assert terminal.end() == 0


def test_without_a_terminal_it_says_what_to_do_instead(at: running.Place) -> None:
    refused = at.ctl("status", "--watch", check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "status --json" in refused.stderr


def test_what_is_said_cannot_move_the_cursor() -> None:
    line = {"start_ms": 0, "speaker": "\x1b[2Jann", "track": "room", "text": "a\rb\x07\u202e"}
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(watch._line(line))
    written = console.export_text()
    assert not set(written) & set("\x1b\r\x07\u202e")
    assert "\\x1b[2Jann" in written
