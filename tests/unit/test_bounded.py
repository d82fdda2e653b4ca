"""A disk that hangs costs a bounded number of threads, and nobody's exit."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import anyio
import pytest

from ambientd import bounded

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_call_that_was_given_up_keeps_its_place_until_it_ends() -> None:
    release = threading.Event()
    started: list[int] = []

    def hang() -> None:
        started.append(threading.get_ident())
        release.wait(30)

    threads = bounded.Threads(2)
    try:
        for _ in range(4):
            with pytest.raises(TimeoutError):
                await threads.run(0.05, hang)
        assert len(started) == 2, "the third waited for a place and never had a thread"
        assert bounded.hanging()
    finally:
        release.set()
    with anyio.fail_after(10):
        while bounded.hanging():  # noqa: ASYNC110 - a thread brings it about
            await anyio.sleep(0.01)
        assert [await threads.run(10, int, "7") for _ in range(4)] == [7] * 4


async def test_a_call_that_hangs_holds_up_neither_what_came_before_nor_what_comes_behind() -> None:
    release = threading.Event()
    threads = bounded.Threads(2)
    values: list[int] = []

    async def ask(call: Callable[[], int]) -> None:
        values.append(await threads.run(20, call))

    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                # All at once, and so for one thread, which comes as far as the second.
                for call in (lambda: 1, lambda: int(release.wait(30)) + 2, lambda: 4):
                    group.start_soon(ask, call)
                while len(values) < 2:  # noqa: ASYNC110 - a thread brings it about
                    await anyio.sleep(0.01)
                assert values == [1, 4]
                release.set()
    finally:
        release.set()
    assert values == [1, 4, 3]
    assert not bounded.hanging()


async def test_a_call_that_fails_gives_its_place_back() -> None:
    threads = bounded.Threads(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            await threads.run(10, int, "x")
    assert not bounded.hanging()


def test_a_hung_call_does_not_keep_the_process_from_its_end() -> None:
    code = """
import anyio, time
from ambientd import bounded, main

async def look():
    try:
        await bounded.Threads(1).run(0.05, time.sleep, 3600)
    except TimeoutError:
        print("late", flush=True)

anyio.run(look)
raise SystemExit(main.exit_code(3))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"late\n")
