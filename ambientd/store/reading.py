"""Reading sessions: which there are, in what state each is, and what was said.

The one body of code behind the MCP tools, the command line and transcript.md, so that they cannot
disagree.
"""

from __future__ import annotations

import datetime
import os
import threading
from collections import OrderedDict
from typing import NamedTuple

from ambientd import wire
from ambientd.errors import StoreError
from ambientd.store import layout, memory, metadata, states
from ambientd.store.catalogue import Catalogue, Look, Rest
from ambientd.store.folder import DiskError, Folder, open_root
from ambientd.store.turns import Line


class Summary(NamedTuple):
    """One row of the tool ``sessions``, its members in the order in which they are written."""

    id: str
    dir: str
    name: str | None
    started_at: str | None
    duration_s: float | None
    transcribed: bool
    live: bool
    transcribing: bool
    error: str | None


class NoSessionError(StoreError):
    """There is no session of that name."""

    code = "no_session"


class Overview(NamedTuple):
    """What the tool ``status`` says.

    Attributes:
        live: name of the session being recorded, the last by name if there are several.
        awaiting_transcript: how many pending sessions hold a finished recording.
        sessions: how many sessions there are: as many as ``summaries`` lists.
    """

    live: str | None
    awaiting_transcript: int
    sessions: int


def summaries(root: str) -> list[Summary]:
    """Return a row for each session, newest first by its start as an instant.

    Sessions without a start that can be read come last, by name, the greatest first.

    Raises:
        StoreError: the root or a session could not be looked at; so does ``overview``.
    """
    top = open_root(root)
    if top is None:
        return []
    with top:
        known = _catalogue(top).rows(top)
    known.sort(key=lambda one: one.order, reverse=True)
    return [one.summary for one in known]


def overview(root: str) -> Overview:
    """Count the sessions and find the one being recorded."""
    top = open_root(root)
    if top is None:
        return Overview(None, 0, 0)
    with top:
        done, others = _catalogue(top).count(top)
    live = max((one.summary.id for one in others if one.summary.live), default=None)
    awaiting = sum(one.awaits_transcript for one in others)
    return Overview(live, awaiting, done + len(others))


class _Known(NamedTuple):
    """What the catalogue keeps of a session."""

    summary: Summary
    order: tuple[float, str]
    awaits_transcript: bool


_catalogues: OrderedDict[str, Catalogue[_Known]] = OrderedDict()
_catalogues_lock = threading.Lock()
MAX_CATALOGUES = 4


def _catalogue(top: Folder) -> Catalogue[_Known]:
    with _catalogues_lock:
        known = _catalogues.pop(top.path, None) or Catalogue(_look)
        _catalogues[top.path] = known
        while len(_catalogues) > MAX_CATALOGUES:
            _catalogues.popitem(last=False)
    return known


def _look(session: Folder, name: str) -> Look[_Known]:
    """Look at a folder: a session holds a session.json or a capture that is growing."""
    if not session.is_there(layout.SESSION) and not states.is_live(session):
        return Look(None, Rest.WAITING)
    summary = _summary(session, name)
    pending = not (summary.live or summary.transcribing or summary.transcribed)
    awaits = pending and states.has_recording(session)
    if summary.live or session.is_there(layout.LOCK):
        rest = Rest.BUSY
    else:
        rest = Rest.DONE if summary.transcribed else Rest.WAITING
    order = (_instant(summary.started_at), summary.id)
    return Look(_Known(summary, order, awaits), rest)


def open_session(root: str, session_id: str) -> Folder:
    """Open a session for reading.

    Raises:
        NoSessionError: there is none, or the name is no session's.
        StoreError: it is a link, or may not be opened.
    """
    if not layout.is_session_id(session_id):
        name = wire.short(session_id)
        raise NoSessionError(f"no session {name!r}: an id is a single folder name")
    top = open_root(root)
    session = None
    if top is not None:
        with top:
            session = top.subfolder(session_id)
    if session is None:
        raise NoSessionError(f"no session {wire.short(session_id)}")
    return session


def transcript_appended(
    session: Folder, verbatim: bool = False, since: int = 0
) -> tuple[int, list[Line]]:
    """Return the turns in the order in which they were published: what a cursor counts.

    Args:
        session: the opened session.
        verbatim: whether to leave the edits out.
        since: how many to leave out.

    Returns:
        How many turns there are in all, and those from ``since`` on.

    Raises:
        StoreError: a log is refused, or a complete line of it does not parse.
    """
    return memory.transcript(session, verbatim, since)


def transcript(root: str, session_id: str, verbatim: bool = False) -> list[Line]:
    """Return the turns in the order in which people read them, by start.

    Raises:
        StoreError: there is no such session, or a log of it cannot be read.
    """
    with open_session(root, session_id) as session:
        _, lines = transcript_appended(session, verbatim)
    return sorted(lines, key=lambda line: line.start_ms)


def _summary(session: Folder, name: str) -> Summary:
    meta, error = metadata.Metadata(), None
    try:
        meta = metadata.read(session)
        for log in (layout.RAW, layout.EDITS):
            if session.is_there(log) and not session.is_file(log):
                raise StoreError(f"refusing symlink {os.path.join(session.path, log)}")
    except DiskError:
        raise
    except StoreError as problem:
        meta, error = metadata.Metadata(), problem.message
    return Summary(
        id=name,
        dir=session.path,
        name=meta.name,
        started_at=meta.started_at,
        duration_s=meta.duration_s,
        transcribed=states.is_done(session),
        live=states.is_live(session),
        transcribing=states.is_transcribing(session),
        error=error,
    )


def _instant(started_at: str | None) -> float:
    try:
        return datetime.datetime.fromisoformat(started_at or "").timestamp()
    except (ValueError, OverflowError):
        return float("-inf")
