"""The answers of one connection on their way out: a bounded queue and the task that empties it.

A client that does not read must cost bounded memory and nobody else's time.
"""

from __future__ import annotations

from collections import deque

import anyio
import anyio.abc

MAX_UNSENT_BYTES = 4 << 20
"""With more than this unsent, a connection is not read any further."""

STALLED_S = 30.0
"""A connection that takes nothing for this long is closed."""

PIECE_BYTES = 16 << 10
"""Sent at once; a piece that went out is progress."""


class StalledError(Exception):
    """The peer took nothing for STALLED_S seconds."""


class Outbox:
    """Queues encoded answers and sends them in order."""

    def __init__(self, stream: anyio.abc.ByteSendStream) -> None:
        self._stream = stream
        self._queue: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._closed = False
        self._changed = anyio.Event()

    def put(self, data: bytes) -> None:
        """Queue one answer."""
        self._queue.append(data)
        self._unsent_bytes += len(data)
        self._signal()

    def close(self) -> None:
        """Let ``run`` return once everything queued has been sent."""
        self._closed = True
        self._signal()

    async def wait_for_room(self) -> None:
        """Return when the connection may be read again."""
        while self._unsent_bytes > MAX_UNSENT_BYTES:
            await self._changed.wait()

    async def run(self) -> None:
        """Send until closed and empty.

        Raises:
            StalledError: the peer stopped reading.
            anyio.BrokenResourceError: the peer is gone.
        """
        while True:
            while self._queue:
                await self._send(self._next_batch())
            if self._closed:
                return
            await self._changed.wait()

    def _next_batch(self) -> bytes:
        """Take the next answers, as many as fit in a piece: a send each costs most of a ping."""
        batch = [self._queue.popleft()]
        size = len(batch[0])
        while self._queue and size + len(self._queue[0]) <= PIECE_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        return b"".join(batch)

    async def _send(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            with anyio.move_on_after(STALLED_S) as scope:
                await self._stream.send(piece)
            if scope.cancelled_caught:
                raise StalledError
            self._unsent_bytes -= len(piece)
            self._signal()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
