"""Turns the daemon's answers into text for people."""

from __future__ import annotations

from typing import Any

from ambientctl import times
from ambientd import descriptors, units

HELD = {"paused": "closed: ambientctl resume", "track_muted": "closed: ambientctl unmute"}
"""Why a person has an input closed, and what opens it."""


def status(answer: dict[str, Any]) -> str:
    """Return the page that `ambientctl status` prints."""
    session = answer["session"]
    rows = [("state", answer["state"]), ("why", answer["why"])]
    if answer["consent"] is not None:
        given = answer["consent"]
        rows.append(("armed", f"by {given['by']}, {times.until(given['until'])}"))
    for track, told in (answer["standby"] or {}).items():
        rows += _standby_rows(track, told)
    if session is not None:
        rows += _session_rows(session, answer["disk"]["message"])
    for other in answer["finishing"]:
        rows.append(("finishing", f"{other['id']}, {_seconds(other['lag_ms'])} of audio to go"))
    recovering = answer["recovering"]
    if recovering["waiting"]:
        current = recovering["current"]
        now = f", now {current}" if current else ""
        rows.append(("recovering", f"{recovering['waiting']} session(s){now}"))
    disk = answer["disk"]
    rows += [
        ("readers", str(answer["readers"])),
        ("model", answer["model"]),
        ("disk", f"{size(disk['used_bytes'])} used, {size(disk['free_bytes'])} free"),
        *_disk_trouble(disk),
        ("sessions", answer["root"]),
        ("daemon", f"ambientd {answer['version']}, pid {answer['pid']}"),
        ("socket", answer["socket"]),
    ]
    return table(rows)


def _disk_trouble(disk: dict[str, Any]) -> list[tuple[str, str]]:
    if not disk["message"]:
        return []
    hint = f"; {disk['hint']}" if disk["hint"] else ""
    return [("warning", f"{disk['message']}{hint}")]


def _session_rows(session: dict[str, Any], said_of_disk: str) -> list[tuple[str, str]]:
    name = f" ({session['name']})" if session["name"] else ""
    age = session["last_turn_age_s"]
    last = "" if age is None else f", the last {age:.0f} s ago"
    rows = [("session", f"{session['id']}{name}, {units.clock(session['elapsed_s'])}")]
    for track, told in session["tracks"].items():
        rows += _track_rows(track, told, said_of_disk)
    if session["ends"] is not None and session["ends"]["warning"]:
        rows.append(("warning", session["ends"]["warning"]))
    worker = session["worker"]
    if worker is None:
        rows.append(("text", "off (--no-transcribe)"))
    else:
        rows += [
            ("turns", f"{session['turns']}{last}"),
            ("lag", f"{_seconds(session['lag_ms'])} of audio is not text yet"),
            ("worker", f"{worker['state']}, model {worker['model']}, pid {worker['pid']}"),
        ]
        if worker["problem"]:
            rows.append(("problem", worker["problem"]))
    return rows


def _standby_rows(track: str, told: dict[str, Any]) -> list[tuple[str, str]]:
    if told["device"] is None:
        return [(track, "nothing yet"), ("warning", told["warning"] or "it is being opened")]
    level = told["level_dbfs"]
    heard = "" if level is None else f", {level:.0f} dBFS, peak {told['peak_dbfs']:.0f}"
    return [(track, f"{told['device']}{heard}; nothing is recorded")]


def _track_rows(track: str, told: dict[str, Any], said_of_disk: str) -> list[tuple[str, str]]:
    level = told["level_dbfs"]
    if told["input"] in HELD:
        rows = [(track, HELD[told["input"]])]
    elif told["device"] is None:
        rows = [(track, "nothing yet")]
    elif level is None:
        rows = [(track, f"{told['device']}, {told['rate_hz']} Hz, nothing heard yet")]
    else:
        rows = [
            (
                track,
                f"{told['device']}, {told['rate_hz']} Hz, {level:.0f} dBFS, "
                f"peak {told['peak_dbfs']:.0f}",
            ),
            ("captured", f"{told['captured_frames']} frames, {told['lost_frames']} lost"),
        ]
    if told["warning"] not in ("", said_of_disk):
        rows.append(("warning", told["warning"]))
    return rows


def devices(answer: dict[str, Any]) -> str:
    """Return the table that `ambientctl devices` prints."""
    found = answer["devices"]
    if not found:
        return (
            "no input devices: plug one in; on Linux check that PipeWire or PulseAudio runs and "
            "that libasound2-plugins is installed\n"
        )
    rows = [
        (
            (">" if device["chosen"] else " ")
            + ("*" if device["default"] else "+" if device["played"] else " "),
            device["name"],
            f"{device['host_api']}, {device['rate_hz']:g} Hz, {device['channels']} channel(s)"
            + (f", recorded as {device['chosen']}" if device["chosen"] else ""),
        )
        for device in found
    ]
    width = max(len(name) for _, name, _ in rows)
    return "".join(f"{mark} {name:<{width}}  {rest}\n" for mark, name, rest in rows)


def table(rows: list[tuple[str, str]]) -> str:
    """Return rows with their names in a column."""
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {descriptors.printable(value)}\n" for name, value in rows)


def size(count: float | None) -> str:
    """Return a number of bytes with a fitting unit."""
    if count is None:
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _seconds(ms: int | None) -> str:
    return "unknown" if ms is None else f"{ms / 1000:.1f} s"
