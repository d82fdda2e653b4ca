"""A disk that ails at will: put this folder on PYTHONPATH and calls below a folder misbehave.

While the file that DISK_FAULT names exists, it holds one line ``CALLS FAULT``. CALLS are names of
functions of ``os``, joined by commas, or ``all``. FAULT is the name of an errno, ``slow SECONDS``,
or ``hang``, which ends with the file. DISK_BELOW is the folder.
"""

from __future__ import annotations

import errno
import functools
import os
import time
from pathlib import Path
from typing import Any

CALLS = [
    "fdatasync",
    "fstatvfs",
    "fsync",
    "ftruncate",
    "link",
    "listdir",
    "mkdir",
    "open",
    "pread",
    "pwrite",
    "rename",
    "rmdir",
    "scandir",
    "stat",
    "statvfs",
    "unlink",
    "utime",
    "write",
]
LOOK_AGAIN_S = 0.02

BELOW = os.environ["DISK_BELOW"]
FAULT = Path(os.environ["DISK_FAULT"])

_readlink = os.readlink


def fault(name: str) -> list[str]:
    """Return the words of the fault that a call has at the moment; none if it has none."""
    try:
        calls, *words = FAULT.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return []
    return words if calls == "all" or name in calls.split(",") else []


def path_of(target: Any, dir_fd: int | None) -> str:
    if isinstance(target, int):
        return _readlink(f"/proc/self/fd/{target}")
    folder = "" if dir_fd is None else _readlink(f"/proc/self/fd/{dir_fd}")
    return os.path.join(folder, os.fsdecode(target))


def ailing(name: str) -> Any:
    real = getattr(os, name)

    @functools.wraps(real)
    def call(target: Any = ".", *args: Any, **kwargs: Any) -> Any:
        try:
            path = path_of(target, kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
        except OSError:
            path = ""
        if path.startswith(BELOW):
            ail(name, path)
        return real(target, *args, **kwargs)

    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in able:
            able.add(call)
    return call


def ail(name: str, path: str) -> None:
    words = fault(name)
    if words[:1] == ["slow"]:
        time.sleep(float(words[1]))
    elif words == ["hang"]:
        while fault(name) == ["hang"]:
            time.sleep(LOOK_AGAIN_S)
    elif words:
        code = getattr(errno, words[0])
        raise OSError(code, os.strerror(code), path)


for one in CALLS:
    setattr(os, one, ailing(one))
