"""Two talks at once, as microphone and as call: word error rates beside those of each alone.

Both play in real time through the real daemon, whose one worker decodes both tracks.
"""

from __future__ import annotations

import time
from typing import Any

import soundfile

from tests import running
from tests.bench import sets
from tests.bench.live import text_within
from tests.bench.scoring import Errors, errors

LONGEST_S = 90.0
"""Of each talk, at most; whole recordings only."""

LATEST_S = 120.0
"""How long after the talks their text may take before it is given up."""

Talks = dict[str, list[sets.Recording]]


def run() -> list[dict[str, Any]]:
    """Return the error rates of each track alone and of both at once."""
    recordings = [one for one in sets.load("corpus") if one.text] or sets.load("sample") * 2
    talks = {"room": _some(recordings[0::2]), "call": _some(recordings[1::2])}
    rows = []
    for track, talk in talks.items():
        # The room is there in every session, and alone the other track is played in it.
        lines = _play({"room": talk})
        rows.append({"case": f"{track}'s talk alone", **_score(talk, lines, "room")})
    lines = _play(talks)
    rows += [
        {"case": f"{track} of both", **_score(talk, lines, track)} for track, talk in talks.items()
    ]
    return rows


def _some(recordings: list[sets.Recording]) -> list[sets.Recording]:
    taken: list[sets.Recording] = []
    length_s = 0.0
    for one in recordings:
        seconds = len(one.samples) / sets.RATE_HZ + sets.GAP_S
        if not taken or length_s + seconds <= LONGEST_S:
            taken.append(one)
            length_s += seconds
    return taken


def _play(talks: Talks) -> list[dict[str, Any]]:
    flags = {"room": "--source", "call": "--call-source"}
    options, length_s = [], 0.0
    with running.place() as at:
        for track, talk in talks.items():
            samples, _ = sets.join(talk)
            length_s = max(length_s, len(samples) / sets.RATE_HZ)
            path = at.folder / f"{track}.wav"
            soundfile.write(path, samples, sets.RATE_HZ)
            options += [flags[track], str(path)]
        with running.daemon(at, *options):
            session = at.ctl("record", *(["--call"] if "call" in talks else [])).stdout.strip()
            # The room's end is the session's, and the call may be longer.
            time.sleep(length_s)
            at.ctl("stop", "--wait", check=False)
            running.wait_until((at.root / session / "transcript.md").exists, LATEST_S)
            return at.lines(session)


def _score(talk: list[sets.Recording], lines: list[dict[str, Any]], track: str) -> dict[str, Any]:
    _, spans = sets.join(talk)
    mine = [line for line in lines if line["track"] == track]
    total = Errors(0, 0)
    for recording, span in zip(talk, spans, strict=True):
        found = errors(recording.text or "", text_within(mine, span))
        total = Errors(total.wrong + found.wrong, total.words + found.words)
    return {
        "audio_s": round(spans[-1][1] / 1000, 1),
        "words": total.words,
        "wrong": total.wrong,
        "wer": round(total.rate, 4),
    }
