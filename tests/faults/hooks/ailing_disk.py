"""A disk that ails at will: calls below a folder misbehave.

While the file that DISK_FAULT names exists, it holds one line ``CALLS FAULT``. CALLS are names of
functions of ``os``, joined by commas, or ``all``. FAULT is the name of an errno, ``slow SECONDS``,
or ``hang``, which ends with the file. DISK_BELOW is the folder.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import os_calls

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


def fault(name: str) -> list[str]:
    """Return the words of the fault that a call has at the moment; none if it has none."""
    try:
        calls, *words = FAULT.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return []
    return words if calls == "all" or name in calls.split(",") else []


def ail(name: str, path: str, call: Callable[..., Any], arguments: Any) -> Any:
    words = fault(name)
    if words[:1] == ["slow"]:
        time.sleep(float(words[1]))
    elif words == ["hang"]:
        while fault(name) == ["hang"]:
            time.sleep(LOOK_AGAIN_S)
    elif words:
        code = getattr(errno, words[0])
        raise OSError(code, os.strerror(code), path)
    return call(*arguments)


os_calls.put_around(CALLS, BELOW, ail)
