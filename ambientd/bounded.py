"""Blocking calls that may hang for good, in a bounded number of threads.

A disk that hangs cannot be interrupted. Whoever waits is let go at a deadline, but the thread stays
where it is and keeps its place, so that a mount that hangs costs a few threads and not one a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

Params = ParamSpec("Params")
Value = TypeVar("Value")

_abandoned = 0
_abandoned_lock = threading.Lock()


class Threads:
    """Runs blocking calls, at most so many at once, hung ones included.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._places = anyio.CapacityLimiter(most)

    async def run(
        self,
        deadline_s: float,
        call: Callable[Params, Value],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Value:
        """Run a blocking call in a thread and return its value.

        Raises:
            TimeoutError: it did not end in time, or there was no place for it in time.
        """
        with anyio.fail_after(deadline_s):
            place = _Place(self._places)
            await self._places.acquire_on_behalf_of(place)
            try:
                # A limiter of its own: the place is given back by the thread, not by who waits.
                return await anyio.to_thread.run_sync(
                    lambda: place.hold(call, *args, **kwargs),
                    abandon_on_cancel=True,
                    limiter=anyio.CapacityLimiter(1),
                )
            finally:
                place.leave()


class _Place:
    """One place among the threads: given back when the call is over and nobody else will."""

    def __init__(self, places: anyio.CapacityLimiter) -> None:
        self._places = places
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._running = False
        self._left = False

    def hold(
        self, call: Callable[Params, Value], *args: Params.args, **kwargs: Params.kwargs
    ) -> Value:
        """Make the call, in the thread."""
        with self._lock:
            if self._left:
                raise TimeoutError  # nobody waits any more
            self._running = True
        try:
            return call(*args, **kwargs)
        finally:
            with self._lock:
                self._running = False
                was_left = self._left
            if was_left:
                _count(-1)
                with contextlib.suppress(RuntimeError):  # the loop has closed: the end
                    self._loop.call_soon_threadsafe(self._places.release_on_behalf_of, self)

    def leave(self) -> None:
        """Stop waiting, on the loop."""
        with self._lock:
            self._left = True
            hangs = self._running
        if hangs:
            _count(+1)
        else:
            self._places.release_on_behalf_of(self)


def _count(step: int) -> None:
    global _abandoned
    with _abandoned_lock:
        _abandoned += step


def hanging() -> bool:
    """Tell whether a call that was given up still runs: the interpreter waits for its thread."""
    return _abandoned > 0
