"""The thread that makes the disk keep what was written; nobody waits for it but the end."""

from __future__ import annotations

import threading
import time

from ambientd.audio.disk import Disk
from ambientd.audio.track_files import TrackFiles

SYNC_S = 1.0
LAST_SYNC_S = 4.0
"""How long the end waits for the last sync. The daemon waits 10 s for a capture that closes, and
what is written survives this process without it; only a power cut could take it."""

TOUCH_S = 4.0
"""Readers take a capture for open until 10 s after its last touch; 5 s are promised."""

SYNCED = "synced"


class Syncer:
    """Syncs a track's files once a second until ``finish``.

    Args:
        files: the track's files, open until after ``finish``.
        disk: learns whether it works.
    """

    def __init__(self, files: TrackFiles, disk: Disk) -> None:
        self._files = files
        self._disk = disk
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)

    def start(self) -> None:
        """Begin to sync."""
        self._thread.start()

    def finish(self) -> None:
        """Sync what was written until now and stop; a disk that is slow is waited for a while."""
        self._stop.set()
        self._thread.join(LAST_SYNC_S)

    def _run(self) -> None:
        last_touch_s = time.monotonic()
        while not self._stop.wait(SYNC_S):
            self._disk.takes(SYNCED, self._files.sync)
            if time.monotonic() - last_touch_s >= TOUCH_S:
                last_touch_s = time.monotonic()
                self._disk.takes("marked as open", self._files.touch)
        self._disk.takes(SYNCED, self._files.sync)
