"""What was read of a session's logs before, so that a poll costs what is new.

Nothing is believed that the disk does not confirm at each call: a log is opened, and only if it is
still the same file (inode) that has grown is the rest of it read; anything else is read anew.
Bounded by sessions and by lines.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from ambientd.store import layout, turns
from ambientd.store.edits import Fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ambientd.store.folder import Folder
    from ambientd.store.turns import Line

MAX_SESSIONS = 16
MAX_LINES = 200_000
"""About 100 MB of parsed turns, all sessions together; the present one is always kept."""


TAIL_BYTES = 512
"""Compared before a log is taken to have grown: a new file may get an old one's inode."""


class _Raw:
    """raw.jsonl of one session as far as it was parsed."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._seen: os.stat_result | None = None
        self._offset = 0
        self._tail = b""
        self._line_count = 0

    def update(self, session: Folder) -> bool:
        """Read what is new; tell whether earlier lines may be other than they were."""
        found = session.read_from(layout.RAW, self._start_of)
        if found is None:
            return self._forget()
        status, data = found
        replaced = False
        if self._start_of(status) == 0:
            replaced = self._forget()
        elif self._start_of(status) is not None:
            if not data.startswith(self._tail):
                replaced = self._forget()
                data = session.read(layout.RAW) or b""
            data = data[len(self._tail) :]
        self._take(data, os.path.join(session.path, layout.RAW))
        self._seen = status
        return replaced

    def _start_of(self, status: os.stat_result) -> int | None:
        """Return where to read: nowhere, from shortly before what is new, or from the start."""
        seen = self._seen
        if seen is None or status.st_ino != seen.st_ino or status.st_size < seen.st_size:
            return 0
        if status.st_size == seen.st_size:
            # Of the same size and yet written to: it was changed in place.
            return None if status.st_mtime_ns == seen.st_mtime_ns else 0
        return self._offset - len(self._tail)

    def _take(self, data: bytes, path: str) -> None:
        end = data.rfind(b"\n") + 1
        # Parsed before anything is kept: an error leaves the state as it was.
        self.lines += turns.parse(data[:end], path, first=self._line_count + 1)
        self._line_count += data.count(b"\n", 0, end)
        self._offset += end
        self._tail = (self._tail + data[:end])[-TAIL_BYTES:]

    def _forget(self) -> bool:
        had_lines = bool(self.lines)
        self.__init__()  # type: ignore[misc]
        return had_lines


class _Session:
    """One session's logs, and the fold of the two."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.raw = _Raw()
        self._edits_key: tuple[int, int, int] | None = None
        self._fold = Fold([])
        self._folded: list[Line] = []

    def verbatim(self, session: Folder) -> Sequence[Line]:
        """Return the turns as they were published."""
        if self.raw.update(session):
            self._edits_key = None
            self._restart(Fold([]))
        return self.raw.lines

    def edited(self, session: Folder) -> Sequence[Line]:
        """Return the turns with their edits."""
        raw = self.verbatim(session)
        found = session.read_from(layout.EDITS, self._edits_offset)
        key = None if found is None else _key(found[0])
        if key != self._edits_key:
            path = os.path.join(session.path, layout.EDITS)
            records = [] if found is None else turns.records(found[1], path)
            self._restart(Fold([edit for _, edit in records]))
            self._edits_key = key
        self._folded += self._fold.extend(raw[len(self._folded) :])
        return self._folded

    def _edits_offset(self, status: os.stat_result) -> int | None:
        return None if _key(status) == self._edits_key else 0

    def _restart(self, fold: Fold) -> None:
        self._fold, self._folded = fold, []


_sessions: OrderedDict[tuple[int, int], _Session] = OrderedDict()
_sessions_lock = threading.Lock()


def transcript(session: Folder, verbatim: bool, since: int = 0) -> tuple[int, list[Line]]:
    """Return how many turns an opened session has, and those from ``since`` on.

    Args:
        session: the opened session.
        verbatim: whether to leave the edits out.
        since: how many to leave out, in the order of publication.

    Raises:
        StoreError: a log is refused, or a complete line of it does not parse.
    """
    status = os.fstat(session.fd)
    known = _remembered((status.st_dev, status.st_ino))
    with known.lock:
        lines = known.verbatim(session) if verbatim else known.edited(session)
        return len(lines), list(lines[since:])


def _remembered(key: tuple[int, int]) -> _Session:
    with _sessions_lock:
        known = _sessions.pop(key, None) or _Session()
        _sessions[key] = known
        total = sum(len(one.raw.lines) for one in _sessions.values())
        while len(_sessions) > MAX_SESSIONS or (total > MAX_LINES and len(_sessions) > 1):
            _, dropped = _sessions.popitem(last=False)
            total -= len(dropped.raw.lines)
    return known


def _key(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
