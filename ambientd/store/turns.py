"""raw.jsonl: the published turns, one a line, in the order in which they were published."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeGuard

from ambientd.errors import StoreError


class Line(NamedTuple):
    """A turn as readers see it.

    Attributes:
        track: ``room`` or ``call``.
        start_ms: track time of its start.
        end_ms: track time of its end.
        speaker: who said it, if an edit names somebody.
        text: what was said.
    """

    track: str
    start_ms: int
    end_ms: int
    speaker: str | None
    text: str


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a JSON value is an integer; Python takes true and false for integers too."""
    return isinstance(value, int) and not isinstance(value, bool)


def json_object(data: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object in UTF-8.

    Args:
        data: its bytes.
        where: file, and line if it has several; for errors.

    Raises:
        StoreError: it is something else. NaN and Infinity are no JSON.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise StoreError(f"{where}: not JSON") from None
    if not isinstance(value, dict):
        raise StoreError(f"{where}: not a JSON object")
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def records(data: bytes, path: str, first: int = 1) -> list[tuple[int, dict[str, Any]]]:
    """Parse a log: the objects on its complete, non-blank lines, each with its line number.

    What follows the last newline was never published and is not looked at.

    Args:
        data: the file's content.
        path: the file, for errors.
        first: the number of the first line in ``data``.

    Raises:
        StoreError: a complete line is no JSON object; names file and line.
    """
    found = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n"), start=first):
        if not line.strip():
            continue
        found.append((number, json_object(line, f"{path}, line {number}")))
    return found


def parse(data: bytes, path: str, first: int = 1) -> list[Line]:
    """Parse raw.jsonl, or the part of it that begins with line ``first``.

    Raises:
        StoreError: a complete line is no turn; names file and line.
    """
    lines = []
    for number, record in records(data, path, first):
        track, text = record.get("track"), record.get("text")
        start_ms, end_ms = record.get("start_ms"), record.get("end_ms")
        if not isinstance(track, str) or not isinstance(text, str):
            raise StoreError(f"{path}, line {number}: `track` and `text` must be strings")
        if not is_integer(start_ms) or not is_integer(end_ms):
            raise StoreError(f"{path}, line {number}: `start_ms` and `end_ms` must be integers")
        lines.append(Line(track, start_ms, end_ms, None, text))
    return lines
