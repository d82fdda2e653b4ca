"""The child's side of a pipe to the daemon: orders in on stdin, events out on stdout.

One JSON object a line. The daemon's side is ``ambientd.child``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

from ambientd import wire
from ambientd.errors import AmbientError


class ParentPipe:
    """Owns the child's stdin and stdout.

    The original file descriptor 1 is kept for events alone and then pointed at stderr, so that a
    library that prints cannot corrupt the stream. Events may be sent from any thread.
    """

    def __init__(self) -> None:
        events_fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._events = os.fdopen(events_fd, "wb", buffering=0)
        self._orders: IO[bytes] = sys.stdin.buffer
        self._lock = threading.Lock()

    def orders(self) -> Iterator[dict[str, Any]]:
        """Yield each order until the daemon closes the pipe or dies."""
        for line in self._orders:
            yield json.loads(line)

    def send(self, event: str, **fields: Any) -> None:
        """Send one event.

        A daemon that is gone is no error here: the orders end as well, and that is what stops a
        child in good order.
        """
        data = wire.encode({"event": event, **fields})
        try:
            with self._lock:
                self._events.write(data)
        except BrokenPipeError:
            pass

    def send_fault(self, error: AmbientError) -> None:
        """Report an error that ends this child."""
        self.send("fault", code=error.code, message=error.message, hint=error.hint)
