"""The capture child: one track from its source to its files.

A process of its own, because a Python callback waits for the GIL of its process, because PortAudio
must be torn down to see new devices, and because a stuck device must be killable. When its stdin
closes it finishes its files and exits: a daemon that dies loses no audio.

A track may be recorded by several capture children, one after another: each goes on where the last
one left the files. What lies between is a gap.

Before it records it may listen: then two seconds are in memory, and nothing is in a file.

Orders: ``open``, ``listen``, ``hold``, ``begin``, ``stop``. Events: ``waiting``, ``open`` or
``fault``, ``level``, ``held``, ``begun``, ``progress``, ``gap``, ``overflow``, ``input``, ``disk``,
``must_end``, ``ended``, ``closed``.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from ambientd.audio.ground import Ground
from ambientd.audio.preroll import Preroll
from ambientd.audio.source import Instant, Source
from ambientd.audio.track_files import TrackFiles
from ambientd.audio.writer import Writer
from ambientd.errors import AmbientError, CaptureError, disk_advice
from ambientd.pipe import ParentPipe
from ambientd.store.layout import native_wav

LAST_WORDS_S = 5.0
"""How long the daemon has to take the last events."""

RETRY_S = 1.0
"""Between two looks for a device that went away."""

MAY_COME = {"device_busy", "device_failed", "no_audio", "no_microphone", "no_such_device"}
"""Why a device does not open that may open later."""


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
    opened: Instant | None = None
    preroll: Preroll | None = None
    delivers = False
    writer: Writer | None = None
    try:
        for order in pipe.orders():
            if order["order"] == "open":
                source = make_source(order["source"])
                opened = _open(pipe, source, wait=order["wait"])
                if opened is None:
                    break
                pipe.send(
                    "open",
                    **source.input()._asdict(),
                    rate_hz=source.rate_hz,
                    **opened._asdict(),
                )
            elif order["order"] == "listen" and source is not None:
                source.begin(0)
                delivers = True
                preroll = Preroll(source, pipe.send, order["fd"])
                preroll.start()
            elif order["order"] == "hold" and preroll is not None:
                opened, preroll = preroll.stop(), None
                pipe.send("held", **opened._asdict())
            elif order["order"] == "begin" and source is not None and opened is not None:
                files, ground = _open_files(pipe, source, order)
                _leave_gap(pipe, files, opened, order["since"])
                if not delivers:
                    source.begin(files.start_frames)
                writer = Writer(source, files, pipe.send)
                writer.start()
                ground.start()
                pipe.send("begun", rate_hz=files.rate_hz)
            elif order["order"] == "stop":
                break
    finally:
        if preroll is not None:
            preroll.stop()
        if source is not None:
            with contextlib.suppress(CaptureError):
                source.close()
        if writer is not None:
            writer.finish()


def _open(pipe: ParentPipe, source: Source, *, wait: bool) -> Instant | None:
    """Open the source; with ``wait`` again and again, until it opens or the daemon has had enough.

    Raises:
        CaptureError: it does not open, or never will in this process.
    """
    while True:
        try:
            return source.open()
        except CaptureError as error:
            if not wait or error.code not in MAY_COME:
                raise
            pipe.send("waiting", code=error.code, message=error.message)
        if pipe.has_news(RETRY_S):
            return None


def make_source(wanted: dict[str, Any]) -> Source:
    """Return the source that an ``open`` order describes, not opened yet."""
    if wanted["kind"] == "file":
        from ambientd.audio.replay import Replay

        return Replay(Path(wanted["path"]), wanted["speed"])
    from ambientd.audio.portaudio import Device

    return Device(
        wanted["name"], is_call=wanted["kind"] == "call", allow_monitor=wanted["allow_monitor"]
    )


def _open_files(
    pipe: ParentPipe, source: Source, order: dict[str, Any]
) -> tuple[TrackFiles, Ground]:
    folder, track = Path(order["folder"]), order["track"]
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            open_files = TrackFiles.create if order["create"] else TrackFiles.reopen
            files = open_files(folder_fd, track, source.rate_hz, spool=order["spool"])
        finally:
            os.close(folder_fd)
        return files, Ground(folder / native_wav(track), order["floor_bytes"], pipe.send)
    except OSError as error:
        raise CaptureError(
            f"cannot open the audio files: {error.strerror}", disk_advice(error)
        ) from error


def _leave_gap(pipe: ParentPipe, files: TrackFiles, opened: Instant, since: dict[str, Any]) -> None:
    """Leave a hole for the time since the last frame in the files was heard.

    That is told by a moment ``at_ns`` on ``clock.boot_ns`` at which they had so many ``frames``. A
    capture that was killed may have written more since.
    """
    start_ms = files.queued_ms
    later_frames = files.frames - since["frames"]
    lost_at_ns = since["at_ns"] + later_frames * 1_000_000_000 // files.rate_hz
    missing_ns = max(0, opened.boot_ns - lost_at_ns)
    files.start_after(missing_ns * files.rate_hz // 1_000_000_000)
    if files.queued_ms > start_ms:
        pipe.send("gap", start_ms=start_ms, end_ms=files.queued_ms, reason=since["reason"])


if __name__ == "__main__":
    code = main()
    # A device that is stuck in its driver must not keep the process.
    os._exit(code)
