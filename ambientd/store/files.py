"""The two ways a file of a session is written: appended to as a log, or replaced as a whole.

Names are relative to an opened session directory; no link is followed.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from ambientd.errors import WriteError

PRIVATE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_TAIL_BYTES = 64 << 10


def replace(dir_fd: int, name: str, data: bytes) -> None:
    """Replace a file atomically and durably: readers see the old or the new content, never less.

    The caller is the directory's only writer.

    Raises:
        WriteError: it could not be written; the old content is untouched.
    """
    temporary = f".{name}.tmp"
    try:
        try:
            os.unlink(temporary, dir_fd=dir_fd)  # left by a writer that was killed
        except FileNotFoundError:
            pass
        fd = os.open(temporary, _NEW, PRIVATE, dir_fd=dir_fd)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        os.fsync(dir_fd)
    except OSError as error:
        raise WriteError(name, error) from error


class JsonLog:
    """An append-only file of one JSON object a line.

    A record exists if and only if its complete line is in the file. Whatever a crash or a failed
    write left after the last newline was never published and is cut off before the next append.
    """

    def __init__(self, dir_fd: int, name: str) -> None:
        self._dir_fd = dir_fd
        self._name = name
        self._fd = -1
        self._tail_is_clean = False
        self._name_is_synced = False

    def append(self, record: dict[str, Any]) -> None:
        """Append one record and wait until the disk has it.

        A record that was written and could not be synced is published: readers see it already. It
        is synced with the next one; until then only a power cut can lose it.

        Raises:
            WriteError: it is not in the file; calling again is safe.
        """
        # Unescaped, so that people can read and grep their own language. A lone surrogate, which
        # no speech model emits, cannot be UTF-8 and becomes a question mark.
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = line.encode("utf-8", errors="replace") + b"\n"
        try:
            if self._fd < 0:
                self._fd = os.open(self._name, _LOG, PRIVATE, dir_fd=self._dir_fd)
            if not self._tail_is_clean:
                cut_torn_tail(self._fd)
            self._tail_is_clean = False
            if os.fstat(self._fd).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, "it was removed")
            written = os.write(self._fd, data)
            if written < len(data):
                cut_torn_tail(self._fd)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise WriteError(self._name, error) from error
        self._tail_is_clean = True
        try:
            os.fsync(self._fd)
            if not self._name_is_synced:
                os.fsync(self._dir_fd)
                self._name_is_synced = True
        except OSError:
            pass  # see above

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def cut_torn_tail(fd: int) -> None:
    """Truncate a log to the end of its last newline."""
    size = end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
