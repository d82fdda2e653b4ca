"""Makes the README's picture of `ambientctl status --watch`: `python -m tests.screenshot FILE`.

It is of a real daemon that plays the sample as its microphone and a second voice as the call, which
needs espeak-ng.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ambientctl.call import Talk
from ambientctl.watch import View
from rich.console import Console

from tests import running

SAMPLE = Path(__file__).parent / "data" / "standup.flac"
CALL = "Hello everybody. The server in the second rack was slow. We replaced its disk."
WATCHED_S = 16.5
WIDTH = 96


def main(target: Path) -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, running.place() as place:
        call = Path(folder) / "call.wav"
        subprocess.run(["espeak-ng", "-s", "140", "-w", call, CALL], check=True)
        sources = ("--source", str(SAMPLE), "--call-source", str(call))
        with running.daemon(place, *sources):
            watch(place, target)


def watch(place: running.Place, target: Path) -> None:
    """Record for a while and write the picture of the moment."""
    os.environ.update(place.environ)
    place.ctl("record", "--call", "--name", "stand-up")
    view = View()
    with Talk() as talk:
        end_s = time.monotonic() + WATCHED_S
        while time.monotonic() < end_s:
            view.look(talk)
            time.sleep(0.5)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(view.picture())
    picture = console.export_svg(title="ambientctl status --watch")
    # Whoever looks at it shall not fetch fonts from anywhere.
    target.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
