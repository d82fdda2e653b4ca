"""transcript.md: a finished session for people, derived from its logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ambientd.store import reading
from ambientd.store.bleed import without_bleed

FRONT_MATTER = ("id", "name", "started_at", "ended_at", "duration_s", "model")


def transcript(root: Path, session_id: str, meta: Mapping[str, Any]) -> str:
    """Return the text of transcript.md.

    Args:
        root: the sessions folder.
        session_id: the session's directory name.
        meta: the content of its session.json.

    Raises:
        StoreError: a log cannot be read.
    """
    head = ["---"]
    # JSON scalars are YAML scalars, and quote whatever a name may hold.
    head += [f"{key}: {json.dumps(meta.get(key), ensure_ascii=False)}" for key in FRONT_MATTER]
    head += ["---", "", f"# {' '.join(str(meta.get('name') or session_id).split())}", ""]
    said = reading.transcript(str(root), session_id)
    lines = without_bleed(said)
    body = []
    # People read in the order in which it was said; the log has that in which it was published.
    for line in sorted(lines, key=lambda line: line.start_ms):
        who = f"{line.speaker} ({line.track})" if line.speaker else line.track
        body += [f"**[{clock(line.start_ms)}] {who}** {' '.join(line.text.split())}", ""]
    left_out = len(said) - len(lines)
    if left_out:
        body += [f"*{left_out} line(s) of the room that repeat the call are left out here.*", ""]
    return "\n".join(head + (body or ["No speech was heard.", ""]))


def clock(ms: int) -> str:
    """Return a track time as ``mm:ss``; minutes do not wrap at 60."""
    return f"{ms // 60_000:02d}:{ms // 1000 % 60:02d}"
