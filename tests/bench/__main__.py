"""Runs one benchmark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tests.bench import flood, live, reading, start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    benches = parser.add_subparsers(required=True, metavar="NAME")
    live_parser = benches.add_parser("live", help="delay, processor and memory of live text")
    live_parser.add_argument("files", nargs="*", type=Path, help="recordings; the sample else")
    live_parser.set_defaults(run=lambda chosen: live.run(chosen.files or [live.SAMPLE]))
    start_parser = benches.add_parser("start", help="ambient mcp from exec to its first answer")
    start_parser.set_defaults(run=lambda chosen: start.run())
    reading_parser = benches.add_parser("reading", help="the three tools on many sessions")
    reading_parser.set_defaults(run=lambda chosen: reading.run())
    flood_parser = benches.add_parser("flood", help="what others wait while one client floods")
    flood_parser.set_defaults(run=lambda chosen: flood.run())
    chosen = parser.parse_args()
    show(chosen.run(chosen), as_json=chosen.json)


def show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
