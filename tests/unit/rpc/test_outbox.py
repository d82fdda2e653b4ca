from __future__ import annotations

import anyio
import pytest

from ambientd.rpc import outbox
from ambientd.rpc.outbox import Outbox, StalledError

pytestmark = pytest.mark.anyio


class Peer:
    """Takes what it is sent, when it is told to."""

    def __init__(self) -> None:
        self.taken = b""
        self.may_take = anyio.Event()

    async def send(self, item: bytes) -> None:
        await self.may_take.wait()
        self.taken += item

    async def aclose(self) -> None: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_answers_leave_in_order_and_close_waits_for_the_last() -> None:
    peer = Peer()
    peer.may_take.set()
    box = Outbox(peer)  # type: ignore[arg-type]
    for number in range(50):
        box.put(b"%d " % number * 10_000)
    box.close()
    with anyio.fail_after(5):
        await box.run()
    assert peer.taken == b"".join(b"%d " % number * 10_000 for number in range(50))


async def test_reading_stops_when_too_much_is_unsent_and_goes_on_when_it_drains() -> None:
    peer = Peer()
    box = Outbox(peer)  # type: ignore[arg-type]
    with anyio.fail_after(5):
        await box.wait_for_room()
        box.put(bytes(outbox.MAX_UNSENT_BYTES + 1))
        with anyio.move_on_after(0.05) as scope:
            await box.wait_for_room()
        assert scope.cancelled_caught
        async with anyio.create_task_group() as group:
            group.start_soon(box.run)
            peer.may_take.set()
            await box.wait_for_room()
            box.close()


async def test_a_peer_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "STALLED_S", 0.02)
    box = Outbox(Peer())  # type: ignore[arg-type]
    box.put(b"x")
    with anyio.fail_after(5), pytest.raises(StalledError):
        await box.run()
