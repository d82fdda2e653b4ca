"""Which sessions there are, remembered so that asking again costs what has changed.

A session at rest is known by its stamps: those of its folder, its session.json, its audio folder
and its capture. While it waits for its text they are asked each time; when it is done only listing
asks them, and counting does not look at it at all. What is recorded or written now is opened each
time. The root's stamp tells whether any folder came or went.
"""

from __future__ import annotations

import os
import threading
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ambientd.store import freshness, layout
from ambientd.store.freshness import Stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ambientd.store.folder import Folder

Row = TypeVar("Row")


class Rest(Enum):
    """How far what was seen of a folder can be relied on."""

    BUSY = "busy"
    """It is being recorded or written: time alone may change what is true of it."""

    WAITING = "waiting"
    """Nobody works on it; it changes with its stamps."""

    DONE = "done"
    """The same, and nobody is expected to work on it again."""


class Look(NamedTuple, Generic[Row]):
    """What a look at a folder found.

    Attributes:
        row: what the caller wants to know of it; None if it is no session.
        rest: how far that can be relied on.
    """

    row: Row | None
    rest: Rest


class _Key(NamedTuple):
    """The stamps by which a folder at rest is known to be what it was; None for what is not there.

    A folder's stamp tells of files in it that came, went or were replaced; session.json may be
    written in place, and a capture grows.
    """

    folder: Stamp
    meta: Stamp | None
    audio: Stamp | None
    capture: Stamp | None


class _Seen(NamedTuple, Generic[Row]):
    """A folder at rest."""

    key: _Key
    row: Row | None
    rest: Rest


class Catalogue(Generic[Row]):
    """Remembers the sessions of one root.

    Args:
        look: looks at an opened folder of a name.
    """

    def __init__(self, look: Callable[[Folder, str], Look[Row]]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._root_stamp: Stamp | None = None
        self._names: set[str] = set()
        self._at_rest: dict[str, _Seen[Row]] = {}
        self._done = 0
        self._others: set[str] = set()

    def count(self, top: Folder) -> tuple[int, list[Row]]:
        """Return how many sessions are done, and a row for each other session.

        Raises:
            DiskError: one could not be looked at; so does ``rows``.
        """
        with self._lock:
            self._refresh(top)
            rows = self._rows(top, list(self._others))
            return self._done, [row for name, row in rows if name in self._others]

    def rows(self, top: Folder) -> list[Row]:
        """Return a row for each session."""
        with self._lock:
            self._refresh(top)
            return [row for _, row in self._rows(top, self._names)]

    def _refresh(self, top: Folder) -> None:
        stamp = freshness.stamp(os.fstat(top.fd))
        if stamp == self._root_stamp:
            return
        self._names = set(top.folders())
        for name in list(self._at_rest):
            folder = top.status(name) if name in self._names else None
            # A new folder may get an old one's inode, but not its times.
            if folder is None or freshness.stamp(folder) != self._at_rest[name].key.folder:
                self._forget(name)
        self._others = {name for name in self._names if not self._is_done(name)}
        self._root_stamp = None if freshness.may_deceive(stamp) else stamp

    def _rows(self, top: Folder, names: Iterable[str]) -> list[tuple[str, Row]]:
        found = []
        for name in names:
            known = self._at_rest.get(name)
            if known is not None and _is_unchanged(top, name, known.key):
                row = known.row
            else:
                row = self._visit(top, name)
            if row is not None:
                found.append((name, row))
        return found

    def _visit(self, top: Folder, name: str) -> Row | None:
        self._forget(name)
        key = _key(top, name)
        folder = top.try_subfolder(name)
        if folder is None:
            return None
        with folder:
            row, rest = self._look(folder, name)
        # The stamps are those from before; if they are so still, nothing changed meanwhile.
        if rest is not Rest.BUSY and key is not None and _is_unchanged(top, name, key):
            self._at_rest[name] = _Seen(key, row, rest)
            if self._is_done(name):
                self._done += 1
                self._others.discard(name)
        return row

    def _forget(self, name: str) -> None:
        if self._is_done(name):
            self._done -= 1
            self._others.add(name)
        self._at_rest.pop(name, None)

    def _is_done(self, name: str) -> bool:
        known = self._at_rest.get(name)
        return known is not None and known.rest is Rest.DONE


_META = layout.SESSION
_CAPTURE = f"{layout.AUDIO}/{layout.native_wav(layout.ROOM)}"


def _key(top: Folder, name: str) -> _Key | None:
    """Return a folder's stamps; None if they may deceive.

    Files are only asked for their stamps, by names below the root: should a link stand in a name's
    place meanwhile, what lies behind it is compared and not shown.
    """
    folder = top.status(name)
    if folder is None:
        return None
    below = [top.status(f"{name}/{path}") for path in (_META, layout.AUDIO, _CAPTURE)]
    stamps = [status and freshness.stamp(status) for status in below]
    key = _Key(freshness.stamp(folder), *stamps)
    return None if any(stamp and freshness.may_deceive(stamp) for stamp in key) else key


def _is_unchanged(top: Folder, name: str, key: _Key) -> bool:
    """Tell whether a folder's stamps are what they were.

    What was not there cannot have come without its folder's stamp changing.
    """
    return (
        _has(top, name, key.folder)
        and (key.meta is None or _has(top, f"{name}/{_META}", key.meta))
        and (key.audio is None or _has(top, f"{name}/{layout.AUDIO}", key.audio))
        and (key.capture is None or _has(top, f"{name}/{_CAPTURE}", key.capture))
    )


def _has(top: Folder, path: str, stamp: Stamp) -> bool:
    status = top.status(path)
    return status is not None and freshness.stamp(status) == stamp
