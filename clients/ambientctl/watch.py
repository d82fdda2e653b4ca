"""`ambientctl status --watch`: what it hears and does, until Ctrl-C."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ambientctl import times
from ambientctl.call import DaemonFault, NoDaemonError, Talk
from ambientd import descriptors, units

LOOK_S = 0.5
"""Calm: levels move, nothing flickers."""

ASK_TIMEOUT_S = 10.0
LINES = 12
METER_CELLS = 30
QUIETEST_DBFS = -60.0

COLOURS = {"recording": "red", "armed": "yellow", "paused": "cyan", "deaf": "dim"}
MARKS = {"recording": "●", "armed": "◐", "paused": "‖", "deaf": "○"}


class View:
    """What was last seen, and the picture of it."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES)
        self._session: str | None = None
        self._next = 0
        self._problem = ""

    def look(self, talk: Talk) -> None:
        """Ask the daemon how it is, and for the lines that are new."""
        try:
            answer = talk.ask("ambient/status", {"partials": True}, ASK_TIMEOUT_S)
            session = answer["session"]
            if session is not None:
                self._read(talk, session["id"])
            self._answer, self._problem = answer, ""
        except (NoDaemonError, DaemonFault, OSError, ValueError) as error:
            talk.close()
            self._problem = f"{error or 'no answer'}; looking for it again"

    def _read(self, talk: Talk, session: str) -> None:
        if session != self._session:
            self._session, self._next = session, 0
            self._lines.clear()
        arguments = {"session": session, "since": self._next}
        told = talk.ask("tools/call", {"name": "transcript", "arguments": arguments}, ASK_TIMEOUT_S)
        if not told["isError"]:
            page = json.loads(told["content"][0]["text"])
            self._next = page["next"]
            self._lines.extend(page["lines"])

    def picture(self) -> RenderableType:
        """Return it for a terminal."""
        if self._answer is None:
            return Text(f"ambientctl: {self._problem or 'asking ambientd'}", style="yellow")
        answer = self._answer
        session = answer["session"]
        parts: list[RenderableType] = [_headline(answer), Text(answer["why"], style="dim"), Text()]
        tracks = session["tracks"] if session is not None else answer["standby"] or {}
        if tracks:
            parts += [_meters(tracks), Text()]
        parts += [_line(line) for line in self._lines]
        if session is not None:
            partials = session.get("partials", {})
            parts += [_partial(track, told) for track, told in sorted(partials.items())]
            parts += [Text(), _work(session)]
        parts += [Text(f"! {text}", style="yellow") for text in self._warnings(answer)]
        return Group(*parts)

    def _warnings(self, answer: dict[str, Any]) -> list[str]:
        session = answer["session"]
        tracks = session["tracks"] if session is not None else answer["standby"] or {}
        found = [f"{name}: {told['warning']}" for name, told in tracks.items() if told["warning"]]
        if session is not None and session["ends"] is not None and session["ends"]["warning"]:
            found.append(session["ends"]["warning"])
        if session is not None and session["worker"] and session["worker"]["problem"]:
            found.append(session["worker"]["problem"])
        if answer["disk"]["message"]:
            found.append(answer["disk"]["message"])
        return [descriptors.printable(text) for text in [*found, self._problem] if text]


def _headline(answer: dict[str, Any]) -> Text:
    state, session = answer["state"], answer["session"]
    line = Text()
    line.append(f"{MARKS.get(state, '…')} {state}", f"bold {COLOURS.get(state, 'white')}")
    if session is not None:
        name = f" ({descriptors.printable(session['name'])})" if session["name"] else ""
        line.append(f"  {session['id']}{name}  {units.clock(session['elapsed_s'])}")
    if answer["consent"] is not None:
        line.append(f"  armed {times.until(answer['consent']['until'])}")
    return line


def _meters(tracks: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False, padding=(0, 1))
    for name, told in tracks.items():
        device = descriptors.printable(told["device"] or "not heard")
        level = told["level_dbfs"]
        number = "" if level is None else f"{level:6.1f} dBFS"
        word = "" if told["input"] == "ok" else told["input"].replace("_", " ")
        table.add_row(name, _meter(level, told["peak_dbfs"]), number, word, Text(device, "dim"))
    return table


def _meter(level_dbfs: float | None, peak_dbfs: float | None) -> Text:
    """Return a bar for the level and a mark for the peak."""
    filled, peak = _cells(level_dbfs), _cells(peak_dbfs)
    text = Text()
    for cell in range(METER_CELLS):
        loud = QUIETEST_DBFS * (1 - cell / METER_CELLS)
        colour = "red" if loud > -6 else "yellow" if loud > -18 else "green"
        if cell < filled:
            text.append("━", colour)
        elif cell == peak - 1:
            text.append("╸", colour)
        else:
            text.append("─", "bright_black")
    return text


def _cells(dbfs: float | None) -> int:
    if dbfs is None:
        return 0
    share = 1 - max(QUIETEST_DBFS, min(0.0, dbfs)) / QUIETEST_DBFS
    return round(share * METER_CELLS)


def _line(line: dict[str, Any]) -> Text:
    who = descriptors.printable(line["speaker"] or line["track"])
    text = Text()
    text.append(f"{units.clock(line['start_ms'] / 1000)} ", "dim")
    text.append(f"{who}: ", "bold")
    text.append(descriptors.printable(line["text"]))
    return text


def _partial(track: str, told: dict[str, Any]) -> Text:
    text = Text()
    text.append(f"{units.clock(told['start_ms'] / 1000)} {track}: ", "dim")
    text.append(f"{descriptors.printable(told['text'])} …", "italic")
    return text


def _work(session: dict[str, Any]) -> Text:
    worker = session["worker"]
    if worker is None:
        return Text("no text is made (--no-transcribe)", style="dim")
    lag = "?" if session["lag_ms"] is None else f"{session['lag_ms'] / 1000:.1f} s"
    return Text(f"{session['turns']} turns, {lag} behind, model {worker['model']}", style="dim")


def run() -> int:
    """Show it until Ctrl-C; return the exit code."""
    console = Console()
    if not console.is_terminal:
        sys.stderr.write("ambientctl: --watch needs a terminal; a script asks status --json\n")
        return 2
    view = View()
    with Talk() as talk, Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                view.look(talk)
                live.update(view.picture(), refresh=True)
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            return 0
