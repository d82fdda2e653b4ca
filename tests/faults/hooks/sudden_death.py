"""Death at any write: a process of ours kills itself at a call.

Calls that change what is below the folder KILL_BELOW are counted in each process. The file that
KILL_PLAN names holds ``ROLE NUMBER WHEN``: the process of that role, ``daemon``, ``capture`` or
``respool``, dies at its call of that number, ``before`` it, ``after`` it, or in the ``middle``,
when half the bytes are written. The plan is removed first, so that one process dies of it. Each
call is written down in the file that KILL_LOG names, as ``ROLE CALL FILE``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import os_calls

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

_open, _write, _unlink = os.open, os.write, os.unlink
_log_fd = _open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def role() -> str:
    words = [Path(word).name for word in sys.orig_argv]
    if "ambientd" in words:
        return "daemon"
    return next((MODULES[word] for word in words if word in MODULES), "")


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


def die_or(name: str, path: str, call: Callable[..., Any], arguments: Any) -> Any:
    global count
    if name == "open" and not arguments[1] & CREATES:
        return call(*arguments)
    count += 1
    _write(_log_fd, f"{ROLE} {name} {Path(path).name}\n".encode())
    when = planned(count)
    if when == "before":
        die()
    if when == "middle" and name in ("write", "pwrite"):
        target, content, *rest = arguments
        call(target, content[: len(content) // 2], *rest)
    if when == "middle":
        die()
    try:
        return call(*arguments)
    finally:
        if when == "after":
            die()


ROLE = role()
count = 0
if ROLE:
    os_calls.put_around(CALLS, BELOW, die_or)
