"""What holds for every session after any death: checked on its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import soundfile

from tests import accounts, running
from tests.faults.test_crashes import events, raw_lines, words

LOST_MS = 1000
"""As much audio a SIGKILL may cost."""

MARGIN_MS = 1500
"""A turn so near to a gap may have lost its speech to it."""

LEFT = {"audio", "events.jsonl", "raw.jsonl", "session.json", "transcript.md"}


def wait_until_done(place: running.Place) -> list[str]:
    """Wait until every session that is ours is done, and return their ids."""
    ours = [path.parent for path in place.root.glob("*/session.json") if is_ours(path)]
    running.wait_until(
        lambda: all((path / "transcript.md").exists() or not path.exists() for path in ours), 90
    )
    return [path.name for path in ours if path.exists()]


def is_ours(path: Path) -> bool:
    return '"recorder": "ambientd/' in path.read_text(encoding="utf-8")


def check(
    place: running.Place,
    session: str,
    *,
    seen: list[dict[str, Any]],
    captured_ms: int,
    reference: list[dict[str, Any]],
) -> None:
    """Check a session that is done.

    Args:
        place: where it is.
        session: its id.
        seen: lines that a reader had before the death.
        captured_ms: what was said to be on disk before it.
        reference: the lines of the same speech, recorded without any death.
    """
    folder = place.root / session
    lines = raw_lines(place, session)
    published = [_said(line) for line in lines]
    assert published[: len(seen)] == [_said(line) for line in seen], "a line changed or is gone"
    accounts.check_files(folder)
    left = {path.name for path in folder.iterdir()}
    assert left <= LEFT, sorted(left - LEFT)
    assert [path.name for path in (folder / "audio").iterdir()] == ["room.wav"]
    info = soundfile.info(folder / "audio" / "room.wav")
    length_ms = info.frames * 1000 // info.samplerate
    assert length_ms >= captured_ms - LOST_MS, "more audio is gone than may be"
    meta = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    assert meta["ended_at"] is not None
    blind = [(length_ms - LOST_MS, 1 << 62)]
    if (folder / "events.jsonl").exists():
        blind += [
            (event["start_ms"], event["end_ms"])
            for event in events(place, session)
            if event["kind"] in ("gap", "skipped")
        ]
    for turn in reference:
        if any(
            turn["start_ms"] < end + MARGIN_MS and start - MARGIN_MS < turn["end_ms"]
            for start, end in blind
        ):
            continue
        near = [
            line
            for line in lines
            if line["start_ms"] < turn["end_ms"] and turn["start_ms"] < line["end_ms"]
        ]
        heard = set(words(" ".join(line["text"] for line in near)))
        wanted = set(words(turn["text"]))
        assert len(heard & wanted) >= 0.6 * len(wanted), (session, turn, near, "a line is lost")


def _said(line: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a line of the file and of a tool's answer have in common."""
    return line["track"], line["start_ms"], line["end_ms"], line["text"]
