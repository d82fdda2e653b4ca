"""The folders a daemon uses, checked before anything else is opened in them.

Whoever else can write to the root could plant files under it, so a root that is not ours alone to
write is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ambientd import __version__
from ambientd.errors import AlreadyRunningError, RootError

LOCK_NAME = ".ambientd.lock"


def prepare_root(root: Path) -> None:
    """Create the sessions folder if need be and check that it is ours alone to write.

    Raises:
        RootError: it cannot be created, read or written, or belongs to somebody else.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
    except OSError as error:
        raise RootError(
            f"cannot use {root}: {error.strerror}", "choose another folder with --root"
        ) from None
    if not stat.S_ISDIR(status.st_mode):
        raise RootError(f"{root} is no folder", "choose another with --root")
    if status.st_uid != os.getuid():
        raise RootError(
            f"{root} belongs to user {status.st_uid}", "choose a folder of your own with --root"
        )
    if status.st_mode & 0o022:
        raise RootError(f"others can write to {root}", f"chmod go-w '{root}'")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise RootError(
            f"cannot read and write {root}", f"chmod u+rwx '{root}', if its disk can be written to"
        )


def prepare_private_folder(folder: Path) -> None:
    """Create a folder of mode 0700 for the socket or for remembered state.

    Raises:
        RootError: it cannot be created, or others could replace what is in it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise RootError(f"cannot use {folder}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise RootError(f"{folder} is not a folder of your own")
    if status.st_mode & 0o022:
        raise RootError(f"others can write to {folder}", f"chmod go-w '{folder}'")


@contextmanager
def locked_root(root: Path) -> Iterator[int]:
    """Hold the root for this daemon's life.

    Yields:
        The lock file's descriptor, for ``describe_holder``.

    Raises:
        AlreadyRunningError: another daemon holds it.
        RootError: it cannot be locked.
    """
    path = root / LOCK_NAME
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RootError(f"cannot open {path}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            raise AlreadyRunningError(
                f"another ambientd{holder} serves {root}", "stop it first, or use another --root"
            ) from None
        except OSError as error:
            raise RootError(f"cannot lock {path}: {error.strerror}") from None
        # The file stays: removing it would let a third daemon lock a new one beside a waiting one.
        yield fd
    finally:
        os.close(fd)


def is_in_place(root: Path, lock_fd: int) -> bool:
    """Tell whether a held lock file is still where another daemon would look for it.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        named = os.stat(root / LOCK_NAME, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    held = os.fstat(lock_fd)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def describe_holder(lock_fd: int, socket_path: str) -> None:
    """Write into a held lock file who holds it; for people, and for the refusal of a second."""
    body = {"pid": os.getpid(), "socket": socket_path, "version": __version__}
    try:
        os.ftruncate(lock_fd, 0)
        os.pwrite(lock_fd, json.dumps(body).encode("ascii") + b"\n", 0)
    except OSError:
        pass  # a full disk; the lock itself needs no room


def _holder(fd: int) -> str:
    try:
        return f" (pid {json.loads(os.pread(fd, 4096, 0))['pid']})"
    except (ValueError, KeyError, TypeError):
        return ""
