"""A machine that sleeps when a test says so: the boot-time clock is ahead of the monotonic one.

Found by PYTHONPATH, in the daemon and its children. The file named by FAKE_SLEEP holds how many
seconds the machine has slept.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_real = time.clock_gettime_ns
_file = os.environ.get("FAKE_SLEEP")


def _clock_gettime_ns(clock: int) -> int:
    slept_ns = 0
    if _file is not None and clock == time.CLOCK_BOOTTIME:
        try:
            slept_ns = int(float(Path(_file).read_text(encoding="ascii")) * 1e9)
        except (FileNotFoundError, ValueError):
            slept_ns = 0
    return _real(clock) + slept_ns


time.clock_gettime_ns = _clock_gettime_ns
