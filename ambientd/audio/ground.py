"""What a capture stands on: free room, and files that are still where they were put.

Looked at in a thread of its own, for which nobody waits: a disk that hangs answers nothing. It
ends with the process.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from ambientd.audio.disk import Send
from ambientd.units import MB_BYTES

LOOK_S = 2.0


class Ground:
    """Tells the daemon once, by ``must_end``, that a capture cannot go on where it is.

    Args:
        file: the capture's native file, which is there.
        floor_bytes: the least free room; 0 when there is no such limit.
        send: sends an event to the daemon.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, file: Path, floor_bytes: int, send: Send) -> None:
        self._file = file
        self._floor_bytes = floor_bytes
        self._send = send
        self._fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._watch, name="ground", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def _watch(self) -> None:
        while (found := self._look()) is None:
            time.sleep(LOOK_S)
        reason, message = found
        self._send("must_end", reason=reason, message=message)

    def _look(self) -> tuple[str, str] | None:
        """Return the kind of event and the sentence with which it must end; None if it need not."""
        try:
            if not self._is_in_place():
                return "folder_gone", "its folder was removed or renamed"
            room = os.fstatvfs(self._fd)
        except OSError:
            return None  # whether the disk takes audio is said elsewhere
        free_bytes = room.f_bavail * room.f_frsize
        if free_bytes >= self._floor_bytes:
            return None
        return "disk_full", (
            f"{free_bytes // MB_BYTES} MB are free, and recording stops below "
            f"{self._floor_bytes // MB_BYTES} MB (capture.disk_floor_mb)"
        )

    def _is_in_place(self) -> bool:
        try:
            named = os.stat(self._file, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        opened = os.fstat(self._fd)
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
