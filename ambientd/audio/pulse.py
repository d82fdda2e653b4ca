"""What PulseAudio, or PipeWire in its place, knows of inputs, and of the one this process records.

PortAudio does not know that a microphone is muted, that the server has put another device behind an
open stream, or that this is the monitor of a sink. The server does, and it is the server whose
devices people know by name.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, NamedTuple

from ambientd.audio.source import Input

LOOK_S = 0.5
"""Between two looks; one takes two milliseconds."""

ENV = "PULSE_SOURCE"
"""Which source the library of the server opens for this process (pulseaudio(1))."""

CLIENT = "ambientd"


class PulseSource(NamedTuple):
    """A source of the server.

    Attributes:
        name: what the server calls it.
        description: what people call it.
        is_monitor: it carries what a sink plays.
        is_default: it is the default input.
        is_played: it is the monitor of the default output.
        rate_hz: its sample rate.
        channels: how many it has.
    """

    name: str
    description: str
    is_monitor: bool
    is_default: bool
    is_played: bool
    rate_hz: int
    channels: int


def sources() -> list[PulseSource] | None:
    """Return the sources of the server; None where there is none, or no library to ask it."""
    if sys.platform != "linux":
        return None
    try:
        import pulsectl
    except (ImportError, OSError):
        return None
    try:
        with pulsectl.Pulse(CLIENT) as server:
            known = server.server_info()
            played = _monitor_of_default(server)
            return [
                PulseSource(
                    name=source.name,
                    description=source.description or source.name,
                    is_monitor=source.monitor_of_sink_name is not None,
                    is_default=source.name == known.default_source_name,
                    is_played=source.name == played,
                    rate_hz=source.sample_spec.rate,
                    channels=source.sample_spec.channels,
                )
                for source in server.source_list()
            ]
    except pulsectl.PulseError:
        return None


def _monitor_of_default(server: Any) -> str | None:
    default = server.server_info().default_sink_name
    sinks = (sink for sink in server.sink_list() if sink.name == default)
    return next((str(sink.monitor_source_name) for sink in sinks), None)


class Watch:
    """Looks at this process's recording stream from a thread of its own, until ``stop``.

    A server that hangs holds up this thread alone. Where there is no such server, or no library to
    ask it, nothing is ever known.

    Args:
        wanted: the source that the stream must be at; None for whichever the server chooses.
        follows_output: it must be at the monitor of whatever the default output is.

    Attributes:
        input: the input as last seen; None while nothing is known.
        is_suspended: the server has put the input to sleep.
        is_elsewhere: the stream is not where it must be.
    """

    def __init__(self, wanted: str | None = None, *, follows_output: bool = False) -> None:
        self.input: Input | None = None
        self.is_suspended = False
        self.is_elsewhere = False
        self._wanted = wanted
        self._follows_output = follows_output
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
                with pulsectl.Pulse(CLIENT) as server:
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
                wanted = _monitor_of_default(server) if self._follows_output else self._wanted
                self.is_elsewhere = wanted not in (None, source.name)
                self.is_suspended = source.state == "suspended"
                self.input = Input(
                    device=source.description or source.name,
                    is_monitor=source.monitor_of_sink_name is not None,
                    is_muted=bool(source.mute or stream.mute),
                )
                return
