"""What readers want of session.json, checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ambientd.errors import StoreError
from ambientd.store import layout, turns

if TYPE_CHECKING:
    from ambientd.store.folder import Folder


class Metadata(NamedTuple):
    """The members of session.json that a row has; None where there is none."""

    name: str | None = None
    started_at: str | None = None
    duration_s: float | None = None


def read(session: Folder) -> Metadata:
    """Read a session's session.json; a capture that is growing may not have it yet.

    Raises:
        StoreError: it cannot be read, or a member that is wanted has the wrong type.
        DiskError: it could not be looked at.
    """
    path = os.path.join(session.path, layout.SESSION)
    data = session.read(layout.SESSION, layout.MAX_SESSION_BYTES)
    if data is None:
        return Metadata()
    meta = turns.json_object(data, path)
    name, started_at = meta.get("name"), meta.get("started_at")
    for key, value in (("name", name), ("started_at", started_at)):
        if not isinstance(value, str | None):
            raise StoreError(f"{path}: `{key}` must be a string")
    duration_s = meta.get("duration_s")
    if isinstance(duration_s, bool) or not isinstance(duration_s, int | float | None):
        raise StoreError(f"{path}: `duration_s` must be a number")
    if isinstance(duration_s, float) and not abs(duration_s) < float("inf"):
        raise StoreError(f"{path}: `duration_s` must be finite")
    return Metadata(name, started_at, duration_s)
