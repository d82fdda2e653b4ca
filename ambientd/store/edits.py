"""edits.jsonl: corrections laid over the published turns, and the fold that applies them.

An edit's number is its zero-based place among the non-blank lines. Reverts are gathered first, so a
revert cannot be undone; a line is addressed by its track and start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ambientd.store.turns import Line


def fold(lines: Sequence[Line], edits: Sequence[dict[str, Any]]) -> list[Line]:
    """Apply edits to turns.

    A repair replaces every occurrence of its ``from`` in the first line with its target's track and
    start; the later of two speakers wins; an edit whose target is not there, that is incomplete, or
    of a kind that is not known changes nothing.

    Args:
        lines: the turns in file order.
        edits: the records of edits.jsonl in file order.

    Returns:
        The edited turns in the same order.
    """
    folded = list(lines)
    first: dict[tuple[str, int], int] = {}
    for index, line in enumerate(folded):
        first.setdefault((line.track, line.start_ms), index)
    reverted = {edit.get("target_seq") for edit in edits if edit.get("kind") == "revert"}
    for number, edit in enumerate(edits):
        place = first.get(_target(edit))
        if number in reverted or place is None:
            continue
        line = folded[place]
        if edit.get("kind") == "repair":
            old, new = edit.get("from"), edit.get("to")
            if isinstance(old, str) and isinstance(new, str) and old:
                folded[place] = line._replace(text=line.text.replace(old, new))
        elif edit.get("kind") == "speaker" and isinstance(edit.get("name"), str):
            folded[place] = line._replace(speaker=edit["name"])
    return folded


def _target(edit: dict[str, Any]) -> tuple[str, int]:
    target = edit.get("target")
    if isinstance(target, dict):
        track, start_ms = target.get("track"), target.get("start_ms")
        if isinstance(track, str) and isinstance(start_ms, int) and not isinstance(start_ms, bool):
            return track, start_ms
    return "", -1
