"""Whether the disk takes audio: said when that changes, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from ambientd.errors import disk_state

Send = Callable[..., None]


class _Refusal(NamedTuple):
    state: str
    message: str


_OK = _Refusal("ok", "")


class Disk:
    """Runs what touches the disk and reports trouble; usable from several threads.

    Writing and syncing fail apart from each other. The disk is well again when neither fails.

    Args:
        send: sends an event to the daemon.
        heard_ms: returns the track time up to which audio came in, on disk or not.
    """

    def __init__(self, send: Send, heard_ms: Callable[[], int]) -> None:
        self._send = send
        self._heard_ms = heard_ms
        self._lock = threading.Lock()
        self._refusals: dict[str, _Refusal] = {}
        self._said = _OK
        self._start_ms = 0

    def takes(self, what: str, act: Callable[[], None]) -> bool:
        """Run something that touches the disk.

        Args:
            what: what is done to audio, as a participle.
            act: does it.

        Returns:
            Whether it worked.
        """
        try:
            act()
        except OSError as error:
            self._note(what, error)
            return False
        self._note(what, None)
        return True

    def refusal(self, what: str) -> str:
        """Return why the last attempt at something failed.

        Returns:
            ``disk_full`` or ``disk_failing``; an empty string if it worked.
        """
        return self._refusals[what].state if what in self._refusals else ""

    def _note(self, what: str, error: OSError | None) -> None:
        with self._lock:
            if error is None:
                self._refusals.pop(what, None)
            else:
                message = f"audio cannot be {what}: {error.strerror or 'it failed'}"
                self._refusals[what] = _Refusal(disk_state(error), message)
            now = self._worst()
            if now.state == self._said.state:
                return
            end_ms = self._heard_ms()
            if self._said is _OK:
                self._start_ms = end_ms
            self._said = now
            span = {"start_ms": self._start_ms, "end_ms": end_ms}
            self._send("disk", state=now.state, message=now.message, **span)

    def _worst(self) -> _Refusal:
        """Return what to say: of a full disk first, because a person can do something about it."""
        refusals = self._refusals.values()
        return max(refusals, key=lambda one: one.state == "disk_full", default=_OK)
