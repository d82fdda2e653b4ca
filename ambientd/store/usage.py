"""How much room the sessions take, and how much there is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ambientd.errors import StoreError
from ambientd.store.folder import open_root

if TYPE_CHECKING:
    from ambientd.store.folder import Folder

DEEPEST = 3
"""Levels of folders below the root that are looked at: a session and its audio are two."""


def used_bytes(root: Path) -> int | None:
    """Return how much room the sessions take; None when the root cannot be looked at.

    Sparse files count by what they really occupy. Links are not followed.
    """
    try:
        top = open_root(str(root))
        if top is None:
            return None
        with top:
            return _used_bytes(top, DEEPEST)
    except (OSError, StoreError):
        return None


def free_bytes(root: Path) -> int:
    """Return how much of the root's filesystem we may still fill.

    Raises:
        OSError: it cannot be looked at.
    """
    room = os.statvfs(root)
    return room.f_bavail * room.f_frsize


def _used_bytes(folder: Folder, levels: int) -> int:
    total = 0
    for name in folder.names():
        status = folder.status(name)
        if status is None:
            continue  # it went away meanwhile
        if stat.S_ISREG(status.st_mode):
            total += status.st_blocks * 512
        elif stat.S_ISDIR(status.st_mode) and levels:
            below = folder.try_subfolder(name)
            if below is not None:
                with below:
                    total += _used_bytes(below, levels - 1)
    return total
