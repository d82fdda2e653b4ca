"""Armed, and nobody speaks: inputs are open, two seconds of them in memory, nothing on disk.

A capture child a track hands what it hears to one voice detector (``ambientd.speech.ear``) through
a pipe. An input that goes away is waited for, as in a session.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import anyio

from ambientd import capture as captures
from ambientd import child, logs
from ambientd.audio import hearing
from ambientd.audio.source import Input
from ambientd.capture import Capture
from ambientd.errors import CaptureError
from ambientd.inputs import OpenInput, Source
from ambientd.track import CLOSE_TIMEOUT_S
from ambientd.units import SILENCE_DBFS

EAR_MODULE = "ambientd.speech.ear"

AGAIN_S = 1.0
"""Before a child that ended is followed by another."""


class StandbyTrack:
    """One input while nothing is recorded.

    Attributes:
        known: what is known of it; its device is empty while there is none.
        problem: why it is not heard, or an empty string.
        level_dbfs: how loud it is; None while it is not known.
        peak_dbfs: the same of its peak.
        voice: how likely there was a voice a moment ago, 0 to 1; None unless that is wanted.
        is_speech: whether somebody speaks, as far as that is wanted.
        state: ``ok``, ``waiting``, ``muted`` or ``digital_silence``.
    """

    def __init__(self) -> None:
        self.known = Input("")
        self.problem = ""
        self.level_dbfs: float | None = None
        self.peak_dbfs: float | None = None
        self.voice: float | None = None
        self.is_speech = False
        self._hearing = hearing.Hearing()

    @property
    def state(self) -> str:
        """How it is."""
        return self._hearing.state if self.known.device else "waiting"

    def meet(self, known: Input) -> None:
        """Take what is known of it now."""
        self.known, self.problem = known, ""

    def miss(self, problem: str) -> None:
        """Take note that it is not heard."""
        self.known, self.problem = Input(""), problem
        self.level_dbfs = self.peak_dbfs = self.voice = None
        self.is_speech = False

    def take(self, event: dict[str, Any]) -> None:
        """Take what a capture child says of its level."""
        self.level_dbfs, self.peak_dbfs = event["rms_dbfs"], event["peak_dbfs"]
        is_sound = event["zero_ms"] == 0 and event["peak_dbfs"] > SILENCE_DBFS
        self._hearing.see(self.known, event["zero_ms"], is_sound=is_sound)


class Standby:
    """Keeps inputs open until somebody speaks.

    Args:
        sources: what to open, by track.
        vad: the segmenter's rules.
        only_shows: whether speech is shown, and begins nothing.

    Attributes:
        tracks: how each input is.
    """

    def __init__(
        self, sources: Mapping[str, Source], vad: Mapping[str, Any], *, only_shows: bool = False
    ) -> None:
        self.tracks = {track: StandbyTrack() for track in sources}
        self._sources = sources
        self._vad = dict(vad)
        self._only_shows = only_shows
        self._open: dict[str, OpenInput] = {}
        self._spoken = anyio.Event()

    async def run(self) -> dict[str, OpenInput]:
        """Listen until somebody speaks; cancel it to close everything.

        Returns:
            The open inputs by track, with the last two seconds in their children's memory.
        """
        pipes = {track: os.pipe() for track in self._sources}
        try:
            async with anyio.create_task_group() as group:
                ends = {track: read_fd for track, (read_fd, _) in pipes.items()}
                group.start_soon(self._listen, ends)
                for track, (_, write_fd) in pipes.items():
                    group.start_soon(self._keep_open, track, write_fd)
                await self._spoken.wait()
                group.cancel_scope.cancel()
            return await self._hold()
        except BaseException:
            for one in self._open.values():
                await one.capture.end(CLOSE_TIMEOUT_S)
            raise
        finally:
            for fd in (fd for both in pipes.values() for fd in both):
                os.close(fd)

    async def _hold(self) -> dict[str, OpenInput]:
        for track, one in list(self._open.items()):
            try:
                self._open[track] = one._replace(opened=await one.capture.hold(one.opened))
            except CaptureError as error:
                logs.event("standby.lost", level=logging.WARNING, reason=error.message)
                await self._open.pop(track).capture.end(0)
        return self._open

    async def _listen(self, tracks: dict[str, int]) -> None:
        """Run the voice detector, one after another if need be."""
        while True:
            try:
                ear = await child.start(EAR_MODULE, pass_fds=list(tracks.values()))
            except OSError as error:
                logs.event("ear.failed", level=logging.ERROR, reason=str(error))
                await anyio.sleep(AGAIN_S)
                continue
            try:
                await ear.send(
                    "configure", vad=self._vad, tracks=tracks, tells_voice=self._only_shows
                )
                async for event in ear.events():
                    self._hear(event)
            finally:
                await ear.end(0)
            logs.event("ear.lost", level=logging.WARNING)
            await anyio.sleep(AGAIN_S)

    def _hear(self, event: dict[str, Any]) -> None:
        track = event["track"]
        if track not in self._open:
            return  # of an input that was lost a moment ago there is nothing to be recorded
        if event["event"] == "voice":
            self.tracks[track].voice = event["probability"]
            self.tracks[track].is_speech = event["is_speech"]
        elif not self._only_shows:
            logs.event("speech.noticed", track=track)
            self._spoken.set()

    async def _keep_open(self, track: str, ear_fd: int) -> None:
        """Have an input open whenever it is there."""
        while True:
            capture = None
            try:
                capture = await captures.start(pass_fds=[ear_fd])
                await self._follow(track, capture, ear_fd)
            except CaptureError as error:
                self.tracks[track].miss(error.message)
            finally:
                # What is open when somebody speaks is handed over.
                if capture is not None and not self._spoken.is_set():
                    self._open.pop(track, None)
                    await capture.end(CLOSE_TIMEOUT_S)
                elif capture is not None and track not in self._open:
                    await capture.end(CLOSE_TIMEOUT_S)
            await anyio.sleep(AGAIN_S)

    async def _follow(self, track: str, capture: Capture, ear_fd: int) -> None:
        told = self.tracks[track]
        opened = await capture.wait_and_open(
            {**self._sources[track], "allow_monitor": False},
            lambda event: told.miss(event["message"]),
        )
        await capture.listen(ear_fd)
        told.meet(opened.known)
        self._open[track] = OpenInput(capture, opened)
        async for event in capture.events():
            if event["event"] == "level":
                told.take(event)
            elif event["event"] == "input":
                told.meet(captures.known(event))
                self._open[track] = OpenInput(capture, opened._replace(known=told.known))
            elif event["event"] == "ended":
                raise CaptureError(event["message"])
        raise CaptureError("the capture process ended unexpectedly")
