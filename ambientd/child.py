"""The daemon's side of a pipe to a child process: orders out, events in, one JSON object a line.

The child's side is ``ambientd.pipe``. Children are started by exec, never by fork; they inherit
stderr, and end by themselves when their stdin closes.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from subprocess import PIPE
from typing import Any

import anyio
import anyio.abc

from ambientd import wire


class Child:
    """One running child process. Build it with ``start``."""

    def __init__(self, process: anyio.abc.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a child needs pipes for stdin and stdout")
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._sending = anyio.Lock()
        self._splitter = wire.LineSplitter()
        self._lines: deque[bytes] = deque()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def send(self, order: str, **fields: Any) -> None:
        """Send one order; a child that has ended is found out by its events, not here."""
        async with self._sending:
            try:
                await self._stdin.send(wire.encode({"order": order, **fields}))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield each event until the child closes its stdout.

        A loop that is left can be taken up by another: nothing received is lost in between.
        """
        while True:
            while self._lines:
                yield json.loads(self._lines.popleft())
            try:
                data = await self._stdout.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            self._lines.extend(self._splitter.feed(data))

    async def close_stdin(self) -> None:
        """Ask the child to finish and exit."""
        await self._stdin.aclose()

    async def wait(self) -> int:
        """Wait for the child's end and return its exit code."""
        return await self._process.wait()

    async def end(self, grace_s: float) -> None:
        """Close the child's stdin, wait, and kill it if it is still there.

        Runs to its end even when the caller is being cancelled: no child may outlive its owner.
        """
        with anyio.CancelScope(shield=True):
            await self.close_stdin()
            with anyio.move_on_after(grace_s):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            await self._stdout.aclose()


ONE_THREAD_EACH = {"OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
"""numpy's own threads spin on a second core while they wait for work: without this a turn costs
twice the processor time and not a millisecond less (docs/developing/measurements.md)."""


async def start(module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> Child:
    """Start ``python -m module`` with pipes.

    Args:
        module: what it runs.
        arguments: its command line.
        pass_fds: descriptors that it gets besides, under the same numbers.

    Raises:
        OSError: the process cannot be started.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", module, *arguments],
        stdin=PIPE,
        stdout=PIPE,
        stderr=None,
        env={**ONE_THREAD_EACH, **os.environ},
        start_new_session=True,
        pass_fds=pass_fds,
    )
    return Child(process)
