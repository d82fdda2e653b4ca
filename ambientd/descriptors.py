"""Keeps the standard descriptors occupied. Standard library only; the clients use it too."""

import os
import sys


def fill_standard() -> None:
    """Open the null device in place of each of stdin, stdout and stderr that is closed.

    Otherwise the next file or socket that is opened gets its number, and whoever reads stdin or
    prints an error reads or writes that.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        # Python found it closed when it started.
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
