"""Runs one benchmark."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tests.bench import accuracy, armed, flood, live, load, peers, reading, sets, start, tracks


def main() -> None:
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    benches = parser.add_subparsers(required=True, metavar="NAME")
    live_parser = benches.add_parser("live", help="delay, processor and memory of live text")
    live_parser.add_argument("--no-early-decode", action="store_true", help="one decode a turn")
    live_parser.add_argument(
        "--poll-ms", type=int, default=50, help="how often the text is asked for (50)"
    )
    live_parser.set_defaults(
        run=lambda chosen: live.run(
            chosen.sets,
            {"AMBIENT_SPEECH_EARLY_DECODE": "off"} if chosen.no_early_decode else {},
            chosen.poll_ms / 1000,
        )
    )
    peers_parser = benches.add_parser("peers", help="beside WhisperLive, in one run")
    peers_parser.add_argument("python", help="of a virtual environment with whisper-live")
    peers_parser.set_defaults(run=lambda chosen: peers.run(chosen.python, chosen.sets))
    accuracy_parser = benches.add_parser("accuracy", help="word error rates offline, three ways")
    accuracy_parser.set_defaults(run=lambda chosen: accuracy.run(chosen.sets))
    quality_parser = benches.add_parser("quality", help="fail if a set got worse than it was")
    quality_parser.add_argument("--update", action="store_true", help="make this the baseline")
    quality_parser.set_defaults(run=quality)
    for one in (live_parser, peers_parser, accuracy_parser, quality_parser):
        one.add_argument(
            "sets",
            nargs="*",
            metavar="SET",
            help=f"of {', '.join(sets.SETS)}; all that are here else",
        )
    start_parser = benches.add_parser("start", help="ambient mcp from exec to its first answer")
    start_parser.set_defaults(run=lambda chosen: start.run())
    reading_parser = benches.add_parser("reading", help="the three tools on many sessions")
    reading_parser.set_defaults(run=lambda chosen: reading.run())
    flood_parser = benches.add_parser("flood", help="what others wait while one client floods")
    flood_parser.set_defaults(run=lambda chosen: flood.run())
    load_parser = benches.add_parser("load", help="a recording while a hundred clients poll it")
    load_parser.add_argument("--clients", type=int, default=load.CLIENTS, help="how many (100)")
    load_parser.set_defaults(run=lambda chosen: load.run(chosen.clients))
    armed_parser = benches.add_parser("armed", help="processor and memory while nobody speaks")
    armed_parser.set_defaults(run=lambda chosen: armed.run())
    tracks_parser = benches.add_parser("tracks", help="word error rates of two talks at once")
    tracks_parser.set_defaults(run=lambda chosen: tracks.run())
    chosen = parser.parse_args()
    if "sets" in chosen:
        chosen.sets = which(parser, chosen.sets)
    show(chosen.run(chosen), as_json=chosen.json)


def which(parser: argparse.ArgumentParser, named: list[str]) -> list[str]:
    """Return the sets to use; one that was named must be here, the others are told on stderr."""
    unknown = [name for name in named if name not in sets.SETS]
    if unknown:
        parser.error(f"no set {unknown[0]}; there are {', '.join(sets.SETS)}")
    absent = [name for name in named or sets.SETS if not sets.load(name)]
    for name in absent:
        print(f"set {name} is not here: {sets.WHERE.get(name, '')}", file=sys.stderr)
    if named and absent:
        raise SystemExit(1)
    return [name for name in named or sets.SETS if name not in absent]


def quality(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    rows = accuracy.run(chosen.sets, ways=("ours",))
    faults = accuracy.check(rows, update=chosen.update)
    if faults:
        show(rows, as_json=chosen.json)
        raise SystemExit("; ".join(faults))
    return rows


def show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
