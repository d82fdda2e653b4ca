"""A desktop notification when listening begins and ends, where the desktop has a program for it.

Best effort: nothing waits for it and nothing depends on it. It holds fixed words only, none that
were spoken and no session's name.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys

import anyio

from ambientd import logs
from ambientd.consent import Phase

TITLE = "Ambient"
TIMEOUT_S = 5.0

TEXTS = {
    Phase.DEAF: "It has stopped listening. The microphone is closed.",
    Phase.ARMED: "It listens: a session begins when somebody speaks.",
    Phase.RECORDING: "It is recording.",
    Phase.PAUSED: "It is paused. The microphone is closed.",
}


async def tell(phase: Phase) -> None:
    """Say what the microphone is doing now."""
    command = _command(TEXTS[phase])
    if command is None:
        return
    try:
        with anyio.move_on_after(TIMEOUT_S):
            await anyio.run_process(
                command, stdin=subprocess.DEVNULL, check=False, start_new_session=True
            )
    except OSError as error:
        logs.event("notification.failed", level=logging.DEBUG, reason=str(error))


def _command(text: str) -> list[str] | None:
    if sys.platform == "darwin":
        program = shutil.which("osascript")
        script = f'display notification "{text}" with title "{TITLE}"'
        return [program, "-e", script] if program else None
    program = shutil.which("notify-send")
    return [program, "--app-name", TITLE, TITLE, text] if program else None
