"""`python -m ambientd.audio.devices WANTED`: the input devices, as one line of JSON.

WANTED is a JSON object: by track what would be opened for it.

A process of its own each time, because PortAudio looks for devices only when it starts.
"""

from __future__ import annotations

import json
import os
import sys

from ambientd.audio import portaudio, selection
from ambientd.errors import CaptureError


def main() -> int:
    """Print ``{"devices": [...]}`` or ``{"fault": {...}}`` and return the exit code."""
    answer_fd = os.dup(1)
    os.dup2(2, 1)  # PortAudio's backends print
    try:
        listed = portaudio.list_inputs()
        selection.mark_chosen(listed, json.loads(sys.argv[1]))
        answer: dict[str, object] = {"devices": listed}
    except CaptureError as error:
        fault = {"code": error.code, "message": error.message, "hint": error.hint}
        answer = {"fault": fault}
    with os.fdopen(answer_fd, "w", encoding="ascii") as out:
        out.write(json.dumps(answer) + "\n")
    return 1 if "fault" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
