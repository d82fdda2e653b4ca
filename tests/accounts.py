"""The bookkeeping that holds for every session that is done, checked after every daemon of a test.

Speech, silence and gaps together are as long as the track, and the log, the events and the audio
agree about it.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import soundfile

TOLERANCE_MS = 2
"""Each position is rounded down to a whole millisecond by itself."""


def check(root: Path, log: Path) -> None:
    """Check the sessions that a daemon has finished.

    Args:
        root: its sessions folder.
        log: its log, which may be of several daemons, one after another.
    """
    accounts: dict[str, dict[str, int]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        if " track.drained " in line:
            track = line.split("track=")[1].split()[0]
            found = re.findall(r"(\w+_ms)=(\d+)", line)
            accounts[track] = {key: int(value) for key, value in found}
        elif " session.done " in line:
            folder = root / line.split("id=")[1].split()[0]
            for track, account in accounts.items():
                if (folder / "transcript.md").exists():
                    _check_track(folder, track, account)
            accounts = {}


def check_files(folder: Path) -> None:
    """Check what the files of a session that is done say of each other."""
    meta = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    lengths_ms = [_length_ms(folder, track) for track in meta["tracks"]]
    assert abs(meta["duration_s"] * 1000 - max(lengths_ms)) <= TOLERANCE_MS, folder
    for track in meta["tracks"]:
        _check_turns(folder, track)


def _check_turns(folder: Path, track: str) -> None:
    length_ms, gaps = _length_ms(folder, track), _gaps(folder, track)
    turns = _records(folder / "raw.jsonl", track)
    for before, after in itertools.pairwise(turns):
        assert before["end_ms"] <= after["start_ms"], (folder, before, after)
    for turn in turns:
        assert 0 <= turn["start_ms"] < turn["end_ms"] <= length_ms, (folder, turn, length_ms)
        for gap in gaps:
            apart = turn["end_ms"] <= gap["start_ms"] or gap["end_ms"] <= turn["start_ms"]
            assert apart, (folder, turn, gap)


def _check_track(folder: Path, track: str, account: dict[str, int]) -> None:
    check_files(folder)
    length_ms, gaps = _length_ms(folder, track), _gaps(folder, track)
    from_ms, heard_ms = account["from_ms"], account["heard_ms"]
    rounding_ms = TOLERANCE_MS * (len(gaps) + 1)
    # A gap lies behind the end if the disk was full when the recording stopped.
    beyond_ms = sum(max(0, gap["end_ms"] - max(length_ms, gap["start_ms"])) for gap in gaps)
    accounted_ms = from_ms + heard_ms + account["skipped_ms"] - beyond_ms
    assert abs(accounted_ms - length_ms) <= rounding_ms, (folder, track, account, length_ms)
    said_ms = sum(max(0, gap["end_ms"] - max(from_ms, gap["start_ms"])) for gap in gaps)
    assert abs(said_ms - account["skipped_ms"]) <= rounding_ms, (folder, track, account, gaps)
    turns = _records(folder / "raw.jsonl", track)
    spoken_ms = sum(one["end_ms"] - one["start_ms"] for one in turns if one["start_ms"] >= from_ms)
    assert spoken_ms <= heard_ms, (folder, track, account)


def _length_ms(folder: Path, track: str) -> int:
    path = folder / "audio" / f"{track}.wav"
    if not path.exists():
        return 0  # its input never came
    audio = soundfile.info(path)
    return int(audio.frames * 1000 // audio.samplerate)


def _gaps(folder: Path, track: str) -> list[dict[str, Any]]:
    return [one for one in _records(folder / "events.jsonl", track) if one["kind"] == "gap"]


def _records(path: Path, track: str) -> list[dict[str, Any]]:
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [one for one in found if one.get("track") == track]
