"""From the ring to the two files: positions, holes, and a disk that does not take audio."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from ambientd.audio import attention, respool, sync, wav, writer
from ambientd.audio.ring import Hole, Ring
from ambientd.audio.source import Anchor, Input, Instant, State
from ambientd.audio.track_files import TrackFiles

RATE_HZ = 48_000
BLOCK_FRAMES = 960


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def tone(frames: int, rate_hz: int = RATE_HZ) -> numpy.ndarray:
    seconds = numpy.arange(frames) / rate_hz
    return (8000 * numpy.sin(2 * numpy.pi * 440 * seconds)).astype(numpy.int16)


def test_a_full_ring_leaves_blocks_out_and_keeps_their_length() -> None:
    ring = Ring(capacity_frames=3)
    for value in range(5):
        ring.push(bytes([value, 0]), 1)
    assert ring.lost_frames == 2
    assert ring.take() == b"\x00\x00"
    ring.push(b"\x09\x00", 1)
    taken = [ring.take() for _ in range(5)]
    assert taken == [b"\x01\x00", b"\x02\x00", Hole(2, "overflow"), b"\x09\x00", None]


def test_what_is_missing_at_the_end_is_a_hole_too() -> None:
    ring = Ring(capacity_frames=1)
    ring.push(b"\0\0", 1)
    ring.push(b"\0\0", 1)
    ring.end_hole()
    assert [ring.take(), ring.take(), ring.take()] == [b"\0\0", Hole(1, "overflow"), None]


@pytest.mark.parametrize("rate_hz", [48_000, 44_100, 16_000, 8_000])
def test_a_position_in_every_file_is_a_time(folder_fd: int, tmp_path: Path, rate_hz: int) -> None:
    block = rate_hz // 50
    before, after = tone(block * 50, rate_hz), tone(block * 25, rate_hz)
    files = TrackFiles.create(folder_fd, "room", rate_hz, spool=True)
    for start in range(0, len(before), block):
        files.add(before[start : start + block].tobytes())
        files.flush()
    files.add_hole(2 * rate_hz)
    for start in range(0, len(after), block):
        files.add(after[start : start + block].tobytes())
        files.flush()
    files.finish()
    files.flush()
    files.patch_header()
    files.close()
    native, _ = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert (native[: len(before)] == before).all()
    assert not native[len(before) : 3 * rate_hz].any()
    assert (native[3 * rate_hz :] == after).all()
    spool = numpy.frombuffer((tmp_path / "room.live.pcm").read_bytes(), dtype=numpy.int16)
    assert len(spool) == 3 * 16_000 + 8_000 == files.spool_frames
    assert not spool[16_000 : 3 * 16_000].any()
    # The tone is where it was played, to the sample: resampling moves nothing.
    middle = slice(3 * 16_000 + 2_000, 3 * 16_000 + 6_000)
    expected = tone(8_000, 16_000)[2_000:6_000].astype(float)
    assert numpy.corrcoef(spool[middle].astype(float), expected)[0, 1] > 0.999


def test_a_hole_at_the_very_end_is_kept(folder_fd: int, tmp_path: Path) -> None:
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    files.add(tone(RATE_HZ).tobytes())
    files.add_hole(RATE_HZ)
    files.finish()
    files.flush()
    files.patch_header()
    files.close()
    assert soundfile.info(tmp_path / "room.native.wav").frames == 2 * RATE_HZ
    assert (tmp_path / "room.live.pcm").stat().st_size == 2 * 32_000


def test_the_native_file_is_locked_while_it_is_open(folder_fd: int, tmp_path: Path) -> None:
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=False)
    with (tmp_path / "room.native.wav").open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files.close()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (tmp_path / "room.live.pcm").exists()


def test_existing_files_are_never_written_over(folder_fd: int, tmp_path: Path) -> None:
    (tmp_path / "room.native.wav").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    assert (tmp_path / "room.native.wav").read_bytes() == b"precious"


def test_files_that_cannot_both_be_created_leave_none_behind(
    folder_fd: int, tmp_path: Path
) -> None:
    (tmp_path / "room.live.pcm").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    assert [path.name for path in tmp_path.iterdir()] == ["room.live.pcm"]
    assert (tmp_path / "room.live.pcm").read_bytes() == b"precious"


class Blocks:
    """A source whose blocks the test pushes itself."""

    is_microphone = True
    rate_hz = RATE_HZ

    def __init__(self) -> None:
        self.ring = Ring(30 * RATE_HZ)
        self.anchor = Anchor(0, 0)
        self.overflows = 0
        self.now = State.ALIVE
        self.known = Input("test")

    def open(self) -> Instant:
        return Instant(0, 0)

    def begin(self, position_frames: int) -> None: ...

    def state(self) -> State:
        return self.now

    def input(self) -> Input:
        return self.known

    def close(self) -> None: ...


class Events:
    """Collects events; ``wait_for`` returns when one has come."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def send(self, event: str, **fields: Any) -> None:
        with self._changed:
            self.seen.append({"event": event, **fields})
            self._changed.notify_all()

    def wait_for(self, **wanted: Any) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((one for one in self.seen if wanted.items() <= one.items()), None)

        with self._changed:
            assert self._changed.wait_for(lambda: find() is not None, timeout=10), self.seen
            found = find()
        assert found is not None
        return found


@pytest.mark.parametrize(
    ("code", "state"), [(errno.ENOSPC, "disk_full"), (errno.EIO, "disk_failing")]
)
def test_a_disk_that_refuses_loses_nothing_when_it_takes_audio_again(
    folder_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, state: str
) -> None:
    source, events = Blocks(), Events()
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    samples = tone(RATE_HZ)
    blocks = [samples[start : start + BLOCK_FRAMES] for start in range(0, RATE_HZ, BLOCK_FRAMES)]
    running = writer.Writer(source, files, events.send)
    running.start()
    for block in blocks[:10]:
        source.ring.push(block.tobytes(), len(block))
    events.wait_for(event="progress", frames=10 * BLOCK_FRAMES)

    real = os.pwrite
    half = iter([True])

    def refuse(fd: int, data: bytes, offset: int) -> int:
        if next(half, False):
            return real(fd, data[:7], offset)  # takes a part of a block, then nothing
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pwrite", refuse)
    for block in blocks[10:30]:
        source.ring.push(block.tobytes(), len(block))
    refused = events.wait_for(event="disk", state=state)
    assert os.strerror(code) in refused["message"]
    monkeypatch.undo()
    well = events.wait_for(event="disk", state="ok")
    assert refused["start_ms"] == well["start_ms"] <= well["end_ms"] == 600
    for block in blocks[30:]:
        source.ring.push(block.tobytes(), len(block))
    running.finish()

    closed = events.wait_for(event="closed")
    assert closed == {
        "event": "closed",
        "frames": RATE_HZ,
        "spool_frames": 16_000,
        "lost_frames": 0,
        # A second after position 0, which the source says was heard at 0.
        "heard_ns": 1_000_000_000,
        "zero_ms": 0,
    }
    native, _ = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert (native == samples).all()
    assert not [one for one in events.seen if one["event"] == "gap"]


def test_what_a_full_disk_never_took_is_said_as_a_gap_and_the_file_is_valid(
    folder_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, events = Blocks(), Events()
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=False)
    running = writer.Writer(source, files, events.send)
    running.start()
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    events.wait_for(event="progress", frames=RATE_HZ)
    real = os.pwrite

    def refuse(fd: int, data: bytes, offset: int) -> int:
        if offset == 0:
            return real(fd, data, offset)  # overwriting needs no room
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    events.wait_for(event="disk", state="disk_full")
    running.finish()
    gap = events.wait_for(event="gap")
    assert (gap["start_ms"], gap["end_ms"], gap["reason"]) == (1000, 3000, "disk_full")
    assert soundfile.info(tmp_path / "room.native.wav").frames == RATE_HZ


def test_a_disk_that_refuses_once_while_a_recording_stops_costs_nothing(
    folder_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, events = Blocks(), Events()
    running = writer.Writer(
        source, TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True), events.send
    )
    # Nothing is written before the stop, so that the refusal meets the last writes.
    monkeypatch.setattr(writer, "BATCH_S", 60.0)
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    running.start()
    samples = tone(RATE_HZ)
    for start in range(0, RATE_HZ, BLOCK_FRAMES):
        block = samples[start : start + BLOCK_FRAMES]
        source.ring.push(block.tobytes(), len(block))
    real = os.pwrite
    refusals = iter([True])

    def refuse_once(fd: int, data: bytes, offset: int) -> int:
        if next(refusals, False):
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", refuse_once)
    running.finish()
    assert events.wait_for(event="closed")["frames"] == RATE_HZ
    native, _ = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert (native == samples).all()


def test_what_is_given_up_leaves_two_files_that_end_at_the_same_whole_frame(
    folder_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TrackFiles.create(folder_fd, "room", 16_000, spool=True)
    real = os.pwrite
    files.add(tone(4, 16_000).tobytes())

    def refuse_the_rest(fd: int, data: bytes, offset: int) -> int:
        monkeypatch.setattr(os, "pwrite", refuse)
        return real(fd, data[:5], offset)

    def refuse(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse_the_rest)
    with pytest.raises(OSError, match="No space"):
        files.flush()
    files.give_up()
    files.close()
    assert files.frames == 2
    assert (tmp_path / "room.native.wav").stat().st_size == wav.DATA_OFFSET_BYTES + 4
    assert (tmp_path / "room.live.pcm").read_bytes() == bytes(4)


def test_a_disk_that_does_not_sync_is_said_once_and_so_is_its_recovery(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, events = Blocks(), Events()
    running = writer.Writer(
        source, TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True), events.send
    )
    monkeypatch.setattr(sync, "SYNC_S", 0.01)
    refusals = iter([True] * 3)

    def refuse(fd: int) -> None:
        if next(refusals, False):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    running.start()
    events.wait_for(event="disk", state="ok")
    running.finish()
    assert next(refusals, None) is None
    said = [one["state"] for one in events.seen if one["event"] == "disk"]
    assert said == ["disk_failing", "ok"]


def test_an_overflow_is_a_gap_of_its_length(folder_fd: int, tmp_path: Path) -> None:
    source, events = Blocks(), Events()
    source.ring = Ring(RATE_HZ)
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    source.ring.push(tone(RATE_HZ // 2).tobytes(), RATE_HZ // 2)
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    running = writer.Writer(source, files, events.send)
    running.start()
    gap_is_next = events.wait_for(event="progress", frames=RATE_HZ)
    assert gap_is_next["lost_frames"] == RATE_HZ // 2
    source.ring.push(tone(BLOCK_FRAMES).tobytes(), BLOCK_FRAMES)
    gap = events.wait_for(event="gap")
    assert (gap["start_ms"], gap["end_ms"], gap["reason"]) == (1000, 1500, "overflow")
    running.finish()
    assert soundfile.info(tmp_path / "room.native.wav").frames == RATE_HZ * 3 // 2 + BLOCK_FRAMES


def test_samples_that_the_audio_system_dropped_are_said(folder_fd: int) -> None:
    source, events = Blocks(), Events()
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    source.overflows = 3
    running = writer.Writer(
        source, TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True), events.send
    )
    running.start()
    events.wait_for(event="overflow", at_ms=1000)
    running.finish()
    assert [one["event"] for one in events.seen].count("overflow") == 1


def test_a_source_that_ends_is_said_once_and_only_when_all_is_written(
    folder_fd: int,
) -> None:
    source, events = Blocks(), Events()
    source.ring.push(tone(RATE_HZ).tobytes(), RATE_HZ)
    source.now = State.LOST
    running = writer.Writer(
        source, TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True), events.send
    )
    running.start()
    events.wait_for(event="ended", reason="device_lost")
    running.finish()
    names = [one["event"] for one in events.seen]
    assert names.count("ended") == 1
    written = [one["frames"] for one in events.seen if one["event"] == "progress"]
    assert RATE_HZ in written


class Blinking(Blocks):
    """A source that seems lost for some looks, as after this process was stopped for a while."""

    def __init__(self, lost_looks: int) -> None:
        super().__init__()
        self.is_back = threading.Event()
        self._lost_looks = lost_looks

    def state(self) -> State:
        if self._lost_looks:
            self._lost_looks -= 1
            return State.LOST
        self.is_back.set()
        return State.ALIVE


def test_a_microphone_that_is_back_at_the_next_look_was_not_lost(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "STATE_CHECK_S", 0.0)
    source, events = Blinking(attention.LOST_LOOKS - 1), Events()
    running = writer.Writer(
        source, TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True), events.send
    )
    running.start()
    assert source.is_back.wait(10)
    running.finish()
    assert "ended" not in [one["event"] for one in events.seen]


def test_a_spool_made_anew_is_the_one_that_was_written_live(folder_fd: int, tmp_path: Path) -> None:
    samples = tone(5 * 44_100, 44_100)
    files = TrackFiles.create(folder_fd, "room", 44_100, spool=True)
    for start in range(0, len(samples), 882):
        files.add(samples[start : start + 882].tobytes())
    files.finish()
    files.flush()
    files.patch_header()
    files.close()
    live = numpy.frombuffer((tmp_path / "room.live.pcm").read_bytes(), dtype=numpy.int16)
    count, holes = respool.respool(tmp_path / "room.native.wav", tmp_path / "room.live.pcm", 2500)
    assert holes == []
    made = numpy.frombuffer((tmp_path / "room.live.pcm").read_bytes(), dtype=numpy.int16)
    assert count == len(made) == len(live)
    from_frame = 2_500 * 16
    assert numpy.abs(made[from_frame:].astype(int) - live[from_frame:].astype(int)).max() <= 2
    assert wav.repair(tmp_path / "room.native.wav").frames == len(samples)


@pytest.mark.parametrize("from_ms", [0, 2500, 700_000])
def test_a_spool_made_anew_is_a_hole_where_the_recording_is_one(
    folder_fd: int, tmp_path: Path, from_ms: int
) -> None:
    files = TrackFiles.create(folder_fd, "room", 44_100, spool=True)
    # Multiples of 441 frames, which are 160 of the spool: what is live has no other exact place.
    spoken, spans = tone(3 * 44_100 + 441, 44_100).tobytes(), []
    for hole_frames in (500 * 44_100 + 2 * 441, 300 * 44_100 + 441, 200 * 44_100):
        start_ms = files.queued_ms
        files.add(spoken)
        spans.append((start_ms * 16, files.queued_ms * 16))
        files.add_hole(hole_frames)
    files.finish()
    files.flush()
    files.patch_header()
    files.close()
    spool = tmp_path / "room.live.pcm"
    live = numpy.fromfile(spool, dtype=numpy.int16).astype(int)
    count, holes = respool.respool(tmp_path / "room.native.wav", spool, from_ms)
    made = numpy.fromfile(spool, dtype=numpy.int16).astype(int)
    assert count == len(made) == len(live)
    from_frame = from_ms * 16
    silent = numpy.ones(len(made), dtype=bool)
    ringing = 640  # where a tone is cut off, the filter rings for a moment
    for start, end in spans:
        inside = slice(max(start + ringing, from_frame), end - ringing)
        assert numpy.abs(made[inside] - live[inside]).max(initial=0) <= 2
        silent[max(0, start - ringing) : end + ringing] = False
    assert numpy.abs(made[silent]).max() <= 2
    assert made[spans[-1][0] + ringing : spans[-1][1] - ringing].any()
    true_holes = [(end, start) for (_, end), (start, _) in itertools.pairwise(spans)]
    true_holes.append((spans[-1][1], len(made)))
    assert len(holes) == len([end for _, end in true_holes if end > from_frame])
    for (start_ms, end_ms), (start, end) in zip(holes, true_holes[-len(holes) :], strict=True):
        assert (
            max(start, from_frame) <= start_ms * 16 < start_ms * 16 + 640_000 < end_ms * 16 <= end
        )
    assert spool.stat().st_blocks * 512 < 1 << 20 < len(made), "a hole takes no room"
