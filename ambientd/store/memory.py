"""What was read of a session's logs before, so that a poll costs what is new.

Nothing is believed that the disk does not confirm at each call: a log is opened, and only if it is
still the same file that has grown is the rest of it read; anything else is read anew. Bounded by
sessions and by bytes.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ambientd.store import freshness, layout, turns
from ambientd.store.edits import Fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ambientd.store.folder import Folder
    from ambientd.store.freshness import Stamp
    from ambientd.store.turns import Line

MAX_SESSIONS = 16
MAX_BYTES = 24 << 20
"""Of logs whose turns are kept, all sessions together; parsed, they take about four times as much.
A longer log is read anew at each call."""

TAIL_BYTES = 512
"""Compared before a log is taken to have grown: a new file may get an old one's inode."""


class _Raw:
    """raw.jsonl as far as it was parsed.

    Attributes:
        lines: the turns of its complete lines.
        size_bytes: how much of the file they are.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.size_bytes = 0
        self._seen: Stamp | None = None
        self._may_have_changed = False
        self._tail = b""
        self._line_count = 0

    def start_of_news(self, status: os.stat_result) -> int | None:
        """Return where to read: nowhere, from shortly before what is new, or from the start."""
        now, seen = freshness.stamp(status), self._seen
        if seen is None or now.inode != seen.inode or now.size < seen.size:
            return 0
        if now == seen and not self._may_have_changed:
            return None
        if now != seen and now.size == seen.size:
            return 0  # of the same size and yet written to: it was changed in place
        return self.size_bytes - len(self._tail)

    def continues_in(self, data: bytes) -> bool:
        """Tell whether what was read from ``start_of_news`` on begins with what is known."""
        return data.startswith(self._tail)

    def extend(self, data: bytes, status: os.stat_result, path: str) -> None:
        """Take what was read from ``start_of_news`` on.

        Raises:
            StoreError: a complete line is no turn; nothing of ``data`` was taken.
        """
        end = data.rfind(b"\n") + 1
        new = data[len(self._tail) : end]
        self.lines += turns.parse(new, path, first=self._line_count + 1)
        self._line_count += new.count(b"\n")
        self.size_bytes += len(new)
        self._tail = data[:end][-TAIL_BYTES:]
        self._seen = freshness.stamp(status)
        self._may_have_changed = freshness.may_deceive(self._seen)


class _Session:
    """One session's logs, and the fold of the two."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._raw = _Raw()
        self._edits: list[dict[str, Any]] = []
        self._edits_stamp: Stamp | None = None
        self._fold = Fold([])
        self._fold_of = (self._raw, self._edits)
        self._folded: list[Line] = []

    @property
    def size_bytes(self) -> int:
        """How much of raw.jsonl is kept."""
        return self._raw.size_bytes

    def verbatim(self, session: Folder) -> Sequence[Line]:
        """Return the turns as they were published."""
        self._raw = self._read_raw(session)
        return self._raw.lines

    def edited(self, session: Folder) -> Sequence[Line]:
        """Return the turns with their edits."""
        lines = self.verbatim(session)
        self._read_edits(session)
        if self._fold_of[0] is not self._raw or self._fold_of[1] is not self._edits:
            self._fold, self._folded = Fold(self._edits), []
            self._fold_of = (self._raw, self._edits)
        self._folded += self._fold.extend(lines[len(self._folded) :])
        return self._folded

    def _read_raw(self, session: Folder) -> _Raw:
        """Return what is known of raw.jsonl now: the same object exactly if earlier lines stand."""
        raw = self._raw
        while True:
            found = session.read_from(layout.RAW, raw.start_of_news, layout.MAX_RAW_BYTES)
            if found is None:
                return _Raw()
            status, data = found
            if data is None:
                return raw
            if raw.start_of_news(status) == 0:
                # A new one, which is kept only if all of it can be parsed.
                raw = _Raw()
            elif not raw.continues_in(data):
                raw = _Raw()
                continue
            raw.extend(data, status, os.path.join(session.path, layout.RAW))
            return raw

    def _read_edits(self, session: Folder) -> None:
        def start(status: os.stat_result) -> int | None:
            return None if freshness.stamp(status) == self._edits_stamp else 0

        found = session.read_from(layout.EDITS, start, layout.MAX_EDITS_BYTES)
        if found is None:
            self._edits, self._edits_stamp = self._edits and [], None
            return
        status, data = found
        if data is not None:
            path = os.path.join(session.path, layout.EDITS)
            self._edits = [edit for _, edit in turns.records(data, path)]
            now = freshness.stamp(status)
            self._edits_stamp = None if freshness.may_deceive(now) else now


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
    key = (status.st_dev, status.st_ino)
    with _sessions_lock:
        known = _sessions.pop(key, None) or _Session()
        _sessions[key] = known
    try:
        with known.lock:
            lines = known.verbatim(session) if verbatim else known.edited(session)
            return len(lines), list(lines[since:])
    finally:
        _forget_what_is_too_much()


def _forget_what_is_too_much() -> None:
    with _sessions_lock:
        total = sum(one.size_bytes for one in _sessions.values())
        while len(_sessions) > MAX_SESSIONS or total > MAX_BYTES:
            _, dropped = _sessions.popitem(last=False)
            total -= dropped.size_bytes
