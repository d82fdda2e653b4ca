"""transcribing.lock: who writes a session.

Readers believe the pid in the file; writers believe the flock, which the kernel drops with its
holder. So a crash never leaves a session locked, and a pid that was given to another program
cannot keep one locked either.
"""

from __future__ import annotations

import fcntl
import os

from ambientd.errors import StoreError, disk_advice
from ambientd.store import layout

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class SessionLock:
    """A held lock. Get one with ``claim``."""

    def __init__(self, dir_fd: int, fd: int) -> None:
        self._dir_fd = dir_fd
        self._fd = fd

    def release(self) -> None:
        """Remove the file while it is held, then let go; a second call does nothing."""
        if self._fd < 0:
            return
        try:
            os.unlink(layout.LOCK, dir_fd=self._dir_fd)
        except OSError:
            pass  # somebody removed it, or the folder; there is nothing left to release
        os.close(self._fd)
        self._fd = -1


def claim(dir_fd: int, session_id: str) -> SessionLock:
    """Take the lock of a session that has our mark.

    Args:
        dir_fd: the opened session directory.
        session_id: its name, for the error.

    Raises:
        StoreError: another process holds it (code ``locked``), or it cannot be opened.
    """
    while True:
        try:
            fd = os.open(layout.LOCK, _OPEN, 0o600, dir_fd=dir_fd)
        except OSError as error:
            raise _error(session_id, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise StoreError(f"{session_id} is being written", code="locked") from None
        # Between our open and our flock its holder may have removed the file: then we hold a lock
        # that nobody else can see.
        try:
            if _is_current(dir_fd, fd):
                os.ftruncate(fd, 0)
                os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
                return SessionLock(dir_fd, fd)
        except OSError as error:
            os.close(fd)
            raise _error(session_id, error) from error
        os.close(fd)


def _error(session_id: str, error: OSError) -> StoreError:
    return StoreError(f"cannot lock {session_id}: {error.strerror}", disk_advice(error))


def _is_current(dir_fd: int, fd: int) -> bool:
    try:
        named = os.stat(layout.LOCK, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
