"""What happens to a session after its microphone is closed, in one order for all.

That is a recording that was stopped, one whose capture died, and one that an earlier daemon left.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from ambientd import logs
from ambientd.errors import StoreError, WriteError
from ambientd.speech.supervisor import Span, Transcriber, TranscriberError
from ambientd.store.session import Session

RETRY_S = 1.0
"""Pause between two tries to write to a disk that does not take it."""


async def insist(write: Callable[..., None], *arguments: Any, **fields: Any) -> None:
    """Write to a session, again and again until the disk takes it.

    Nothing is lost meanwhile: turns wait in the worker's pipe, and audio is on disk.

    Raises:
        StoreError: it will never take it, because the folder is gone or a log cannot be read.
    """
    told = False
    while True:
        try:
            await anyio.to_thread.run_sync(partial(write, *arguments, **fields))
        except WriteError as error:
            if not error.may_pass:
                raise
            if not told:
                logs.event("store.failing", level=logging.ERROR, reason=error.message)
                told = True
            await anyio.sleep(RETRY_S)
            continue
        if told:
            logs.event("store.recovered")
        return


async def note(session: Session, kind: str, **fields: Any) -> None:
    """Append an event to the session's events.jsonl; if that can never be, the log has it alone."""
    try:
        await insist(session.note, kind, **fields)
    except StoreError as error:
        logs.event("event.lost", level=logging.ERROR, kind=kind, reason=error.message)


async def note_skipped(session: Session, span: Span, why: str) -> None:
    """Write down that a turn is given up, before work goes on behind it."""
    logs.event("turn.skipped", level=logging.ERROR, start_ms=span.start_ms, end_ms=span.end_ms)
    await note(
        session,
        "skipped",
        track=span.track,
        start_ms=span.start_ms,
        end_ms=span.end_ms,
        reason=f"it cost two transcriber workers: {why}",
    )


async def transcribe(transcriber: Transcriber, session: Session) -> None:
    """Run a transcriber to its end; its failure is a warning in session.json, not the session's."""
    try:
        await transcriber.run()
    except TranscriberError as error:
        reason = error.message
        logs.event("transcriber.failed", level=logging.ERROR, id=session.id, reason=reason)
    except Exception as error:  # noqa: BLE001 - a defect here must not end the recording
        reason = repr(error)
        logs.event("transcriber.failed", level=logging.ERROR, exc_info=True, id=session.id)
    else:
        return
    transcriber.state, transcriber.problem = "failed", reason
    await warn(session, f"not fully transcribed: {reason}")


async def warn(session: Session, text: str) -> None:
    """Add a warning to session.json; a folder that is gone needs none."""
    session.meta["warnings"].append(text)
    try:
        await insist(session.save)
    except StoreError as error:
        logs.event("store.gone", level=logging.ERROR, id=session.id, reason=error.message)


async def write_end(session: Session, duration_ms: int) -> None:
    """Write down when a session ended.

    Args:
        session: a session nothing is recorded into any more.
        duration_ms: its length.
    """
    started_at = datetime.datetime.fromisoformat(session.meta["started_at"])
    # With the offset of then: summer time may have begun or ended meanwhile.
    ended_at = (started_at + datetime.timedelta(milliseconds=duration_ms)).astimezone()
    session.meta["ended_at"] = ended_at.isoformat(timespec="milliseconds")
    session.meta["duration_s"] = round(duration_ms / 1000, 3)
    await insist(session.save)


async def complete(session: Session, tracks: Iterable[str]) -> str:
    """Write transcript.md and delete the spools: the session is done.

    Returns:
        Why it is not done after all, or an empty string.
    """
    # The spools first: once there is a transcript, nobody looks for what is left over, and if this
    # is as far as we get, recovery makes them anew.
    for track in tracks:
        await anyio.to_thread.run_sync(session.remove_spool, track)
    try:
        await insist(session.write_transcript)
    except StoreError as error:
        logs.event("session.not_done", level=logging.ERROR, id=session.id, reason=error.message)
        await warn(session, f"transcript.md was not written: {error.message}")
        return error.message
    logs.event("session.done", id=session.id)
    return ""
