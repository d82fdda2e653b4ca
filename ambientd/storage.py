"""How the disk of the sessions is: whether a recording may start on it, and in what words it ails.

Looked at in threads of their own: a disk that hangs holds up neither a status nor a start for long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ambientd import bounded, finishing, paths
from ambientd.errors import AmbientError, RefusedError, StoreError
from ambientd.store import usage
from ambientd.units import MB_BYTES

STATUS_TIMEOUT_S = 2.0

START_TIMEOUT_S = 10.0
"""A disk that sleeps takes seconds to wake up."""

ADVICE = {
    "disk_full": "free some room; meanwhile 30 s of audio wait in memory, and text waits longer",
    "disk_failing": "see the system's log; meanwhile 30 s of audio wait in memory, and text longer",
    "disk_hanging": "is it a network disk that is gone? 30 s of audio wait in memory",
    "disk_low": "free some room, or lower capture.disk_floor_mb",
    "root_gone": "put it back, or restart ambientd",
}
"""What a person can do, by the state of the disk."""


class Storage:
    """The disk of one root.

    Attributes:
        root: the sessions folder.
        floor_bytes: the free room below which nothing is recorded; 0 for none.
        lock_fd: the root's lock file, held by this daemon.
    """

    def __init__(self, root: Path, floor_bytes: int) -> None:
        self.root = root
        self.floor_bytes = floor_bytes
        self.lock_fd = -1
        self._asking = bounded.Threads(1)
        # Of its own, because many sessions take long to count.
        self._counting = bounded.Threads(1)

    async def check(self) -> None:
        """Find out whether a recording may start.

        Raises:
            RefusedError: there is less room than the floor (``disk_low``).
            StoreError: the root is not where it was (``root_gone``), the disk does not answer
                (``disk_hanging``), or it cannot be looked at (``disk_failing``).
        """
        free_bytes = await self._free_bytes(START_TIMEOUT_S)
        if free_bytes < self.floor_bytes:
            raise self._too_low(free_bytes)

    async def status(self, capture: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what `ambient/status` says of the disk.

        Args:
            capture: how the disk takes audio, as ``state`` and ``message``; None when nothing is
                recorded.

        Returns:
            ``used_bytes`` and ``free_bytes``, None if they are not known; ``floor_bytes``;
            ``state``, which is ``ok`` or a key of ADVICE; ``message`` and ``hint``.
        """
        ails: AmbientError | None = None
        room: dict[str, int | None] = {"used_bytes": None, "free_bytes": None}
        try:
            room["free_bytes"] = free_bytes = await self._free_bytes(STATUS_TIMEOUT_S)
            if free_bytes < self.floor_bytes:
                ails = self._too_low(free_bytes)
            with contextlib.suppress(TimeoutError):
                counted = self._counting.run(STATUS_TIMEOUT_S, usage.used_bytes, self.root)
                room["used_bytes"] = await counted
        except StoreError as error:
            ails = error
        state, message = ("ok", "") if ails is None else (ails.code, ails.message)
        if capture is not None and capture["state"] != "ok":
            state, message = capture["state"], capture["message"]
        elif (trouble := finishing.trouble()) is not None:
            state, message = trouble
        words = {"state": state, "message": message, "hint": ADVICE.get(state, "")}
        return {**room, "floor_bytes": self.floor_bytes, **words}

    async def _free_bytes(self, timeout_s: float) -> int:
        try:
            return await self._asking.run(timeout_s, self._ask)
        except TimeoutError:
            message = "the disk of the sessions does not answer"
            raise _ails("disk_hanging", message) from None
        except OSError as error:
            message = f"cannot look at {self.root}: {error.strerror}"
            raise _ails("disk_failing", message) from None

    def _ask(self) -> int:
        if not paths.is_in_place(self.root, self.lock_fd):
            message = f"{self.root} was removed or renamed while ambientd served it"
            raise _ails("root_gone", message)
        return usage.free_bytes(self.root)

    def _too_low(self, free_bytes: int) -> RefusedError:
        message = (
            f"only {free_bytes // MB_BYTES} MB are free, and nothing is recorded below "
            f"{self.floor_bytes // MB_BYTES} MB"
        )
        return RefusedError(message, ADVICE["disk_low"], code="disk_low")


def _ails(state: str, message: str) -> StoreError:
    return StoreError(message, ADVICE[state], code=state)
