"""Prepares the standard descriptors. Standard library only; the clients use it too."""

import io
import os
import sys


def prepare_standard() -> None:
    """Occupy closed standard descriptors, and write text as UTF-8 whatever the locale.

    The next file or socket that is opened would get the number of a closed one, and whoever reads
    stdin or prints an error would read or write that. Service managers and clients start programs
    in the C locale, whose encoding cannot spell what people say.
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
