"""`ambient mcp`: relays lines between an MCP client's pipes and the daemon's socket.

One loop over three descriptors, with bounded buffers between them; standard library only. While no
daemon answers it serves the files itself, and it lives through the daemon's restart: what is
unanswered is sent again where that is safe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections import deque

from ambient_cli import asked
from ambient_cli.link import Finder, NoRootError
from ambientd import wire

READ_BYTES = 64 << 10
WRITE_BYTES = 4096
"""Written to the client at once: a pipe that polls writable takes PIPE_BUF bytes without
blocking (pipe(7)), and the descriptor is not ours to make non-blocking."""

MAX_BUFFER_BYTES = 4 << 20
"""With more than this waiting for one side, the other side is not read."""

MAX_PENDING = 10_000
"""The same with more than so many answers owed."""

ANSWER_DEADLINE_S = 10.0
"""A daemon that owes an answer and sends nothing, or that takes nothing, for this long is taken for
dead."""

SLOW_ANSWER_DEADLINE_S = 60.0
"""The same while all that it owes are calls that do something: a microphone may open slowly."""

SAFE_METHODS = frozenset(
    {
        "initialize",
        "ping",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    }
)


class Pending:
    """A line that the daemon still owes an answer."""

    __slots__ = ("id", "line", "request")

    def __init__(self, line: bytes, request: wire.Request | None, id: object) -> None:
        self.line = line
        self.request = request
        self.id = id


class Shim:
    """The relay's state: two buffers, the link to the daemon, and what is unanswered."""

    def __init__(
        self, stdin_fd: int, stdout_fd: int, finder: Finder, toolsets: tuple[str, ...]
    ) -> None:
        self._toolsets = toolsets
        self._stdin_fd = stdin_fd
        self._stdout_fd = stdout_fd
        self._finder = finder
        self._link: socket.socket | None = None
        self._from_client = wire.LineSplitter()
        self._from_daemon = wire.LineSplitter(limit_bytes=64 << 20)
        self._lines: deque[bytes] = deque()
        self._to_client = bytearray()
        self._to_daemon = bytearray()
        self._pending: list[Pending] = []
        self._last_heard_s = 0.0
        self._last_sent_s = 0.0
        self._client_done = False

    def run(self) -> None:
        """Relay until the client has closed its side and has all its answers."""
        self._link = self._finder.connect()
        if self._link is None:
            self._say_no_daemon()
        while not self._finished():
            self._wait_and_move()

    def _finished(self) -> bool:
        if not self._client_done or self._lines or self._to_client:
            return False
        return self._link is None or not (self._pending or self._to_daemon)

    def _wait_and_move(self) -> None:
        self._handle_lines()
        poller = select.poll()
        # POLLERR on stdout comes unasked: the client is gone.
        poller.register(self._stdout_fd, select.POLLOUT if self._to_client else 0)
        congested = max(len(self._to_client), len(self._to_daemon)) > MAX_BUFFER_BYTES
        if not (self._client_done or self._lines or congested):
            poller.register(self._stdin_fd, select.POLLIN)
        link = self._link
        listening = len(self._to_client) <= MAX_BUFFER_BYTES
        if link is not None:
            wanted = select.POLLIN if listening else 0
            poller.register(link, wanted | (select.POLLOUT if self._to_daemon else 0))
        goes_on = bool(self._lines) and link is None and not congested
        events = dict(poller.poll(0 if goes_on else self._patience_ms(listening)))
        if not events and goes_on:
            return
        if not events:
            self._give_up_on_daemon()
            return
        if events.get(self._stdout_fd, 0):
            self._write_to_client(events[self._stdout_fd])
        if link is not None and link.fileno() in events:
            self._move_link(link, events[link.fileno()])
        if self._stdin_fd in events:
            self._read_client()

    def _patience_ms(self, listening: bool) -> float | None:
        if self._link is None or not listening or not (self._pending or self._to_daemon):
            return None
        since_s = self._last_heard_s if self._pending else self._last_sent_s
        left_s = since_s + self._deadline_s() - time.monotonic()
        return max(0.0, left_s) * 1000 + 1

    def _deadline_s(self) -> float:
        is_slow = bool(self._pending) and not any(_is_safe(one.request) for one in self._pending)
        return SLOW_ANSWER_DEADLINE_S if is_slow else ANSWER_DEADLINE_S

    def _read_client(self) -> None:
        data = os.read(self._stdin_fd, READ_BYTES)
        self._lines += self._from_client.feed(data)
        if not data:
            self._client_done = True
            last = self._from_client.finish()
            if last is not None:
                self._lines.append(last)

    def _handle_lines(self) -> None:
        """Pass on what the client sent, or without a daemon answer one line of it.

        One, because an answer may be long and is to go out before the next is made.
        """
        if self._lines and self._link is None:
            self._link = self._finder.connect()
        if self._link is not None:
            while self._lines and not self._is_daemon_full():
                self._forward(self._lines.popleft())
        elif self._lines and len(self._to_client) <= MAX_BUFFER_BYTES:
            self._answer_from_files(self._lines.popleft())

    def _is_daemon_full(self) -> bool:
        return len(self._to_daemon) > MAX_BUFFER_BYTES or len(self._pending) >= MAX_PENDING

    def _forward(self, line: bytes) -> None:
        pending = _owed_answer(line)
        if pending is not None:
            if self._deadline_s() > ANSWER_DEADLINE_S or not self._pending:
                self._last_heard_s = time.monotonic()
            self._pending.append(pending)
        if not self._to_daemon:
            self._last_sent_s = time.monotonic()
        self._to_daemon += line + b"\n"

    def _answer_from_files(self, line: bytes) -> None:
        # Only now: the way to a daemon must stay short.
        from pathlib import Path

        from ambientd import mcp
        from ambientd.tools import toolsets

        offered = toolsets.chosen(self._toolsets)
        answer = mcp.handle(line, Path(self._finder.known_root()), offered)
        if answer is not None:
            self._to_client += wire.encode(answer)

    def _move_link(self, link: socket.socket, events: int) -> None:
        try:
            if self._to_daemon and events & select.POLLOUT:
                sent = link.send(self._to_daemon[:READ_BYTES])
                del self._to_daemon[:sent]
                self._last_sent_s = time.monotonic()
            readable = events & (select.POLLIN | select.POLLHUP | select.POLLERR)
            if readable and not self._receive(link):
                self._lose_daemon()
        except BlockingIOError:
            pass
        except OSError:
            # What a daemon answered before it went is still there to be read.
            with contextlib.suppress(OSError):
                while self._receive(link):
                    pass
            self._lose_daemon()

    def _receive(self, link: socket.socket) -> bool:
        """Take what the daemon sent; False at its end."""
        data = link.recv(READ_BYTES)
        self._last_heard_s = time.monotonic()
        for line in self._from_daemon.feed(data):
            self._deliver(line)
        return bool(data)

    def _deliver(self, line: bytes) -> None:
        self._settle(line)
        self._to_client += line + b"\n"

    def _settle(self, line: bytes) -> None:
        # Answers come in the order of the requests, so this is nearly always the first.
        answered = wire.response_id(line)
        for index, pending in enumerate(self._pending):
            if pending.id == answered and type(pending.id) is type(answered):
                del self._pending[index]
                return

    def _lose_daemon(self) -> None:
        """Take the link for lost: send again what may be sent again, answer the rest."""
        if self._link is not None:
            self._link.close()
        self._link = None
        self._to_daemon.clear()
        self._from_daemon.finish()
        unanswered, self._pending = self._pending, []
        if self._client_done and not (unanswered or self._lines):
            return
        self._link = self._finder.connect()
        if self._link is None:
            self._say_no_daemon()
        self._lines.extendleft(one.line for one in reversed(unanswered) if _is_safe(one.request))
        for pending in unanswered:
            if not _is_safe(pending.request):
                fault = wire.Fault(
                    wire.INTERNAL_ERROR,
                    "the daemon restarted; whether this was done is not known",
                    pending.id if isinstance(pending.id, str | int) else None,
                )
                self._to_client += wire.encode(wire.error(fault))

    def _give_up_on_daemon(self) -> None:
        self._finder.say(f"the daemon has not answered for {self._deadline_s():g} s")
        self._finder.avoid_for_a_while()
        self._lose_daemon()

    def _write_to_client(self, events: int) -> None:
        # A closed pipe says POLLERR, a closed socket (which some clients give us) POLLHUP.
        if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
        if events & select.POLLOUT:
            try:
                written = os.write(self._stdout_fd, self._to_client[:WRITE_BYTES])
            except BlockingIOError:
                return
            del self._to_client[:written]

    def _say_no_daemon(self) -> None:
        root = self._finder.known_root()
        self._finder.say(f"ambientd does not answer; reading the files in {root}")


def _owed_answer(line: bytes) -> Pending | None:
    try:
        request = wire.decode(line)
    except wire.Fault as fault:
        return Pending(line, None, fault.id)
    if request is None or request.is_notification:
        return None
    return Pending(line, request, request.id)


def _is_safe(request: wire.Request | None) -> bool:
    """Tell whether doing a request twice does no harm; a line that is no request only errs."""
    if request is None or request.method in SAFE_METHODS:
        return True
    if request.method != "tools/call":
        return False  # unknown here, and so is what another daemon would do
    from ambientd import mcp

    name = request.params.get("name") if isinstance(request.params, dict) else None
    return not isinstance(name, str) or mcp.is_read_only(name)


def main(toolsets: str | None = None) -> int:
    """Run the shim on this process's own stdin and stdout.

    Args:
        toolsets: what the command line says of them; None if it says nothing.
    """
    # The default action: a handler could keep a process alive whose client wants it gone.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stdout_fd = os.dup(1)
    # Whatever prints from here on lands on stderr and cannot corrupt the protocol.
    os.dup2(2, 1)
    offered: tuple[str, ...] = asked.DEFAULT_TOOLSETS
    try:
        offered = asked.toolsets(toolsets)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the settings, say it
        sys.stderr.write(f"ambient mcp: {error}\n")
        if toolsets is not None:
            return wire.EXIT_USAGE
    try:
        Shim(0, stdout_fd, Finder("ambient mcp", offered), offered).run()
    except BrokenPipeError:
        pass  # the client is gone; there is nobody to tell
    except (NoRootError, OSError) as error:
        sys.stderr.write(f"ambient mcp: {error}\n")
        return wire.EXIT_FAILED
    return wire.EXIT_OK
