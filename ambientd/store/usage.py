"""How much room the sessions take, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path


def disk(root: Path) -> dict[str, int | None]:
    """Return ``used_bytes`` of everything below the root and ``free_bytes`` of its filesystem.

    Sparse files count by what they really occupy. Links are not followed. Both are None when the
    root cannot be looked at.
    """
    try:
        room = os.statvfs(root)
    except OSError:
        return {"used_bytes": None, "free_bytes": None}
    return {"used_bytes": _used_bytes(str(root)), "free_bytes": room.f_bavail * room.f_frsize}


def _used_bytes(folder: str) -> int:
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += _used_bytes(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return total  # a folder that went away meanwhile, or that we may not read
    return total
