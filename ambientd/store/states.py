"""In what state a session is: what its files say, and what this process records itself."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from ambientd.errors import StoreError
from ambientd.store import layout
from ambientd.store.folder import DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ambientd.store.folder import Folder

LIVE_WITHIN_S = 10.0
"""An open capture touches its native file at least every 5 s."""

_recorded_here: set[tuple[int, int]] = set()


@contextlib.contextmanager
def recorded_here(folder_fd: int) -> Iterator[None]:
    """Have a session be live as long as this process records it.

    Its files may lag behind: the disk stalls, the machine slept, the capture was stopped.

    Args:
        folder_fd: the opened session directory.
    """
    status = os.fstat(folder_fd)
    key = (status.st_dev, status.st_ino)
    _recorded_here.add(key)
    try:
        yield
    finally:
        _recorded_here.discard(key)


def is_live(session: Folder, now_s: float | None = None) -> bool:
    """Tell whether a session is being recorded: by us, or its room capture is open and growing.

    Raises:
        DiskError: it could not be looked at; so do the others below.
    """
    if _recorded_here:
        status = os.fstat(session.fd)
        if (status.st_dev, status.st_ino) in _recorded_here:
            return True
    audio = session.try_subfolder(layout.AUDIO)
    if audio is None:
        return False
    with audio:
        name = layout.native_wav(layout.ROOM)
        capture = audio.status(name)
        if capture is None or not audio.is_file(name):
            return False
        age_s = (time.time() if now_s is None else now_s) - capture.st_mtime
        return 0 <= age_s <= LIVE_WITHIN_S


def is_transcribing(session: Folder) -> bool:
    """Tell whether the session's lock names a process that lives."""
    try:
        text = session.read(layout.LOCK, layout.MAX_LOCK_BYTES) or b""
        pid = int(text.decode("ascii"))
        if pid <= 0:
            return False
        os.kill(pid, 0)
    except DiskError:
        raise
    except PermissionError:
        return True  # somebody else's process, but a process
    except (StoreError, ValueError, OverflowError, ProcessLookupError):
        return False
    return True


def is_done(session: Folder) -> bool:
    """Tell whether the session has its transcript.md."""
    return session.is_there(layout.TRANSCRIPT)


def state(session: Folder) -> str:
    """Return ``live``, ``transcribing``, ``done`` or ``pending``; the first that fits."""
    if is_live(session):
        return "live"
    if is_transcribing(session):
        return "transcribing"
    return "done" if is_done(session) else "pending"


def has_recording(session: Folder) -> bool:
    """Tell whether the session holds a capture, closed or not."""
    audio = session.try_subfolder(layout.AUDIO)
    if audio is None:
        return False
    with audio:
        return any(name.endswith(".wav") and audio.is_file(name) for name in audio.names())
