"""Runs a stand-by while the daemon is armed, and says when somebody spoke."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import anyio

from ambientd import inputs
from ambientd.inputs import OpenInput
from ambientd.standby import Standby


class Arming:
    """Stands by between ``enter`` and ``leave``.

    Args:
        make: makes a stand-by.
        on_speech: takes the open inputs when somebody speaks; until ``enter`` nothing stands by.

    Attributes:
        standby: the one that listens; None while nothing does.
    """

    def __init__(
        self,
        make: Callable[[], Standby],
        on_speech: Callable[[Mapping[str, OpenInput]], Awaitable[None]],
    ) -> None:
        self.standby: Standby | None = None
        self._make = make
        self._on_speech = on_speech
        self._is_wanted = False
        self._changed = anyio.Event()
        self._scope = anyio.CancelScope()
        self._closed = anyio.Event()
        self._closed.set()

    def enter(self) -> None:
        """Begin to listen; returns at once."""
        self._is_wanted = True
        self._changed.set()

    async def leave(self) -> None:
        """Close every input; returns when that is done."""
        self._is_wanted = False
        self._scope.cancel()
        await self._closed.wait()

    async def run(self) -> None:
        """Do it, until cancelled."""
        while True:
            if not self._is_wanted:
                self._changed = anyio.Event()
                await self._changed.wait()
                continue
            opened: Mapping[str, OpenInput] = {}
            self._closed = anyio.Event()
            try:
                with anyio.CancelScope() as self._scope:
                    self.standby = self._make()
                    opened = await self.standby.run()
                if not self._is_wanted:
                    await inputs.close_all(opened)
                    opened = {}
            finally:
                self.standby = None
                self._closed.set()
            if opened:
                self._is_wanted = False
                await self._on_speech(opened)
