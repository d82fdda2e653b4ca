"""Blocking calls that may hang for good, in a bounded number of threads.

A disk that hangs cannot be interrupted. Whoever waits is let go at a deadline, but the thread stays
where it is and keeps its place, so that a mount that hangs costs a few threads and not one a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import anyio

Params = ParamSpec("Params")
Value = TypeVar("Value")

_given_up: set[Future[Any]] = set()


class Threads:
    """Runs blocking calls, at most so many at once, hung ones included.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="disk")
        self._most = most
        self._given_up: set[Future[Any]] = set()

    async def run(
        self,
        deadline_s: float,
        call: Callable[Params, Value],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Value:
        """Run a blocking call in a thread and return its value.

        Raises:
            TimeoutError: it did not end in time, or there was no thread for it in time; at once
                when every thread hangs.
        """
        if len(self._given_up) >= self._most:
            # Nothing would take it up, and what waits here is kept in memory.
            raise TimeoutError
        future = self._pool.submit(call, *args, **kwargs)
        try:
            with anyio.fail_after(deadline_s):
                return await asyncio.wrap_future(future)
        finally:
            # Of no use to a call that runs; then it is known as one that may hang.
            if not future.done() and not future.cancel():
                for given_up in (self._given_up, _given_up):
                    given_up.add(future)
                    future.add_done_callback(given_up.discard)


def hanging() -> bool:
    """Tell whether a call that was given up still runs: the interpreter waits for its thread."""
    return bool(_given_up)
