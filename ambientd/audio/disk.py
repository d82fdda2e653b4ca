"""Whether the disk takes audio: said when that changes, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable

Send = Callable[..., None]


class Disk:
    """Runs what touches the disk and reports trouble; usable from several threads.

    Writing and syncing fail apart from each other. The disk is well again when neither fails.

    Args:
        send: sends an event to the daemon.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._failing: set[str] = set()

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
            self._note_failure(what, error)
            return False
        self._note_success(what)
        return True

    def refuses(self, what: str) -> bool:
        """Tell whether the last attempt at something failed."""
        return what in self._failing

    def _note_failure(self, what: str, error: OSError) -> None:
        with self._lock:
            was_well = not self._failing
            self._failing.add(what)
            if was_well:
                reason = error.strerror or "it failed"
                self._send("disk", state="failing", message=f"audio cannot be {what}: {reason}")

    def _note_success(self, what: str) -> None:
        with self._lock:
            if what in self._failing:
                self._failing.remove(what)
                if not self._failing:
                    self._send("disk", state="ok", message=f"audio is {what} again")
