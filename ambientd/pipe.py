"""The child's side of a pipe to the daemon: orders in on stdin, events out on stdout.

One JSON object a line. The daemon's side is ``ambientd.child``.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import IO, Any

from ambientd import wire
from ambientd.errors import AmbientError


class ParentPipe:
    """Owns the child's stdin and stdout.

    The original file descriptor 1 is kept for events alone and then pointed at stderr, so that a
    library that prints cannot corrupt the stream. Events may be sent from any thread.

    Args:
        patient: whether sending may wait for the daemon. Capture may not: what the daemon does not
            take yet stays in memory, and reports of progress are left out meanwhile.
    """

    def __init__(self, *, patient: bool) -> None:
        self._fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        os.set_blocking(self._fd, patient)
        self._orders: IO[bytes] = sys.stdin.buffer
        self._lock = threading.Lock()
        self._unsent: deque[bytes] = deque()

    def orders(self) -> Iterator[dict[str, Any]]:
        """Yield each order until the daemon closes the pipe or dies."""
        for line in self._orders:
            yield json.loads(line)

    def has_news(self, timeout_s: float) -> bool:
        """Wait so long for an order or for the end of the pipe; only between two orders."""
        return bool(select.select([self._orders], [], [], timeout_s)[0])

    def send(self, event: str, **fields: Any) -> None:
        """Send one event.

        A daemon that is gone is no error here: the orders end as well, and that is what stops a
        child in good order.
        """
        with self._lock:
            # First what waits: else a full pipe that was emptied would stay shut for progress.
            self._flush()
            if self._unsent and event == "progress":
                return  # the next one says more
            self._unsent.append(wire.encode({"event": event, **fields}))
            self._flush()

    def send_fault(self, error: AmbientError) -> None:
        """Report an error that ends this child."""
        self.send("fault", code=error.code, message=error.message, hint=error.hint)

    def finish(self, timeout_s: float) -> None:
        """Give the daemon so long to take what is unsent."""
        deadline_s = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(self._fd, select.POLLOUT)
        with self._lock:
            while self._unsent and (left_s := deadline_s - time.monotonic()) > 0:
                poller.poll(left_s * 1000)
                self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                # An event is shorter than PIPE_BUF in an impatient pipe, so that it goes out whole
                # or not at all (pipe(7)); a patient one waits, and may need several writes.
                data = self._unsent.popleft()
                written = 0
                while written < len(data):
                    try:
                        written += os.write(self._fd, data[written:])
                    except BlockingIOError:
                        self._unsent.appendleft(data[written:])
                        return
        except BrokenPipeError:
            self._unsent.clear()
