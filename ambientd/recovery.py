"""Finishes what an earlier daemon left behind.

A crash leaves a session without transcript.md, with our mark, audio, and a lock that nobody holds.
Its audio is mended, what was not yet transcribed is transcribed, and it is marked as recovered. It
is finished, not continued. Every other folder is left alone, byte for byte.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio

from ambientd import finishing, logs
from ambientd.audio import wav
from ambientd.errors import StoreError, cause
from ambientd.speech.segmenter import WARM_MS
from ambientd.speech.supervisor import Span, Track, Transcriber
from ambientd.store import layout, turns
from ambientd.store import session as sessions
from ambientd.store.folder import open_root
from ambientd.store.session import Session

CAPTURE_END_TIMEOUT_S = 10.0
"""A capture child outlives its daemon by moments: it closes its files when its stdin closes."""

UNTOLD = "unknown"
"""Why there is no audio where a file has a hole and no event says so: the daemon was killed before
it could write one."""


def unfinished(root: Path) -> list[Path]:
    """Return the folders that recovery may finish, oldest first."""
    found = []
    for path in sorted(root.iterdir()):
        try:
            if _is_unfinished(path):
                found.append(path)
        except OSError as error:
            logs.event("recovery.skipped", id=path.name, reason=error.strerror)
    return found


STILLBORN_NAMES = {layout.SESSION, f".{layout.SESSION}.tmp", layout.AUDIO, layout.LOCK}
"""All that a session holds before anything was recorded."""


def remove_stillborn(root: Path) -> None:
    """Remove folders that a daemon made and died before it recorded anything.

    Only what we made ourselves, name by name, and only while nobody holds its lock: a folder with
    anything else in it stays as it is.
    """
    for path in sorted(root.iterdir()):
        try:
            if not path.is_symlink() and path.is_dir() and _is_stillborn(path):
                logs.event("recovery.removed", id=path.name)
                shutil.rmtree(path)
        except OSError as error:
            logs.event("recovery.skipped", id=path.name, reason=error.strerror)


def unlock_done(root: Path) -> None:
    """Remove the lock of sessions whose daemon died between their last file and its release.

    Nobody would otherwise, and readers believe the pid in it, which another program may get.
    """
    for path in sorted(root.iterdir()):
        try:
            if not path.is_symlink() and (path / layout.LOCK).exists() and _is_done(path):
                sessions.reopen(path).release()
                logs.event("recovery.unlocked", id=path.name)
        except (OSError, StoreError) as error:
            logs.event("recovery.skipped", id=path.name, reason=str(error))


def _is_done(path: Path) -> bool:
    return (path / layout.TRANSCRIPT).exists() and sessions.read_own_meta(path) is not None


def _is_stillborn(path: Path) -> bool:
    names = set(os.listdir(path))
    audio = path / layout.AUDIO
    ours = sessions.read_own_meta(path) is not None or (
        f".{layout.SESSION}.tmp" in names and layout.SESSION not in names
    )
    if not ours or not names <= STILLBORN_NAMES or audio.is_symlink():
        return False
    if audio.exists():
        allowed = {
            name(track) for track in layout.TRACKS for name in (layout.native_wav, layout.spool)
        }
        for file in audio.iterdir():
            if file.name not in allowed or file.stat().st_size > wav.DATA_OFFSET_BYTES:
                return False
    return not _is_locked(path)


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path / layout.LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _is_unfinished(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir() or (path / layout.TRANSCRIPT).exists():
        return False
    return sessions.read_own_meta(path) is not None and bool(_tracks(path))


def _tracks(path: Path) -> list[str]:
    audio = path / layout.AUDIO
    if audio.is_symlink():
        return []  # it leads out of the session: not ours to mend
    return [
        track
        for track in layout.TRACKS
        if any(
            (audio / name).is_file() and not (audio / name).is_symlink()
            for name in (layout.native_wav(track), layout.final_wav(track))
        )
    ]


class Recovery:
    """Works through the unfinished sessions while nothing is being recorded.

    Attributes:
        waiting: sessions still to be finished.
        current: the one in hand.
        transcriber: its transcriber.
        interrupted: ids of sessions that were being recorded when their daemon died.
    """

    def __init__(self, worker_config: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self.waiting: list[Path] = []
        self.current: str | None = None
        self.transcriber: Transcriber | None = None
        self.interrupted: list[str] = []
        self._worker_config = worker_config
        self._free = anyio.Event()
        self._free.set()
        self._scope: anyio.CancelScope | None = None

    def pause(self) -> None:
        """Stop at once, because a recording needs the processor; nothing done is lost."""
        if self._free.is_set():
            self._free = anyio.Event()
        if self._scope is not None:
            self._scope.cancel()

    def resume(self) -> None:
        """Go on."""
        self._free.set()

    async def run(self, root: Path, *, going_on: str | None) -> None:
        """Finish every unfinished session.

        Args:
            root: the sessions folder.
            going_on: the id of one that this daemon records again.
        """
        try:
            await finishing.apart(remove_stillborn, root)
            await finishing.apart(unlock_done, root)
            found = await finishing.apart(unfinished, root)
            self.waiting = [path for path in found if path.name != going_on]
        except OSError as error:
            logs.event("recovery.failed", level=logging.ERROR, reason=error.strerror)
        # The audio first, of all of them: it is quick, and a person may want to hear it.
        for path in list(self.waiting):
            await self._guarded(path, self._mend)
        while self.waiting:
            while not self._free.is_set():
                await self._free.wait()
            with anyio.CancelScope() as self._scope:
                await self._guarded(self.waiting[0], self._transcribe)
            self.current = self.transcriber = None
            if not self._scope.cancelled_caught:
                self.waiting.pop(0)

    async def _guarded(self, path: Path, work: Callable[[Session], Awaitable[None]]) -> None:
        session = None
        try:
            session = await finishing.apart(sessions.reopen, path)
            # Looked at again under the lock: this daemon may have recorded and finished it since.
            if await finishing.apart(_is_unfinished, path):
                await work(session)
        except Exception as error:  # noqa: BLE001 - one broken folder must not harm the others
            reason = str(cause(error))
            logs.event("recovery.failed", level=logging.ERROR, id=path.name, reason=reason)
        finally:
            if session is not None:
                await finishing.release(session)

    async def _mend(self, session: Session) -> None:
        lengths_ms = []
        for track in await finishing.apart(_tracks, session.path):
            native = session.audio_path / layout.native_wav(track)
            crashed = await finishing.apart(native.exists)
            if not crashed and session.meta.get("ended_at") is not None:
                continue
            audio = native if crashed else session.audio_path / layout.final_wav(track)
            await wait_for_capture(audio)
            length = await finishing.apart(wav.repair, audio)
            lengths_ms.append(length.ms)
            await finishing.note(session, "recovered", track=track, end_ms=length.ms)
            await finishing.insist(session.close_audio, track)
        if lengths_ms:
            session.meta["recovered"] = True
            await finishing.write_end(session, max(lengths_ms))
            logs.event("session.recovered", id=session.id, duration_ms=max(lengths_ms))
            if session.id not in self.interrupted:
                self.interrupted.append(session.id)

    async def _transcribe(self, session: Session) -> None:
        if session.meta.get("model") is None:
            return  # it was asked for without text
        self.current = session.id
        config = await self._worker_config()
        tracks = {}
        for name in await finishing.apart(_tracks, session.path):
            recording = session.audio_path / layout.final_wav(name)
            tracks[name] = await open_track(session, name, recording)
            tracks[name].finished = True

        async def publish(turn: dict[str, Any]) -> None:
            await finishing.insist(session.publish, turn)

        async def skip(span: Span, why: str) -> None:
            await finishing.note_skipped(session, span, why)

        self.transcriber = Transcriber(config, tracks, publish, skip)
        await finishing.transcribe(self.transcriber, session)
        if self.transcriber.state == "drained":
            await finishing.complete(session, tracks)


async def open_track(session: Session, name: str, recording: Path) -> Track:
    """Return what is left to transcribe of a track, its spool made anew.

    Args:
        session: the session.
        name: the track's name.
        recording: its native file.
    """
    resume_ms = await finishing.apart(checkpoint_ms, session.path, name)
    spool = session.audio_path / layout.spool(name)
    from_ms = max(0, resume_ms - WARM_MS)
    told = await finishing.apart(gaps, session.path, name)
    # Made anew from the recording, which is the truth: what a crash left of the spool may be
    # shorter or torn.
    result = await anyio.run_process(
        [sys.executable, "-m", "ambientd.audio.respool", str(recording), str(spool), str(from_ms)]
    )
    made = json.loads(result.stdout)
    untold = list(without([(start, end) for start, end in made["holes"]], told))
    for start_ms, end_ms in untold:
        await finishing.note(
            session, "gap", track=name, start_ms=start_ms, end_ms=end_ms, reason=UNTOLD
        )
    holes = sorted(told + untold)
    return Track(spool, resume_ms=resume_ms, frames=made["spool_frames"], holes=holes)


def checkpoint_ms(path: Path, track: str) -> int:
    """Return where transcription of a track goes on: behind its last published or skipped turn."""
    ends_ms = [record["end_ms"] for record in _records(path, layout.RAW, track)]
    told = _records(path, layout.EVENTS, track)
    ends_ms += [record["end_ms"] for record in told if record["kind"] == "skipped"]
    return max(ends_ms, default=0)


def gaps(path: Path, track: str) -> list[tuple[int, int]]:
    """Return where a track has no audio, as (start_ms, end_ms)."""
    return [
        (record["start_ms"], record["end_ms"])
        for record in _records(path, layout.EVENTS, track)
        if record["kind"] == "gap" and record["end_ms"] > record["start_ms"]
    ]


def without(
    holes: Iterable[tuple[int, int]], told: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield what of some stretches is in none of others; each is (start, end)."""
    for start, end in holes:
        for told_start, told_end in sorted(told):
            if told_start < end and told_end > start:
                if told_start > start:
                    yield start, told_start
                start = told_end
        if start < end:
            yield start, end


def events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a session.

    Raises:
        StoreError: they cannot be read.
    """
    return _read(path, layout.EVENTS)


def _records(path: Path, name: str, track: str) -> list[dict[str, Any]]:
    return [record for record in _read(path, name) if record.get("track") == track]


def _read(path: Path, name: str) -> list[dict[str, Any]]:
    session = open_root(str(path))
    if session is None:
        return []
    with session:
        data = session.read(name, layout.MAX_RAW_BYTES)
    return [record for _, record in turns.records(data or b"", str(path / name))]


async def wait_for_capture(native: Path) -> None:
    """Wait until no capture child holds a file; one that never lets go is not waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = await finishing.apart(os.open, native, flags)
    try:
        with anyio.move_on_after(CAPTURE_END_TIMEOUT_S):
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    await anyio.sleep(0.05)
                else:
                    return
    finally:
        os.close(fd)
