"""Opens the inputs of a session's tracks, all at once, each by a capture child of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio

from ambientd import capture as captures
from ambientd import logs
from ambientd.audio.source import Input
from ambientd.capture import Capture, Opened, Since, Target
from ambientd.errors import CaptureError
from ambientd.track import CLOSE_TIMEOUT_S, Begun

Source = dict[str, Any]
"""What to open, as in ``ambientd.audio.capture.make_source``."""


class OpenInput(NamedTuple):
    """An input that delivers, and into no file yet.

    Attributes:
        capture: the child that opened it.
        opened: what it opened.
    """

    capture: Capture
    opened: Opened

    async def begin(self, target: Target, since: Since) -> Begun:
        """Have it write a track into new files.

        Raises:
            CaptureError: they cannot be created.
        """
        events: list[dict[str, Any]] = []
        rate_hz = await self.capture.begin(target, since, create=True, take=events.append)
        return Begun(self.capture, self.opened, rate_hz, events)


async def open_all(sources: Mapping[str, Source], *, must: str) -> dict[str, OpenInput]:
    """Open the inputs of several tracks.

    Args:
        sources: what to open, by track.
        must: the track without which there is nothing to record.

    Returns:
        Those that opened, by track.

    Raises:
        CaptureError: the input of ``must`` cannot be opened.
    """
    opened: dict[str, OpenInput] = {}
    failed: dict[str, CaptureError] = {}

    async def open_one(track: str, source: Source) -> None:
        try:
            opened[track] = await _open(source)
        except CaptureError as error:
            failed[track] = error

    try:
        async with anyio.create_task_group() as group:
            for track, source in sources.items():
                group.start_soon(open_one, track, source)
    except BaseException:
        await close_all(opened)
        raise
    if must in failed:
        await close_all(opened)
        raise failed[must]
    for track, error in failed.items():
        logs.event("input.late", level=logging.WARNING, track=track, reason=error.message)
    return opened


async def close_all(opened: Mapping[str, OpenInput]) -> None:
    """Close inputs of which nothing will be recorded."""
    for one in opened.values():
        await one.capture.end(CLOSE_TIMEOUT_S)


def describe(known: Input | None, rate_hz: int | None) -> dict[str, Any]:
    """Return what session.json says of a track; None for what is not known yet."""
    if known is None:
        return {"device": None, "rate_hz": None, "channels": 1}
    monitor = {"is_monitor": True} if known.is_monitor else {}
    return {"device": known.device, "rate_hz": rate_hz, "channels": 1, **monitor}


async def _open(source: Source) -> OpenInput:
    capture = await captures.start()
    try:
        # A monitor may be what a person wants: the status says so.
        return OpenInput(capture, await capture.open({**source, "allow_monitor": True}))
    except BaseException:
        await capture.end(CLOSE_TIMEOUT_S)
        raise
