"""The standard descriptors: prepared, written to, kept clean. Standard library only."""

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
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python found these closed when it started.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def say(text: str) -> int:
    """Write a command's data to stdout; return the command's exit code.

    A reader that has gone has what it wanted; anything else that keeps text from being written is a
    failure.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None
    except OSError as error:
        sys.stdout = None
        sys.stderr.write(f"cannot write the answer: {error.strerror}\n")
        return 1
    return 0


def printable(text: str) -> str:
    """Return text that can do a terminal no harm: control characters and surrogates are shown."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
