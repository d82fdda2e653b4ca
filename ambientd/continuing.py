"""A session whose daemon died a moment ago goes on, with a gap, under the consent it had.

Only within the same start of the machine, while that consent holds, and if its last audio is not
older than a minute: nobody is to be heard who has forgotten that it listened. What does not fit is
finished by ``recovery``.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any, NamedTuple

from ambientd import clock, finishing, recovery
from ambientd.audio import wav
from ambientd.capture import Since
from ambientd.consent import Consent
from ambientd.errors import AmbientError, StoreError
from ambientd.recording import Head, Recording, Wanted
from ambientd.speech.supervisor import Track
from ambientd.store import layout
from ambientd.store import session as sessions
from ambientd.track import LATE_START

DAEMON_RESTARTED = "daemon_restarted"
"""The reason of the gap between."""


class Interrupted(NamedTuple):
    """A session that may go on.

    Attributes:
        path: its folder.
        consent: under which it was recorded.
        meta: the content of its session.json.
        paused: whether a person had paused it.
        muted: the tracks that a person had muted.
    """

    path: Path
    consent: Consent
    meta: dict[str, Any]
    paused: bool
    muted: frozenset[str]

    @property
    def start_ns(self) -> int:
        """Track time 0, as ``clock.boot_ns``."""
        return int(self.meta["boot"]["start_ns"])


def find(root: Path, within_s: float, now: datetime.datetime) -> Interrupted | None:
    """Return the session that goes on, if one does.

    Args:
        root: the sessions folder.
        within_s: how old its last audio may be.
        now: the time.
    """
    for path in reversed(recovery.unfinished(root)):
        try:
            meta = sessions.read_own_meta(path)
            if meta is not None and _may_go_on(path, meta, within_s):
                consent = Consent.from_json(meta["consent"])
                if consent.until is None or consent.until > now:
                    return Interrupted(path, consent, meta, *_held(path))
        except (OSError, StoreError, ValueError, KeyError, TypeError):
            continue  # whatever it is, recovery says what is wrong with it
    return None


def _may_go_on(path: Path, meta: dict[str, Any], within_s: float) -> bool:
    if meta["ended_at"] is not None or not meta["boot"]["id"] == clock.boot_id() != "":
        return False
    native = path / layout.AUDIO / layout.native_wav(layout.ROOM)
    fd = os.open(native, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        last_ns = meta["boot"]["start_ns"] + wav.measure(fd).ms * 1_000_000
    finally:
        os.close(fd)
    # A device that counts fast is a little ahead of the clock; what is far ahead tells no time.
    return bool(abs(clock.boot_ns() - last_ns) < within_s * 1e9)


def _held(path: Path) -> tuple[bool, frozenset[str]]:
    """Return whether a session was paused, and which tracks were muted."""
    paused, muted = False, set()
    for record in recovery.events(path):
        if record["kind"] in ("paused", "resumed"):
            paused = record["kind"] == "paused"
        elif record["kind"] == "track_muted":
            muted.add(str(record["track"]))
        elif record["kind"] == "track_unmuted":
            muted.discard(str(record["track"]))
    return paused, frozenset(muted)


async def go_on(found: Interrupted, wanted: Wanted) -> Recording:
    """Open the session again; the caller runs the result.

    Raises:
        AmbientError: it cannot be opened, or its audio cannot be mended.
    """
    session = await finishing.apart(sessions.reopen, found.path)
    try:
        heads = {}
        for track in wanted.sources:
            native = session.audio_path / layout.native_wav(track)
            if not await finishing.apart(native.exists):
                since = Since(0, found.start_ns, LATE_START)
                heads[track] = Head(since, Track(session.audio_path / layout.spool(track)), None)
                continue
            await recovery.wait_for_capture(native)
            length = await finishing.apart(wav.repair, native)
            at_ns = found.start_ns + length.frames * 1_000_000_000 // length.rate_hz
            since = Since(length.frames, at_ns, DAEMON_RESTARTED, length.rate_hz)
            heads[track] = Head(since, await recovery.open_track(session, track, native), None)
        recording = Recording(session, wanted, heads, found.start_ns)
        await finishing.note(
            session, DAEMON_RESTARTED, track=layout.ROOM, start_ms=recording.captured_ms
        )
    except (OSError, ValueError) as error:
        await finishing.release(session)
        raise AmbientError(f"it cannot go on: {error}") from error
    except BaseException:
        await finishing.release(session)
        raise
    return recording
