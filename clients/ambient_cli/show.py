"""Turns the tools' answers into text for people."""

from __future__ import annotations

import datetime
from typing import Any

from ambientd import descriptors, units

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def sessions(rows: list[dict[str, Any]]) -> str:
    """Return the table of `ambient sessions`."""
    if not rows:
        return "no sessions yet; ambientctl record starts one\n"
    cells = [("ID", "STARTED", "LENGTH", "STATE", "NAME")]
    for row in rows:
        started = _instant(row["started_at"])
        cells.append(
            (
                descriptors.printable(row["id"]),
                "" if started is None else started.strftime("%Y-%m-%d %H:%M"),
                "" if row["duration_s"] is None else units.clock(row["duration_s"]),
                state(row),
                descriptors.printable(row["name"] or ""),
            )
        )
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"


def state(row: dict[str, Any]) -> str:
    """Return a session's state in a word, from its row."""
    for word in ("live", "transcribing"):
        if row[word]:
            return word
    if row["error"]:
        return "broken"
    return "done" if row["transcribed"] else "pending"


def status(answer: dict[str, Any]) -> str:
    """Return the page of `ambient status`."""
    live = answer["live"]
    listening = "nobody is being recorded" if live is None else f"recording {live['id']}"
    waiting = answer["awaiting_transcript"]
    text = f"{listening}\n{answer['sessions']} session(s)"
    return text + (f", {waiting} recorded and not (all) text\n" if waiting else "\n")


def why_empty(answer: dict[str, Any], since: int) -> str:
    """Return why a transcript has no lines, for people."""
    if answer["next"]:
        return f"{answer['session']} has {answer['next']} lines, none after {since}"
    if answer["state"] == "done":
        return f"no speech was heard in {answer['session']}"
    if answer["state"] == "pending":
        return (
            f"{answer['session']} has no text: it was recorded with --no-transcribe, or the daemon "
            "was killed and finishes it when it runs again"
        )
    return f"{answer['session']} has no text yet"


class Page:
    """Prints the lines of one session.

    Args:
        started_at: when it started; wall-clock times need it, track times are printed else.
        colour: whether the reader is a terminal.
    """

    def __init__(self, started_at: str | None, *, colour: bool) -> None:
        self._started_at = _instant(started_at)
        self._colour = colour

    def line(self, line: dict[str, Any]) -> str:
        """Return one line of a transcript."""
        who = line["speaker"] or line["track"]
        clock = f"[{self._clock(line['start_ms'])}]"
        if self._colour:
            clock = f"{DIM}{clock}{PLAIN}"
        return f"{clock} {descriptors.printable(who)}: {descriptors.printable(line['text'])}"

    def _clock(self, start_ms: int) -> str:
        if self._started_at is not None:
            try:
                moment = self._started_at + datetime.timedelta(milliseconds=start_ms)
                # With the offset of then: summer time may have begun or ended meanwhile.
                return moment.astimezone().strftime("%H:%M:%S")
            except (ValueError, OverflowError):
                pass  # a time of no calendar; the track time is still one
        return units.clock(start_ms // 1000)


def _instant(text: str | None) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text or "").astimezone()
    except (ValueError, OverflowError):
        return None
