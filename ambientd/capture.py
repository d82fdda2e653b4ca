"""The daemon's side of a capture child: what it is asked, and what it may answer.

The child's side is ``ambientd.audio.capture``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import anyio

from ambientd import child
from ambientd.audio.source import Input
from ambientd.errors import CaptureError

MODULE = "ambientd.audio.capture"

OPEN_TIMEOUT_S = 15.0
"""Audio servers that are waking up take seconds; beyond this the device is stuck."""

Take = Callable[[dict[str, Any]], None]


class Opened(NamedTuple):
    """An input that a capture child has opened.

    Attributes:
        known: what is known of it.
        rate_hz: its rate.
        wall_ns: when its first frame was heard, since the epoch.
        boot_ns: the same, as ``clock.boot_ns``.
    """

    known: Input
    rate_hz: int
    wall_ns: int
    boot_ns: int


class Target(NamedTuple):
    """Where a capture child writes.

    Attributes:
        folder: the session's audio folder.
        track: the track's name.
        spool: whether to write the 16 kHz spool.
        floor_bytes: the free room below which it must end; 0 for none.
    """

    folder: str
    track: str
    spool: bool
    floor_bytes: int


class Since(NamedTuple):
    """From when on there is nothing in a track's files.

    Attributes:
        frames: how many they held ...
        at_ns: ... when the last of them was heard, as ``clock.boot_ns``.
        reason: of the gap from there to the first frame that comes.
        rate_hz: their rate; 0 where there are no files yet.
    """

    frames: int
    at_ns: int
    reason: str
    rate_hz: int = 0


def known(event: dict[str, Any]) -> Input:
    """Return what an event says of the input."""
    return Input(event["device"], event["is_monitor"], event["is_muted"])


class Capture:
    """One capture child, from its start to its end. Build it with ``start``."""

    def __init__(self, process: child.Child) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def open(self, source: dict[str, Any]) -> Opened:
        """Have it open its input now.

        Args:
            source: what to open, as in ``ambientd.audio.capture.make_source``.

        Raises:
            CaptureError: it cannot be opened.
        """
        await self._process.send("open", source=source, wait=False)
        with anyio.move_on_after(OPEN_TIMEOUT_S):
            return _opened(await self._expect("open"))
        raise CaptureError(
            f"the input did not open within {OPEN_TIMEOUT_S:g} s", "is the audio server running?"
        )

    async def wait_and_open(self, source: dict[str, Any], take_waiting: Take) -> Opened:
        """Have it open its input as soon as that can be opened.

        Args:
            source: as for ``open``.
            take_waiting: gets each event that says why it cannot be opened yet.

        Raises:
            CaptureError: it can never be opened by this child.
        """
        await self._process.send("open", source=source, wait=True)
        return _opened(await self._expect("open", take_waiting))

    async def listen(self, ear_fd: int) -> None:
        """Have it keep two seconds in memory, and hand what it hears to a voice detector.

        Args:
            ear_fd: the pipe to that, one of the ``pass_fds``.
        """
        await self._process.send("listen", fd=ear_fd)

    async def hold(self, opened: Opened) -> Opened:
        """Have it keep what it has: the head of the files to come.

        Args:
            opened: what it opened.

        Returns:
            The same, as of the first frame that was kept.

        Raises:
            CaptureError: it is gone.
        """
        await self._process.send("hold")
        with anyio.move_on_after(OPEN_TIMEOUT_S):
            held = await self._expect("held")
            return opened._replace(wall_ns=held["wall_ns"], boot_ns=held["boot_ns"])
        raise CaptureError("the microphone does not answer")

    async def begin(
        self, target: Target, since: Since, *, create: bool, take: Take | None = None
    ) -> int:
        """Have it write a track; frames since the opening become its head.

        Args:
            target: where to.
            since: what the files lack before its first frame; that becomes a gap.
            create: whether to create the files; else it goes on with those that are there.
            take: gets the events on the way, of the gap between.

        Returns:
            The rate of the native file in Hz, to which the input is converted.

        Raises:
            CaptureError: the files cannot be opened.
        """
        await self._process.send("begin", **target._asdict(), create=create, since=since._asdict())
        with anyio.move_on_after(OPEN_TIMEOUT_S):
            begun = await self._expect("begun", take)
            return int(begun["rate_hz"])
        raise CaptureError(f"the recording did not begin within {OPEN_TIMEOUT_S:g} s")

    async def stop(self) -> None:
        """Ask it to close its files."""
        await self._process.send("stop")

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield each event until its end."""
        return self._process.events()

    async def end(self, grace_s: float) -> None:
        """See ``Child.end``."""
        await self._process.end(grace_s)

    async def _expect(self, wanted: str, take: Take | None = None) -> dict[str, Any]:
        """Return the next event of a kind; those before it go to ``take``."""
        async for event in self._process.events():
            if event["event"] == "fault":
                raise CaptureError(event["message"], event["hint"], code=event["code"])
            if event["event"] == wanted:
                return event
            if take is not None:
                take(event)
        raise CaptureError("the capture process ended unexpectedly")


async def start(*, pass_fds: Sequence[int] = ()) -> Capture:
    """Start a capture child.

    Args:
        pass_fds: descriptors that it gets, for ``Capture.listen``.

    Raises:
        CaptureError: it cannot be started.
    """
    try:
        return Capture(await child.start(MODULE, pass_fds=pass_fds))
    except OSError as error:
        raise CaptureError(f"the capture process cannot be started: {error}") from None


def _opened(event: dict[str, Any]) -> Opened:
    return Opened(known(event), event["rate_hz"], event["wall_ns"], event["boot_ns"])
