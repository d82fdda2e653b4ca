"""The handshake: which protocol revision is spoken, and what this server says of itself."""

from __future__ import annotations

from typing import Any

from ambientd import __version__

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""The revisions with a handshake that this server speaks, the latest first. 2026-07-28 has none and
is not claimed."""

INSTRUCTIONS = """\
Ambient turns speech near the user's computer into text while people talk. It only listens.
To answer "what did they just say?": call `status`; if `live` is null, nobody is being recorded now.
Else call `transcript` with that id. Keep the answer's `next`, and pass it as `since` the next time:
only new lines come back. Lines never change; a turn is readable about half a second after its end.
Stop polling when `state` is done. At pending the recording waits: text, or the rest of it, comes
only when the daemon works on it again. Older recordings are in `sessions`."""


def initialize(params: object) -> dict[str, Any]:
    """Return the result of ``initialize``.

    A client that asks for a revision we do not speak gets our latest and decides for itself; an
    error here would lock out every client newer than this server.
    """
    asked = params.get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "ambient", "title": "Ambient", "version": __version__},
        "instructions": INSTRUCTIONS,
    }
