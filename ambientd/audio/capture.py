"""The capture child: one track from its source to its files.

A process of its own, because a Python callback waits for the GIL of its process, because PortAudio
must be torn down to see new devices, and because a stuck device must be killable. When its stdin
closes it finishes its files and exits: a daemon that dies loses no audio.

Orders: ``open``, ``begin``, ``stop``. Events: ``open`` or ``fault``, ``begun``, ``progress``,
``gap``, ``overflow``, ``disk``, ``must_end``, ``ended``, ``closed``.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from ambientd.audio.ground import Ground
from ambientd.audio.source import Source
from ambientd.audio.track_files import TrackFiles
from ambientd.audio.writer import Writer
from ambientd.errors import AmbientError, CaptureError, disk_advice
from ambientd.pipe import ParentPipe
from ambientd.store.layout import native_wav

LAST_WORDS_S = 5.0
"""How long the daemon has to take the last events."""


def main() -> int:
    """Obey the daemon's orders; return the exit code."""
    # A terminal's Ctrl-C reaches the whole group; when to stop is the daemon's to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pipe = ParentPipe(patient=False)
    try:
        _obey(pipe)
    except AmbientError as error:
        pipe.send_fault(error)
        return 1
    finally:
        pipe.finish(LAST_WORDS_S)
    return 0


def _obey(pipe: ParentPipe) -> None:
    source: Source | None = None
    writer: Writer | None = None
    try:
        for order in pipe.orders():
            if order["order"] == "open":
                source = make_source(order["source"])
                started_at_ns = source.open()
                pipe.send(
                    "open",
                    device=source.device,
                    rate_hz=source.rate_hz,
                    started_at_ns=started_at_ns,
                )
            elif order["order"] == "begin" and source is not None:
                writer = _begin(pipe, source, order)
            elif order["order"] == "stop":
                break
    finally:
        if source is not None:
            source.close()
        if writer is not None:
            writer.finish()


def make_source(wanted: dict[str, Any]) -> Source:
    """Return the source that an ``open`` order describes, not opened yet."""
    if wanted["kind"] == "file":
        from ambientd.audio.replay import Replay

        return Replay(Path(wanted["path"]), wanted["speed"])
    from ambientd.audio.portaudio import Microphone

    return Microphone(wanted["name"])


def _begin(pipe: ParentPipe, source: Source, order: dict[str, Any]) -> Writer:
    folder, track = Path(order["folder"]), order["track"]
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            files = TrackFiles(folder_fd, track, source.rate_hz, spool=order["spool"])
        finally:
            os.close(folder_fd)
        ground = Ground(folder / native_wav(track), order.get("floor_bytes", 0), pipe.send)
    except OSError as error:
        raise CaptureError(
            f"cannot create the audio files: {error.strerror}", disk_advice(error)
        ) from error
    writer = Writer(source, files, pipe.send)
    source.begin()
    writer.start()
    ground.start()
    pipe.send("begun")
    return writer


if __name__ == "__main__":
    code = main()
    # A device that is stuck in its driver must not keep the process.
    os._exit(code)
