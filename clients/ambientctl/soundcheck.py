"""`ambientctl devices test`: how loud the inputs are, and whether that is taken for speech."""

from __future__ import annotations

import time
from typing import Any, TextIO

from ambientctl.call import Talk
from ambientd import descriptors, units

SECONDS = 10
LOOK_S = 0.25
ASK_TIMEOUT_S = 10.0
BAR_CELLS = 30
QUIETEST_DBFS = -60.0
ROWS_A_SECOND = 2

QUIET_DBFS = -50.0
"""Speech below this peak is hardly understood: a voice at arm's length is around -20."""


def run(out: TextIO | None) -> dict[str, Any]:
    """Do it, and show it meanwhile.

    Args:
        out: where to show it; None for nowhere.

    Returns:
        What was seen; see ``ambient/soundcheck`` in docs/reference/protocol.md.
    """
    with Talk() as talk:
        answer = talk.ask("ambient/soundcheck", {"seconds": SECONDS}, ASK_TIMEOUT_S)
        if out is not None:
            out.write(f"Speak now; for {SECONDS} s it is heard, and nothing is kept.\n")
        shown = 0
        while True:
            if out is not None:
                shown = _show(out, answer, shown)
            if answer["is_over"]:
                return answer
            time.sleep(LOOK_S)
            answer = talk.ask("ambient/soundcheck", {}, ASK_TIMEOUT_S)


def _show(out: TextIO, answer: dict[str, Any], shown: int) -> int:
    tracks = answer["tracks"]
    count = min(len(told["rows"]) for told in tracks.values())
    for index in range(shown, count):
        for name, told in tracks.items():
            out.write(f"{(index + 1) / ROWS_A_SECOND:4.1f} s  {name}  {_row(told, index)}\n")
    out.flush()
    return count


def _row(told: dict[str, Any], index: int) -> str:
    row = told["rows"][index]
    if row["level_dbfs"] is None:
        return descriptors.printable(told["warning"] or "it is being opened")
    share = (row["level_dbfs"] - QUIETEST_DBFS) / -QUIETEST_DBFS
    bar = "#" * round(BAR_CELLS * max(0.0, min(1.0, share)))
    voice = "" if row["voice"] is None else f"  voice {row['voice']:.2f}"
    speech = "  speech" if row["speech"] else ""
    return f"{row['level_dbfs']:4.0f} dBFS  {bar:<{BAR_CELLS}}{voice}{speech}"


def summary(answer: dict[str, Any]) -> str:
    """Return what to make of it, a line a track."""
    return "".join(
        f"{name}: {descriptors.printable(_judged(told))}\n"
        for name, told in answer["tracks"].items()
    )


def _judged(told: dict[str, Any]) -> str:
    heard = [row for row in told["rows"] if row["level_dbfs"] is not None]
    if not heard:
        return told["warning"] or "nothing was heard: see ambientctl devices"
    device = told["device"] or "an input that is gone now"
    if told["input"] == "muted":
        return f"{device} is muted in the sound settings"
    if all(row["level_dbfs"] <= units.SILENCE_DBFS for row in heard):
        return f"{device} delivers nothing but zeros: is it switched on?"
    speech_s = sum(row["speech"] for row in heard) / ROWS_A_SECOND
    peak_dbfs = max(row["peak_dbfs"] for row in heard)
    said = f"{device}: speech for {speech_s:g} of {len(heard) / ROWS_A_SECOND:g} s"
    if peak_dbfs >= 0:
        return f"{said}; it is too loud: turn its input level down"
    if speech_s and peak_dbfs < QUIET_DBFS:
        return f"{said}; it is very quiet: turn its input level up or go nearer"
    return f"{said}, peak {peak_dbfs:.0f} dBFS"
