"""A session that this daemon writes: its folder, its lock, session.json and its logs."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pwd
import re
import shutil
import threading
import unicodedata
from pathlib import Path
from typing import Any

from ambientd import __version__
from ambientd.errors import StoreError, WriteError, disk_advice
from ambientd.store import files, layout, lock, render, states

RECORDER = "ambientd/"
"""Our mark in session.json. A folder without it is only ever read."""

MAX_SLUG_CHARS = 40
MAX_SAME_MINUTE = 99


class Session:
    """One session directory, opened and locked for writing.

    Attributes:
        id: the directory's name.
        path: the directory, for children and messages; everything here goes by descriptor.
        meta: the content of session.json; call ``save`` after changing it.
    """

    def __init__(self, path: Path, dir_fd: int, held: lock.SessionLock, meta: dict[str, Any]):
        self.id = path.name
        self.path = path
        self.meta = meta
        self._dir_fd = dir_fd
        self._lock = held
        # Turns, events and session.json are written from several threads.
        self._writing = threading.Lock()
        self._turns = files.JsonLog(dir_fd, layout.RAW)
        self._events = files.JsonLog(dir_fd, layout.EVENTS)

    @property
    def audio_path(self) -> Path:
        """The folder of the audio files."""
        return self.path / layout.AUDIO

    def save(self) -> None:
        """Write session.json.

        Raises:
            StoreError: the disk did not take it.
        """
        with self._writing:
            text = json.dumps(self.meta, ensure_ascii=False, indent=2)
            files.replace(
                self._dir_fd, layout.SESSION, text.encode("utf-8", errors="replace") + b"\n"
            )

    def publish(self, turn: dict[str, Any]) -> None:
        """Append one turn to raw.jsonl; from then on it is published and never changes.

        Raises:
            StoreError: the disk did not take it.
        """
        with self._writing:
            self._turns.append(turn)

    def note(self, kind: str, **fields: Any) -> None:
        """Append one event to events.jsonl.

        Raises:
            StoreError: the disk did not take it.
        """
        record = {"kind": kind, **fields, "at": now().isoformat(timespec="seconds")}
        with self._writing:
            self._events.append(record)

    def write_transcript(self) -> None:
        """Write transcript.md, whose existence means that the session is done.

        Raises:
            StoreError: a log cannot be read, or the disk did not take it.
        """
        text = render.transcript(self.path.parent, self.id, self.meta)
        files.replace(self._dir_fd, layout.TRANSCRIPT, text.encode("utf-8", errors="replace"))

    def recorded_here(self) -> contextlib.AbstractContextManager[None]:
        """Have it be live to the readers of this process, whatever its files say."""
        return states.recorded_here(self._dir_fd)

    def close_audio(self, track: str) -> None:
        """Give a track's native file its final name: nothing records into it any more.

        Raises:
            WriteError: it could not be renamed.
        """
        native, final = layout.native_wav(track), layout.final_wav(track)
        try:
            audio_fd = os.open(layout.AUDIO, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._dir_fd)
            try:
                os.rename(native, final, src_dir_fd=audio_fd, dst_dir_fd=audio_fd)
            except FileNotFoundError:
                pass  # renamed before a crash
            finally:
                os.close(audio_fd)
        except OSError as error:
            raise WriteError(final, error) from error

    def remove_spool(self, track: str) -> None:
        """Delete a track's 16 kHz spool; the recording itself stays."""
        try:
            (self.audio_path / layout.spool(track)).unlink(missing_ok=True)
        except OSError:
            pass  # room is wasted, nothing is lost

    def release(self) -> None:
        """Close the logs and let go of the lock, after the write in hand."""
        with self._writing:
            if self._dir_fd < 0:
                return
            self._turns.close()
            self._events.close()
            self._lock.release()
            os.close(self._dir_fd)
            self._dir_fd = -1

    def discard(self) -> None:
        """Remove a session in which nothing was recorded."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


def now() -> datetime.datetime:
    """Return the local time with its offset."""
    return datetime.datetime.now().astimezone()


def user_name() -> str:
    """Return who runs this daemon."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def slug(name: str) -> str:
    """Turn a session's name into the tail of its id: lower-case ASCII words joined by dashes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:MAX_SLUG_CHARS].strip("-")


def create(
    root: Path,
    *,
    name: str | None,
    started_at: datetime.datetime,
    model: str | None,
    tracks: dict[str, dict[str, Any]],
    consent: dict[str, Any],
    boot: dict[str, Any],
) -> Session:
    """Claim a new session directory and write its session.json.

    Args:
        root: the sessions folder.
        name: what the person called it, or None.
        started_at: wall time of track time 0, local.
        model: the speech model's name; None when this session is not to be transcribed.
        tracks: for each track its device, rate_hz and channels.
        consent: who allowed it and how, as ``ambientd.consent.Consent.as_json``.
        boot: ``id`` of the machine's start, and ``start_ns``, track time 0 on ``clock.boot_ns``.

    Raises:
        StoreError: nothing could be created.
    """
    at = started_at.isoformat(timespec="milliseconds")
    path = _claim_folder(root, name, started_at)
    meta: dict[str, Any] = {
        "id": path.name,
        "name": name,
        "started_at": at,
        "ended_at": None,
        "duration_s": None,
        "recorder": RECORDER + __version__,
        "model": model,
        "tracks": tracks,
        "consent": consent,
        "boot": boot,
        "apps": [],
        "tags": [],
        "notes": "",
        "pinned": False,
        "warnings": [],
        "recovered": False,
    }
    try:
        (path / layout.AUDIO).mkdir(mode=0o700)
        session = _open(path, meta)
    except (OSError, StoreError) as error:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, OSError):
            raise WriteError(path.name, error) from error
        raise
    try:
        session.save()
    except StoreError:
        session.discard()
        raise
    return session


def _claim_folder(root: Path, name: str | None, started_at: datetime.datetime) -> Path:
    base = started_at.strftime("%Y-%m-%d-%H%M")
    tail = slug(name or "")
    base = f"{base}-{tail}" if tail else base
    for number in range(1, MAX_SAME_MINUTE + 1):
        path = root / (base if number == 1 else f"{base}-{number:02d}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"cannot create a session in {root}: {error.strerror}", disk_advice(error)
            ) from error
        return path
    raise StoreError(f"{root} holds {MAX_SAME_MINUTE} sessions called {base}", "wait a minute")


def reopen(path: Path) -> Session:
    """Open a session that an earlier daemon left unfinished, and lock it.

    Raises:
        StoreError: it is locked, or its session.json is not one of ours.
    """
    meta = read_own_meta(path)
    if meta is None:
        raise StoreError(f"{path.name} was not recorded by ambientd")
    return _open(path, meta)


def read_own_meta(path: Path) -> dict[str, Any] | None:
    """Return session.json if it is there, readable and has our mark, else None."""
    try:
        fd = os.open(path / layout.SESSION, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            meta = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(meta, dict) or not str(meta.get("recorder", "")).startswith(RECORDER):
        return None
    return meta


def _open(path: Path, meta: dict[str, Any]) -> Session:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        dir_fd = os.open(path, flags)
    except OSError as error:
        raise StoreError(f"cannot open {path.name}: {error.strerror}") from error
    try:
        return Session(path, dir_fd, lock.claim(dir_fd, path.name), meta)
    except StoreError:
        os.close(dir_fd)
        raise
