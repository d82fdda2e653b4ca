"""A person looks whether the microphone hears them: levels and voice for some seconds, no audio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from ambientd import logs
from ambientd.inputs import Source
from ambientd.standby import Standby, StandbyTrack

ROW_S = 0.5

OPEN_WITHIN_S = 5.0
"""For so long an input is waited for before the time begins to run."""


class Soundcheck:
    """One look at the inputs; build it and run it once.

    Args:
        sources: what to open, by track.
        vad: the segmenter's rules.
        seconds: for how long, from when an input is heard.

    Attributes:
        is_over: whether it has ended.
    """

    def __init__(
        self, sources: Mapping[str, Source], vad: Mapping[str, Any], seconds: float
    ) -> None:
        self.is_over = False
        self._seconds = seconds
        self._standby = Standby(sources, vad, only_shows=True)
        self._rows: dict[str, list[dict[str, Any]]] = {track: [] for track in sources}
        self._scope = anyio.CancelScope()

    def stop(self) -> None:
        """End it early; returns at once."""
        self._scope.cancel()

    async def run(self) -> None:
        """Listen until the time is over; every input is closed then."""
        logs.event("soundcheck.started", seconds=self._seconds)
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._standby.run)
                    await self._look()
                    group.cancel_scope.cancel()
        finally:
            self.is_over = True
            logs.event("soundcheck.ended")

    async def _look(self) -> None:
        tracks = self._standby.tracks
        for _ in range(round(OPEN_WITHIN_S / ROW_S)):
            if any(told.level_dbfs is not None for told in tracks.values()):
                break
            await anyio.sleep(ROW_S)
        for _ in range(round(self._seconds / ROW_S)):
            await anyio.sleep(ROW_S)
            for track, told in tracks.items():
                self._rows[track].append(_row(told))

    def as_json(self) -> dict[str, Any]:
        """Return what was seen so far: by track its device, how it is, and a row each half second.

        A row has ``level_dbfs``, ``peak_dbfs`` and ``voice`` (0 to 1), null while nothing is heard,
        and ``speech``: whether a recording would have taken it for somebody who speaks.
        """
        return {
            "is_over": self.is_over,
            "tracks": {
                track: {
                    "device": told.known.device or None,
                    "input": told.state,
                    "warning": told.problem,
                    "rows": self._rows[track],
                }
                for track, told in self._standby.tracks.items()
            },
        }


def _row(told: StandbyTrack) -> dict[str, Any]:
    return {
        "level_dbfs": told.level_dbfs,
        "peak_dbfs": told.peak_dbfs,
        "voice": None if told.voice is None else round(told.voice, 2),
        "speech": told.is_speech,
    }
