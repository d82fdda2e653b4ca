"""Standing consent on disk: it outlives a daemon that dies, and no other end.

A person who stops the daemon, disarms, or restarts the machine has not allowed it to listen again.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
from pathlib import Path

from ambientd import clock, logs
from ambientd.consent import Consent
from ambientd.errors import WriteError
from ambientd.store import files

FILE = ".armed.json"


def remember(root: Path, consent: Consent) -> None:
    """Write down that it is armed; where the disk does not take it, this daemon knows it alone."""
    record = {"boot": clock.boot_id(), **consent.as_json()}
    try:
        root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            files.replace(root_fd, FILE, json.dumps(record).encode("utf-8") + b"\n")
        finally:
            os.close(root_fd)
    except (OSError, WriteError) as error:
        logs.event("consent.not_kept", level=logging.WARNING, reason=str(error))


def forget(root: Path) -> None:
    """Remove what ``remember`` wrote."""
    try:
        (root / FILE).unlink(missing_ok=True)
    except OSError as error:
        # It must not come back: say so loudly. It ends with the machine at the latest.
        logs.event("consent.not_forgotten", level=logging.ERROR, reason=str(error))


def recall(root: Path, now: datetime.datetime, *, after_reboot: bool) -> Consent | None:
    """Return the consent under which a daemon that died was armed, if it still holds.

    Args:
        root: the sessions folder.
        now: the time.
        after_reboot: whether it also holds when the machine was restarted meanwhile.
    """
    try:
        fd = os.open(root / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            record = json.loads(file.read(1 << 16))
        is_same_boot = record["boot"] == clock.boot_id() != ""
        consent = Consent.from_json(record)
        is_over = consent.until is not None and consent.until <= now
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logs.event("consent.unreadable", level=logging.WARNING, reason=str(error))
        return None
    return None if is_over or not (is_same_boot or after_reboot) else consent
