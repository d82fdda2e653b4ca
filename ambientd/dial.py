"""One request over a connected socket, for the clients. Standard library only."""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


def exchange(link: socket.socket, line: bytes, timeout_s: float | None) -> dict[str, Any]:
    """Send a request and return its response object.

    Nothing else may be under way on the connection.

    Args:
        link: the connected socket; it keeps the timeout.
        line: the encoded request.
        timeout_s: how long the whole may take; None for ever.

    Raises:
        TimeoutError: no answer in time.
        OSError: the connection broke, or was closed before the answer.
        ValueError: what came is no JSON object.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    link.settimeout(timeout_s)
    link.sendall(line)
    data = bytearray()
    while not data.endswith(b"\n"):
        if deadline_s is not None:
            link.settimeout(max(0.001, deadline_s - time.monotonic()))
        piece = link.recv(1 << 16)
        if not piece:
            raise ConnectionResetError("the daemon closed the connection")
        data += piece
    answer = json.loads(data)
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")
    return answer
