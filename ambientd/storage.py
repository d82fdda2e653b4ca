"""How the disk of the sessions is: whether a recording may start on it, and in what words it ails.

Looked at in threads of their own: a disk that hangs holds up neither a status nor a start for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ambientd import bounded, finishing, paths
from ambientd.errors import RefusedError, RootError, StoreError
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

_UNKNOWN: dict[str, int | None] = {"used_bytes": None, "free_bytes": None}


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
        self._looking = bounded.Threads(1)
        self._checking = bounded.Threads(1)

    async def check(self) -> None:
        """Find out whether a recording may start.

        Raises:
            RefusedError: there is less room than the floor (``disk_low``).
            RootError: the root is not where it was (``root_gone``).
            StoreError: the disk does not answer (``disk_hanging``), or cannot be looked at.
        """
        try:
            free_bytes = await self._checking.run(START_TIMEOUT_S, self._free_bytes)
        except TimeoutError:
            raise _hanging() from None
        except OSError as error:
            raise StoreError(f"cannot look at {self.root}: {error.strerror}") from None
        if free_bytes < self.floor_bytes:
            message = f"only {_too_little(free_bytes, self.floor_bytes)}"
            raise RefusedError(message, ADVICE["disk_low"], code="disk_low")

    async def status(self, capture: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what `ambient/status` says of the disk.

        Args:
            capture: how the disk takes audio, as ``state`` and ``message``; None when nothing is
                recorded.

        Returns:
            ``used_bytes`` and ``free_bytes``, None if they are not known; ``floor_bytes``;
            ``state``, which is ``ok`` or a key of ADVICE; ``message`` and ``hint``.
        """
        room = _UNKNOWN
        found: tuple[str, str] | None = None
        try:
            room, found = await self._looking.run(STATUS_TIMEOUT_S, self._look)
        except TimeoutError:
            # Of many sessions the room may take longer to count; a start finds out.
            if bounded.hanging():
                found = "disk_hanging", _hanging().message
        except OSError as error:
            found = "disk_failing", f"cannot look at {self.root}: {error.strerror}"
        if capture is not None and capture["state"] != "ok":
            found = capture["state"], capture["message"]
        elif (trouble := finishing.trouble()) is not None:
            found = trouble
        state, message = found or ("ok", "")
        return {
            **room,
            "floor_bytes": self.floor_bytes,
            "state": state,
            "message": message,
            "hint": ADVICE.get(state, ""),
        }

    def _look(self) -> tuple[dict[str, int | None], tuple[str, str] | None]:
        if not paths.is_in_place(self.root, self.lock_fd):
            return _UNKNOWN, ("root_gone", _gone(self.root).message)
        room = usage.disk(self.root)
        free_bytes = room["free_bytes"]
        if free_bytes is not None and free_bytes < self.floor_bytes:
            return room, ("disk_low", f"only {_too_little(free_bytes, self.floor_bytes)}")
        return room, None

    def _free_bytes(self) -> int:
        if not paths.is_in_place(self.root, self.lock_fd):
            raise _gone(self.root)
        return usage.free_bytes(self.root)


def _too_little(free_bytes: int, floor_bytes: int) -> str:
    return (
        f"{free_bytes // MB_BYTES} MB are free, and nothing is recorded below "
        f"{floor_bytes // MB_BYTES} MB"
    )


def _hanging() -> StoreError:
    message = "the disk of the sessions does not answer"
    return StoreError(message, ADVICE["disk_hanging"], code="disk_hanging")


def _gone(root: Path) -> RootError:
    message = f"{root} was removed or renamed while ambientd served it"
    return RootError(message, ADVICE["root_gone"], code="root_gone")
