"""The transcriber's bookkeeping, with workers that fail on demand in place of the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ambientd.speech import supervisor
from ambientd.speech.supervisor import Span, Track, Transcriber, TranscriberError

pytestmark = pytest.mark.anyio

# A worker that writes down its orders and then follows the script of its number in line.
STUB = """
import json, os, sys, time
folder = os.environ["STUB_FOLDER"]
number = len(os.listdir(folder + "/runs"))
log = open(f"{folder}/runs/{number}", "w")
script = json.load(open(folder + "/script.json"))[number]

def send(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)

for line in sys.stdin:
    log.write(line)
    log.flush()
    order = json.loads(line)
    if order["order"] != "finish":
        continue
    for step in script:
        if step == "hang":
            time.sleep(60)
        elif step == "die":
            os._exit(9)
        else:
            send(**step)
"""

CONFIG: dict[str, Any] = {"model": "none"}
TURN = {"track": "room", "start_ms": 500, "end_ms": 2000}
TEXT = {"text": "words", "confidence": 0.9, "language": "en"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Stage:
    """Runs a transcriber over scripted workers and keeps what came of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.happened: list[tuple[str, Any]] = []
        self.publishing_takes_s = 0.0
        self.transcriber = Transcriber(
            CONFIG, {"room": Track(folder / "spool", frames=48_000)}, self._publish, self._skip
        )
        self.transcriber.finish("room")

    async def _publish(self, turn: dict[str, Any]) -> None:
        await anyio.sleep(self.publishing_takes_s)
        self.happened.append(("turn", (turn["start_ms"], turn["end_ms"])))

    async def _skip(self, span: Span, why: str) -> None:
        self.happened.append(("skip", (span.start_ms, span.end_ms)))

    async def run(self, *scripts: list[Any]) -> None:
        text = json.dumps(scripts)
        (self._folder / "script.json").write_text(text, encoding="utf-8")
        with anyio.fail_after(20):
            await self.transcriber.run()

    def orders(self, run: int) -> list[dict[str, Any]]:
        """Return what the worker of a run was told."""
        path = self._folder / "runs" / str(run)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    (tmp_path / "runs").mkdir()
    (tmp_path / "stub_worker.py").write_text(STUB, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("STUB_FOLDER", str(tmp_path))
    monkeypatch.setattr(supervisor, "WORKER_MODULE", "stub_worker")
    monkeypatch.setattr(supervisor, "RESTART_PAUSE_S", 0.01)
    monkeypatch.setattr(supervisor, "SECOND_LOOK_S", 0.1)
    return Stage(tmp_path)


COST = {"decodes": 1, "decode_ms": 200}
READY = {"event": "ready", "track": "room"}
DECODING = {"event": "decoding", "kind": "turn", **TURN}
PUBLISHED = {"event": "turn", **TURN, **TEXT, **COST}
DRAINED = {
    "event": "drained",
    "track": "room",
    "from_ms": 0,
    "heard_ms": 0,
    "skipped_ms": 0,
}


async def test_a_worker_is_told_everything_and_its_turns_are_published(stage: Stage) -> None:
    stage.transcriber.add_hole("room", 2500, 2700)
    await stage.run([READY, DECODING, PUBLISHED, DRAINED])
    assert stage.happened == [("turn", (500, 2000))]
    assert stage.transcriber.state == "drained"
    names = [order["order"] for order in stage.orders(0)]
    assert names == ["configure", "track", "hole", "frames", "finish"]
    assert stage.orders(0)[0]["model"] == "none"


async def test_a_new_worker_goes_on_behind_what_is_published(stage: Stage) -> None:
    later = {"event": "turn", "track": "room", "start_ms": 2000, "end_ms": 2900, **TEXT, **COST}
    await stage.run([READY, DECODING, PUBLISHED, "die"], [READY, later, DRAINED])
    assert stage.happened == [("turn", (500, 2000)), ("turn", (2000, 2900))]
    assert stage.orders(1)[1]["from_ms"] == 2000
    assert stage.transcriber.restarts == 1


async def test_workers_lost_on_partial_text_cost_no_turn_and_it_is_made_no_more(
    stage: Stage,
) -> None:
    partial = {**DECODING, "kind": "partial"}
    stage.transcriber.partials()
    await stage.run([READY, partial, "die"], [READY, partial, "die"], [READY, PUBLISHED, DRAINED])
    assert stage.happened == [("turn", (500, 2000))]
    assert stage.transcriber._may_make_partials is False


@pytest.mark.parametrize(
    "end",
    [
        PUBLISHED,
        {"event": "rejected", **TURN, "reason": "no_speech", **COST},
        {"event": "progress", "track": "room", "position_ms": 2400, "speech": False},
    ],
)
async def test_partial_text_is_gone_with_its_turn(stage: Stage, end: dict[str, Any]) -> None:
    text = {"event": "partial", **TURN, "text": "So and", "stable": "So"}
    seen: list[dict[str, Any]] = []
    real = stage.transcriber._take

    async def watch(event: dict[str, Any]) -> None:
        await real(event)
        seen.append(stage.transcriber.partials())

    stage.transcriber._take = watch  # type: ignore[method-assign]
    await stage.run([READY, text, end, DRAINED])
    shown = {"room": {"start_ms": 500, "end_ms": 2000, "text": "So and", "stable": "So"}}
    assert seen == [{}, shown, {}, {}]


async def test_every_decode_is_counted_once_and_the_second_of_a_turn_as_a_redo(
    stage: Stage,
) -> None:
    drafted = {**PUBLISHED, "decodes": 0}
    redone = {"event": "rejected", **TURN, "reason": "loop", "decodes": 3, "decode_ms": 900}
    await stage.run([READY, {"event": "idle", **COST}, drafted, redone, DRAINED])
    assert (stage.transcriber.decodes, stage.transcriber.redos) == (4, 2)


async def test_a_turn_that_costs_two_workers_is_skipped_before_work_goes_on(stage: Stage) -> None:
    # The second worker cuts the turn a little differently: it is the same audio all the same.
    shifted = {
        "event": "decoding",
        "kind": "turn",
        "track": "room",
        "start_ms": 532,
        "end_ms": 2032,
    }
    await stage.run([READY, DECODING, "die"], [READY, shifted, "die"], [READY, DRAINED])
    assert stage.happened == [("skip", (532, 2032))]
    assert stage.orders(2)[1]["from_ms"] == 2032


async def test_two_turns_that_cost_a_worker_each_are_not_skipped(stage: Stage) -> None:
    other = {"event": "decoding", "kind": "turn", "track": "room", "start_ms": 2000, "end_ms": 2900}
    await stage.run(
        [READY, DECODING, "die"], [READY, DECODING, PUBLISHED, other, "die"], [READY, DRAINED]
    )
    assert stage.happened == [("turn", (500, 2000))]


async def test_a_worker_that_makes_no_progress_on_a_turn_is_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MIN_STALL_S", 2.0)
    monkeypatch.setattr(supervisor, "STALL_FACTOR", 0.1)
    await stage.run([READY, DECODING, "hang"], [READY, DECODING, PUBLISHED, DRAINED])
    assert stage.happened == [("turn", (500, 2000))]


async def test_a_worker_that_never_says_a_word_is_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MIN_STALL_S", 2.0)
    await stage.run(["hang"], [READY, DRAINED])
    assert stage.transcriber.restarts == 1


async def test_a_slow_disk_is_not_the_workers_stall(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MIN_STALL_S", 0.4)
    stage.publishing_takes_s = 1.5
    await stage.run([READY, DECODING, PUBLISHED, DRAINED])
    assert stage.transcriber.restarts == 0
    assert stage.happened == [("turn", (500, 2000))]


async def test_deaths_between_published_turns_are_not_deaths_in_a_row(stage: Stage) -> None:
    runs = supervisor.MAX_EARLY_DEATHS + 1
    await stage.run(*[[READY, PUBLISHED, "die"]] * runs, [READY, DRAINED])
    assert stage.transcriber.restarts == runs


async def test_a_worker_that_heard_all_and_never_says_that_it_is_through_is_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MIN_STALL_S", 2.0)
    heard = {"event": "progress", "track": "room", "position_ms": 3000, "speech": False}
    await stage.run([READY, heard, "hang"], [READY, DRAINED])
    assert stage.transcriber.restarts == 1


async def test_workers_that_die_before_any_turn_are_given_up(stage: Stage) -> None:
    with pytest.raises(TranscriberError, match="keeps failing"):
        await stage.run(*[["die"]] * supervisor.MAX_EARLY_DEATHS)
    assert stage.transcriber.state == "failed"


async def test_a_fault_is_final(stage: Stage) -> None:
    fault = {"event": "fault", "code": "model_broken", "message": "no good", "hint": ""}
    with pytest.raises(TranscriberError, match="no good"):
        await stage.run([fault, "hang"])
    assert stage.transcriber.state == "failed"
