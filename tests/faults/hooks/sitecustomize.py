"""Faults within the processes of a daemon: put this folder on PYTHONPATH, and name what to do."""

import os

if "DISK_FAULT" in os.environ:
    import ailing_disk  # noqa: F401
if "KILL_PLAN" in os.environ:
    import sudden_death  # noqa: F401
