"""What PulseAudio, or PipeWire in its place, knows of the input that this process records from.

PortAudio does not know that a microphone is muted, that the server has put another device behind an
open stream, or that this is the monitor of a sink. The server does.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from ambientd.audio.source import Input

LOOK_S = 0.5
"""Between two looks; one takes two milliseconds."""


class Watch:
    """Looks at this process's recording stream from a thread of its own, until ``stop``.

    A server that hangs holds up this thread alone. Where there is no such server, or no library to
    ask it, nothing is ever known.

    Attributes:
        input: the input as last seen; None while nothing is known.
        is_suspended: the server has put the input to sleep.
    """

    def __init__(self) -> None:
        self.input: Input | None = None
        self.is_suspended = False
        self._stop = threading.Event()
        self._looked = threading.Event()

    def start(self, wait_s: float) -> None:
        """Begin to look, and wait for the first look, but not longer than so many seconds."""
        threading.Thread(target=self._run, name="input", daemon=True).start()
        self._looked.wait(wait_s)

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _run(self) -> None:
        try:
            import pulsectl
        except (ImportError, OSError):
            self._looked.set()
            return
        while not self._stop.is_set():
            try:
                with pulsectl.Pulse("ambientd") as server:
                    while not self._stop.is_set():
                        self._look(server)
                        self._looked.set()
                        self._stop.wait(LOOK_S)
            except pulsectl.PulseError:
                # No server, or it went away: what was known is of no more use.
                self.input = None
                self._looked.set()
                self._stop.wait(LOOK_S)

    def _look(self, server: Any) -> None:
        pid = str(os.getpid())
        for stream in server.source_output_list():
            if stream.proplist.get("application.process.id") == pid:
                source = server.source_info(stream.source)
                self.is_suspended = source.state == "suspended"
                self.input = Input(
                    device=source.description or source.name,
                    is_monitor=source.monitor_of_sink_name is not None,
                    is_muted=bool(source.mute or stream.mute),
                )
                return
