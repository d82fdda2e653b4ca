import os
import threading
import time
from pathlib import Path

import numpy
import pytest
import soundfile

from ambientd.audio.replay import RING_S, Replay
from ambientd.audio.source import State
from ambientd.errors import CaptureError

RATE_HZ = 8_000
BOUND_S = 20.0


def read_all(source: Replay) -> numpy.ndarray:
    """Take what a source delivers until it has ended, as the writer does."""
    blocks = []
    deadline_s = time.monotonic() + BOUND_S
    idle = threading.Event()
    while source.state() is State.ALIVE or not source.ring.is_empty():
        assert time.monotonic() < deadline_s
        piece = source.ring.take()
        if piece is None:
            idle.wait(0.001)
        else:
            assert isinstance(piece, bytes)
            blocks.append(piece)
    return numpy.frombuffer(b"".join(blocks), dtype=numpy.int16)


def test_every_channel_is_heard_and_no_frame_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "stereo.flac"
    left = numpy.arange(-2000, 2001, dtype=numpy.int16) * 10  # no whole number of blocks
    soundfile.write(path, numpy.column_stack([left, numpy.zeros_like(left)]), RATE_HZ)
    source = Replay(path, speed=0)
    source.open()
    assert (source.input().device, source.rate_hz) == ("stereo.flac", RATE_HZ)
    source.begin(0)
    assert (read_all(source) == left // 10 * 5).all()
    source.close()


def test_at_full_speed_it_waits_for_the_writer_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    samples = numpy.arange((RING_S + 5) * RATE_HZ, dtype=numpy.int64).astype(numpy.int16)
    soundfile.write(path, samples, RATE_HZ)
    source = Replay(path, speed=0)
    source.open()
    source.begin(0)
    # Nothing is taken until the ring is full.
    deadline_s = time.monotonic() + BOUND_S
    while source.ring.has_room(RATE_HZ // 50):
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)
    assert source.state() is State.ALIVE
    assert (read_all(source) == samples).all()
    assert source.ring.lost_frames == 0
    source.close()


@pytest.mark.parametrize("speed", [1, 4])
def test_it_is_never_ahead_of_its_clock(tmp_path: Path, speed: int) -> None:
    path = tmp_path / "short.wav"
    duration_s = 0.2
    soundfile.write(path, numpy.ones(int(RATE_HZ * duration_s), dtype=numpy.int16), RATE_HZ)
    source = Replay(path, speed=speed)
    source.open()
    assert source.ring.is_empty(), "it starts when a session begins"
    begun_s = time.monotonic()
    source.begin(0)
    read_all(source)
    # A slow machine may take longer; sooner is impossible.
    assert time.monotonic() - begun_s >= duration_s / speed
    source.close()


def test_it_can_be_closed_in_the_middle_and_before_it_began(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, numpy.ones(RATE_HZ * 600, dtype=numpy.int16), RATE_HZ)
    for speed in (0, 1):
        source = Replay(path, speed=speed)
        source.open()
        source.begin(0)
        source.close()
        assert source.state() is State.ENDED
    waiting = Replay(path, speed=1)
    waiting.open()
    waiting.close()


def make_text(path: Path) -> None:
    path.write_text("no sound", encoding="utf-8")


def make_empty_wav(path: Path) -> None:
    soundfile.write(path, numpy.zeros(0, dtype=numpy.int16), RATE_HZ, format="WAV")


def make_slow(path: Path) -> None:
    soundfile.write(path, numpy.zeros(10, dtype=numpy.int16), 100, format="WAV")


def make_nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (make_nothing, "no such file or directory"),
        (make_text, "format not recognised"),
        (make_empty_wav, "it holds no audio"),
        (make_slow, "cannot use a rate of 100 Hz"),
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(
    tmp_path: Path, make: object, says: str
) -> None:
    path = tmp_path / "given"
    assert callable(make)
    make(path)
    with pytest.raises(CaptureError) as refused:
        Replay(path, speed=1).open()
    assert refused.value.code == "bad_source"
    assert says in refused.value.message
    assert str(path) in refused.value.message
