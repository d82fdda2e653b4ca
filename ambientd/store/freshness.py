"""When a file's or folder's status is enough to know that it is what it was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os

TICK_NS = 100_000_000
"""More than a tick of any clock by which Linux and macOS stamp their own filesystems."""

COARSE_TICK_NS = 2_000_000_000
"""The same for filesystems that stamp whole seconds, or every other one (HFS+, exFAT)."""


class Stamp(NamedTuple):
    """What changes when a file or folder does. The change time cannot be set by a program."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a status."""
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def may_deceive(seen: Stamp) -> bool:
    """Tell whether it changed so shortly ago that it may change once more without being seen."""
    is_coarse = seen.mtime_ns % 1_000_000_000 == 0
    changed_ns = max(seen.mtime_ns, seen.ctime_ns)
    return time.time_ns() - changed_ns < (COARSE_TICK_NS if is_coarse else TICK_NS)
