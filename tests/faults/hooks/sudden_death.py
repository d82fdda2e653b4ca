"""Death at any write: put this folder on PYTHONPATH, and a process of ours kills itself at a call.

Calls that change what is below the folder KILL_BELOW are counted in each process. The file that
KILL_PLAN names holds ``ROLE NUMBER WHEN``: the process of that role, ``daemon``, ``capture`` or
``respool``, dies at its call of that number, ``before`` it, ``after`` it, or in the ``middle``,
when half the bytes are written. The plan is removed first, so that one process dies of it. Each
call is written down in the file that KILL_LOG names, as ``ROLE CALL FILE``.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path
from typing import Any

CALLS = [
    "fdatasync",
    "fsync",
    "ftruncate",
    "mkdir",
    "open",
    "pwrite",
    "rename",
    "replace",
    "rmdir",
    "truncate",
    "unlink",
    "utime",
    "write",
]
CREATES = os.O_CREAT | os.O_TRUNC

MODULES = {"ambientd.audio.capture": "capture", "ambientd.audio.respool": "respool"}

BELOW = os.environ["KILL_BELOW"] + "/"
PLAN = Path(os.environ["KILL_PLAN"])
LOG = os.environ["KILL_LOG"]

_open, _write, _readlink, _unlink = os.open, os.write, os.readlink, os.unlink
_log_fd = _open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def role() -> str:
    words = [Path(word).name for word in sys.orig_argv]
    if "ambientd" in words:
        return "daemon"
    return next((MODULES[word] for word in words if word in MODULES), "")


def path_of(target: Any, dir_fd: int | None) -> str:
    if isinstance(target, int):
        return _readlink(f"/proc/self/fd/{target}")
    folder = os.getcwd() if dir_fd is None else _readlink(f"/proc/self/fd/{dir_fd}")
    return os.path.join(folder, os.fsdecode(target))


def planned(number: int) -> str:
    """Return when to die at the call of a number; an empty string if not at all."""
    try:
        who, at, when = PLAN.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return ""
    return when if who == ROLE and int(at) == number else ""


def die() -> None:
    _unlink(PLAN)
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(name: str) -> Any:
    real = getattr(os, name)

    @functools.wraps(real)
    def call(target: Any, *args: Any, **kwargs: Any) -> Any:
        global count
        try:
            path = path_of(target, kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
        except OSError:
            path = ""
        changes = name != "open" or args[0] & CREATES
        if not path.startswith(BELOW) or not changes:
            return real(target, *args, **kwargs)
        count += 1
        _write(_log_fd, f"{ROLE} {name} {Path(path).name}\n".encode())
        when = planned(count)
        if when == "before":
            die()
        if when == "middle" and name in ("write", "pwrite"):
            real(target, args[0][: len(args[0]) // 2], *args[1:])
        if when == "middle":
            die()
        try:
            return real(target, *args, **kwargs)
        finally:
            if when == "after":
                die()

    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in able:
            able.add(call)
    return call


ROLE = role()
count = 0
if ROLE:
    for one in CALLS:
        setattr(os, one, deadly(one))
