"""Clocks that go on while the machine sleeps, and how long it slept.

Standard library only. Track time is told by the boot-time clock, because what was not recorded
while the machine slept is a gap like any other; deadlines are told by ``time.monotonic``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache

if sys.platform == "darwin":
    # There CLOCK_MONOTONIC goes on in sleep, and CLOCK_UPTIME_RAW stands still (clock_gettime(3)).
    _BOOT, _AWAKE = time.CLOCK_MONOTONIC, time.CLOCK_UPTIME_RAW
else:
    _BOOT, _AWAKE = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC


def boot_ns() -> int:
    """Return the time since the machine was started, sleep included; the same in each process."""
    return time.clock_gettime_ns(_BOOT)


def slept_ns() -> int:
    """Return how long the machine has slept since it was started, up to a constant."""
    return time.clock_gettime_ns(_BOOT) - time.clock_gettime_ns(_AWAKE)


@cache
def boot_id() -> str:
    """Return what tells one start of the machine from every other; empty if it cannot be had."""
    try:
        if sys.platform == "darwin":
            asked = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=5)
            return done.stdout.strip()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, subprocess.SubprocessError):
        return ""
