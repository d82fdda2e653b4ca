"""Which sessions there are, remembered so that asking again costs what has changed.

A session that is done is settled: counting does not look at it again, and listing asks the disk
only whether its folder and its session.json are what they were. Whatever is not settled is looked
at each time. The root's mtime tells whether any came or went.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ambientd.store import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from ambientd.store.folder import Folder

RACY_NS = 100_000_000
"""A folder that changed so shortly before it was looked at may have changed once more within the
same tick of the filesystem's clock, so what was seen then is not relied on."""

Row = TypeVar("Row")


class Look(NamedTuple, Generic[Row]):
    """What a look at a folder found.

    Attributes:
        row: what the caller wants to know of it; None if it is no session.
        settled: it is done, and nobody is recording or writing it.
    """

    row: Row | None
    settled: bool


class Catalogue(Generic[Row]):
    """Remembers the sessions of one root.

    Args:
        look: looks at an opened folder of a name.
    """

    def __init__(self, look: Callable[[Folder, str], Look[Row]]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._root_key: tuple[int, int] | None = None
        self._settled: dict[str, tuple[tuple[object, ...], Row]] = {}
        self._unsettled: set[str] = set()

    def count(self, top: Folder) -> tuple[int, list[Row]]:
        """Return how many settled sessions there are, and a row for each other session."""
        with self._lock:
            self._refresh(top)
            rows = self._visit(top, list(self._unsettled))
            return len(self._settled), [row for name, row in rows if name not in self._settled]

    def rows(self, top: Folder) -> list[Row]:
        """Return a row for each session."""
        with self._lock:
            self._refresh(top)
            for name, (key, _) in list(self._settled.items()):
                if _key(top, name) != key:
                    del self._settled[name]
                    self._unsettled.add(name)
            unsettled = dict(self._visit(top, list(self._unsettled)))
            settled = {name: row for name, (_, row) in self._settled.items()}
            return list({**settled, **unsettled}.values())

    def _refresh(self, top: Folder) -> None:
        status = os.fstat(top.fd)
        key = (status.st_ino, status.st_mtime_ns)
        if key == self._root_key:
            return
        names = set(top.names())
        for name, (known, _) in list(self._settled.items()):
            folder = top.status(name) if name in names else None
            # A new folder may get an old one's inode, but not its time.
            if folder is None or (folder.st_ino, folder.st_mtime_ns) != known[:2]:
                del self._settled[name]
        self._unsettled = names - self._settled.keys()
        racy = time.time_ns() - status.st_mtime_ns < RACY_NS
        self._root_key = None if racy else key

    def _visit(self, top: Folder, names: list[str]) -> list[tuple[str, Row]]:
        found = []
        for name in names:
            key = _key(top, name)
            folder = top.try_subfolder(name)
            if folder is None:
                continue
            with folder:
                seen = self._look(folder, name)
            if seen.row is None:
                continue
            found.append((name, seen.row))
            if seen.settled and key is not None and _key(top, name) == key:
                self._settled[name] = (key, seen.row)
                self._unsettled.discard(name)
        return found


def _key(top: Folder, name: str) -> tuple[object, ...] | None:
    """Return what a session's folder and its session.json look like; None if that may deceive.

    The folder's mtime tells of files that came, went or were replaced; session.json may be written
    in place, and a capture grows below the folder. Only looks, by names below the root; nothing is
    opened here.
    """
    folder = top.status(name)
    if folder is None or time.time_ns() - folder.st_mtime_ns < RACY_NS:
        return None
    meta = top.status(f"{name}/{layout.SESSION}")
    found = meta and (meta.st_ino, meta.st_size, meta.st_mtime_ns)
    capture = top.status(f"{name}/{layout.AUDIO}/{layout.native_wav('room')}")
    return folder.st_ino, folder.st_mtime_ns, found, capture and capture.st_mtime_ns
