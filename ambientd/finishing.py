"""What happens to a session after its microphone is closed, in one order for all.

That is a recording that was stopped, one whose capture died, and one that an earlier daemon left.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import anyio

from ambientd import bounded, logs
from ambientd.errors import AmbientError, StoreError, WriteError, cause
from ambientd.speech.supervisor import Span, Transcriber
from ambientd.store.session import Session

RETRY_S = 1.0
"""Pause between two tries to write to a disk that does not take it."""


HANGING_S = 3.0
"""A write that takes longer is said to hang."""

RELEASE_TIMEOUT_S = 2.0

MAX_THREADS = 8
"""Threads that may hang on the disk at once, of all sessions together."""

Params = ParamSpec("Params")
Value = TypeVar("Value")

_threads = bounded.Threads(MAX_THREADS)
_troubles: dict[object, tuple[str, str]] = {}


async def apart(
    call: Callable[Params, Value], *args: Params.args, **kwargs: Params.kwargs
) -> Value:
    """Run a call that touches the disk in a thread, for as long as it takes.

    Whoever waits may be cancelled although the disk hangs; the call itself then goes on.

    Raises:
        TimeoutError: it was not begun, because calls that were left behind hold every thread.
    """
    return await _threads.run(math.inf, call, *args, **kwargs)


async def promptly(
    deadline_s: float, call: Callable[Params, Value], *args: Params.args, **kwargs: Params.kwargs
) -> Value:
    """Run a call that touches the disk in a thread, to its end also while being cancelled.

    Raises:
        StoreError: it is left behind at its deadline, because the disk hangs (``disk_hanging``).
    """
    with anyio.CancelScope(shield=True):
        try:
            value = await _threads.run(deadline_s, call, *args, **kwargs)
        except TimeoutError:
            logs.event("store.hanging", level=logging.ERROR)
            raise StoreError("the disk does not answer", code="disk_hanging") from None
    return value


async def insist(write: Callable[..., None], *arguments: Any, **fields: Any) -> None:
    """Write to a session, again and again until the disk takes it.

    Nothing is lost meanwhile: turns wait in the worker's pipe, and audio is on disk. A write that
    hangs is waited for and never begun a second time beside the first.

    Raises:
        StoreError: it will never take it, because the folder is gone or a log cannot be read.
    """
    with _Told() as told:
        while True:
            late = asyncio.get_running_loop().call_later(HANGING_S, told.hangs)
            try:
                return await apart(write, *arguments, **fields)
            except TimeoutError:
                told.hangs()
            except WriteError as error:
                if not error.may_pass:
                    raise
                told.fails(error.state, error.message)
            finally:
                late.cancel()
            await anyio.sleep(RETRY_S)


class _Told(contextlib.AbstractContextManager["_Told"]):
    """What is said of one write while the disk does not take it: once in the log, and in status."""

    def hangs(self) -> None:
        self.fails("disk_hanging", "the disk does not answer")

    def fails(self, state: str, message: str) -> None:
        if self not in _troubles:
            logs.event("store.failing", level=logging.ERROR, reason=message)
        _troubles[self] = state, message

    def __exit__(self, *raised: object) -> None:
        if _troubles.pop(self, None) is not None and raised[0] is None:
            logs.event("store.recovered")


def trouble() -> tuple[str, str] | None:
    """Return what keeps a session from being written at the moment.

    Returns:
        ``disk_full``, ``disk_failing`` or ``disk_hanging`` and a sentence; None if nothing does.
    """
    return next(iter(_troubles.values()), None)


async def release(session: Session) -> None:
    """Let go of a session, also of one whose owner is being cancelled.

    A disk that hangs keeps it until this process ends, and is not waited for.
    """
    with contextlib.suppress(StoreError):
        await promptly(RELEASE_TIMEOUT_S, session.release)


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
    except Exception as raised:  # noqa: BLE001 - a defect here must not end the recording
        error = cause(raised)
        is_defect = not isinstance(error, AmbientError)
        reason = error.message if isinstance(error, AmbientError) else repr(error)
        logs.event(
            "transcriber.failed",
            level=logging.ERROR,
            exc_info=is_defect,
            id=session.id,
            reason=reason,
        )
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
        await apart(session.remove_spool, track)
    try:
        await insist(session.write_transcript)
    except StoreError as error:
        logs.event("session.not_done", level=logging.ERROR, id=session.id, reason=error.message)
        await warn(session, f"transcript.md was not written: {error.message}")
        return error.message
    logs.event("session.done", id=session.id)
    return ""
