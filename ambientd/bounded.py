"""Blocking calls that may hang for good, in a bounded number of threads.

A disk that hangs cannot be interrupted. Whoever waits is let go at a deadline, but the thread stays
where it is and keeps its place, so that a mount that hangs costs a few threads and not one a call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

Params = ParamSpec("Params")
Value = TypeVar("Value")

PATIENCE_S = 0.01
"""A thread that is in one call for so long does not hold up what waits behind it."""

_given_up: set[_Job] = set()


class Threads:
    """Runs blocking calls in the order they come, at most so many at once, hung ones included.

    One thread does them all as long as it comes back soon, all that wait at a time, and hands their
    values over together. Threads that run Python side by side do nothing faster, and handing the
    interpreter to and fro at each look at the disk costs several times what is to be done.

    Args:
        most: how many threads.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="disk")
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._ended: deque[_Job] = deque()
        self._given_up: set[_Job] = set()
        self._looks_soon = False
        self._looks_later = False

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
        loop = asyncio.get_running_loop()
        job = _Job(loop.create_future(), partial(call, *args, **kwargs))
        deadline = loop.call_later(deadline_s, job.expire)
        self._waiting.append(job)
        if not self._looks_soon:
            self._looks_soon = True
            loop.call_soon(self._look, loop)  # when what came with it waits too
        try:
            value: Value = await job.future
            return value
        finally:
            deadline.cancel()
            self._let_go(job)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a thread begin if none is about to come back."""
        self._looks_soon = False
        self._hand_over()
        with self._lock:
            is_held_up = not self._comes_back()
            if is_held_up and self._waiting and len(self._running) < self._most:
                self._pool.submit(self._work, self._next_job(), loop)
            has_more_to_do = self._comes_back() or bool(self._waiting)
        if has_more_to_do and not self._looks_later:
            self._looks_later = True
            loop.call_later(PATIENCE_S, self._look_again, loop)

    def _comes_back(self) -> bool:
        """Tell whether a thread is in a call for so short a time that it is worth waiting for."""
        since_s = time.monotonic() - PATIENCE_S
        return any(job.started_s > since_s for job in self._running)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_later = False
        self._look(loop)

    def _work(self, job: _Job | None, loop: asyncio.AbstractEventLoop) -> None:
        """Run a job, and then what waits until nothing does; in a thread."""
        while job is not None:
            job.run()
            with self._lock:
                self._running.discard(job)
                for given_up in (self._given_up, _given_up):
                    given_up.discard(job)
                self._ended.append(job)
                job = self._next_job()
        try:
            loop.call_soon_threadsafe(self._hand_over)
        except RuntimeError:
            pass  # the loop is gone, and with it whoever waited

    def _hand_over(self) -> None:
        """Give the values that are there to those who wait for them."""
        while self._ended:
            self._ended.popleft().settle()

    def _next_job(self) -> _Job | None:
        if not self._waiting:
            return None
        job = self._waiting.popleft()
        job.started_s = time.monotonic()
        self._running.add(job)
        return job

    def _let_go(self, job: _Job) -> None:
        """Forget a job that nobody waits for any more; one that runs may hang."""
        with self._lock:
            if job in self._running:
                for given_up in (self._given_up, _given_up):
                    given_up.add(job)
            elif job in self._waiting:
                self._waiting.remove(job)


class _Job:
    """One call and who waits for it."""

    def __init__(self, future: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        self.future = future
        self.started_s = 0.0
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make the call; in a thread."""
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self._error = error

    def settle(self) -> None:
        """Tell whoever waits what came of it."""
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._value)

    def expire(self) -> None:
        """Let go whoever waits."""
        if not self.future.done():
            self.future.set_exception(TimeoutError())


def hanging() -> bool:
    """Tell whether a call that was given up still runs: the interpreter waits for its thread."""
    return bool(_given_up)
