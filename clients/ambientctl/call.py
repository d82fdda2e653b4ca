"""One request to the daemon over its socket. Standard library only."""

from __future__ import annotations

import socket
from typing import Any

from ambientd import dial, wire

CONNECT_TIMEOUT_S = 5.0


class NoDaemonError(Exception):
    """No daemon answers on any socket it could have."""


class DaemonFault(Exception):
    """The daemon answered with an error.

    Attributes:
        exit_code: what the command exits with.
        hint: what to do about it, or an empty string.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", "the daemon failed"))
        data = error.get("data") or {}
        self.hint = str(data.get("hint", ""))
        self.exit_code = {
            wire.REFUSED: wire.EXIT_REFUSED,
            wire.INVALID_PARAMS: wire.EXIT_USAGE,
        }.get(error.get("code", 0), wire.EXIT_FAILED)


class Talk:
    """A connection for one request after another; it is opened when the first is asked."""

    def __init__(self) -> None:
        self._link: socket.socket | None = None

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the next request opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def ask(self, method: str, params: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Ask the daemon and return the result object.

        Args:
            method: a control method, or one of MCP.
            params: its params object.
            timeout_s: how long to wait for the answer; None for ever.

        Raises:
            NoDaemonError: nobody listens.
            DaemonFault: it said no.
            TimeoutError: no answer in time.
            OSError: the connection broke.
        """
        if self._link is None:
            self._link = _connect()
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = dial.exchange(self._link, wire.encode(request), timeout_s)
        if "error" in answer:
            raise DaemonFault(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result


def call(method: str, params: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Ask the daemon one thing; see ``Talk.ask``."""
    with Talk() as talk:
        return talk.ask(method, params, timeout_s)


def _connect() -> socket.socket:
    for path in wire.socket_candidates():
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(CONNECT_TIMEOUT_S)
        try:
            link.connect(path)
        except OSError:
            link.close()
            continue
        return link
    raise NoDaemonError("ambientd does not answer")
