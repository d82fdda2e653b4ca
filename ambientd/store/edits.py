"""edits.jsonl: corrections laid over the published turns, and the fold that applies them.

An edit's number is its zero-based place among the non-blank lines. Reverts are gathered first, so a
revert cannot be undone; a line is addressed by its track and start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ambientd.store.turns import Line, is_integer

_Key = tuple[str, int]


class Fold:
    """Applies edits to turns as these are published.

    A repair replaces every occurrence of its ``from`` in the first line with its target's track and
    start; the later of two speakers wins; an edit whose target is not there, that is incomplete, or
    of a kind that is not known changes nothing.

    Args:
        edits: the records of edits.jsonl in file order.
    """

    def __init__(self, edits: Sequence[dict[str, Any]]) -> None:
        numbers = (edit.get("target_seq") for edit in edits if edit.get("kind") == "revert")
        reverted = {number for number in numbers if is_integer(number)}
        self._edits: dict[_Key, list[dict[str, Any]]] = {}
        self._seen: set[_Key] = set()
        for number, edit in enumerate(edits):
            key = _target(edit)
            if key is not None and number not in reverted:
                self._edits.setdefault(key, []).append(edit)

    def extend(self, lines: Iterable[Line]) -> list[Line]:
        """Return the next turns, edited, in the same order."""
        if not self._edits:
            return list(lines)
        return [self._apply(line) for line in lines]

    def _apply(self, line: Line) -> Line:
        key = (line.track, line.start_ms)
        if key in self._seen:
            return line  # only the first line of a key can be edited
        self._seen.add(key)
        for edit in self._edits.get(key, ()):
            if edit.get("kind") == "repair":
                old, new = edit.get("from"), edit.get("to")
                if isinstance(old, str) and isinstance(new, str) and old:
                    line = line._replace(text=line.text.replace(old, new))
            elif edit.get("kind") == "speaker" and isinstance(edit.get("name"), str):
                line = line._replace(speaker=edit["name"])
        return line


def _target(edit: dict[str, Any]) -> _Key | None:
    target = edit.get("target")
    if isinstance(target, dict):
        track, start_ms = target.get("track"), target.get("start_ms")
        if isinstance(track, str) and is_integer(start_ms):
            return track, start_ms
    return None
