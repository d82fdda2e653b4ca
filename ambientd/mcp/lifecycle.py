"""The handshake: which protocol revision is spoken, and what this server says of itself."""

from __future__ import annotations

from typing import Any

from ambientd import __version__
from ambientd.tools.registry import Toolset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""The revisions with a handshake that this server speaks, the latest first. 2026-07-28 has none and
is not claimed."""


def initialize(params: object, offered: Sequence[Toolset]) -> dict[str, Any]:
    """Return the result of ``initialize``.

    A client that asks for a revision we do not speak gets our latest and decides for itself; an
    error here would lock out every client newer than this server.
    """
    asked = params.get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "ambient", "title": "Ambient", "version": __version__},
        "instructions": "\n".join(toolset.instructions for toolset in offered),
    }
