"""A capture that goes on with the files of another: torn, behind, at another rate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import soundfile
import soxr

from ambientd.audio.track_files import TrackFiles
from ambientd.units import SPOOL_RATE_HZ

RATE_HZ = 48_000


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def noise(frames: int) -> numpy.ndarray:
    """Return band-limited noise, of which each stretch differs from each other."""
    wide = numpy.random.default_rng(7).normal(0, 3000, frames)
    return numpy.convolve(wide, numpy.ones(24) / 24, "same").astype(numpy.int16)


def record(folder_fd: int, samples: numpy.ndarray) -> None:
    """Write files as a capture does that is killed: its header is behind."""
    files = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=True)
    files.add(samples.tobytes())
    files.flush()
    files.close()


def spool_of(folder: Path) -> numpy.ndarray:
    return numpy.frombuffer((folder / "room.live.pcm").read_bytes(), dtype=numpy.int16)


@pytest.mark.parametrize(
    "spool_bytes", [0, 1, 50_001, 63_998, None], ids=["none", "odd", "torn", "near", "as it was"]
)
def test_the_spool_of_a_killed_capture_is_made_good_from_its_recording(
    folder_fd: int, tmp_path: Path, spool_bytes: int | None
) -> None:
    samples = noise(2 * RATE_HZ + 1234)
    record(folder_fd, samples)
    if spool_bytes is not None:
        os.truncate(tmp_path / "room.live.pcm", spool_bytes)
    with (tmp_path / "room.native.wav").open("ab") as native:
        native.write(b"\x7f")  # half a frame
    files = TrackFiles.reopen(folder_fd, "room", RATE_HZ, spool=True)
    assert files.frames == files.start_frames == len(samples)
    assert files.spool_frames == len(samples) // 3
    more = noise(RATE_HZ)
    files.add(more.tobytes())
    files.finish()
    files.flush()
    files.patch_header()
    files.close()

    native_samples, rate_hz = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert rate_hz == RATE_HZ
    assert (native_samples == numpy.concatenate([samples, more])).all()
    spool = spool_of(tmp_path)
    assert len(spool) == len(native_samples) // 3
    whole = soxr.resample(samples, RATE_HZ, SPOOL_RATE_HZ, quality="HQ")
    settled = len(samples) // 3 - 200  # the filter's tail differs where the audio broke off
    differences = numpy.abs(spool[:settled].astype(int) - whole[:settled])
    assert differences.max() < 400, "what was made good lies elsewhere"


def test_a_spool_that_is_ahead_is_cut(folder_fd: int, tmp_path: Path) -> None:
    record(folder_fd, noise(RATE_HZ))
    os.truncate(tmp_path / "room.live.pcm", 100_000)
    files = TrackFiles.reopen(folder_fd, "room", RATE_HZ, spool=True)
    assert files.spool_frames == SPOOL_RATE_HZ
    files.close()
    assert len(spool_of(tmp_path)) == SPOOL_RATE_HZ


@pytest.mark.parametrize("device_rate_hz", [44_100, 16_000, 96_000])
def test_a_device_of_another_rate_goes_on_in_the_files_own(
    folder_fd: int, tmp_path: Path, device_rate_hz: int
) -> None:
    def tone(rate_hz: int, frames: int) -> numpy.ndarray:
        seconds = numpy.arange(frames) / rate_hz
        return (8000 * numpy.sin(2 * numpy.pi * 1000 * seconds)).astype(numpy.int16)

    record(folder_fd, tone(RATE_HZ, RATE_HZ))
    files = TrackFiles.reopen(folder_fd, "room", device_rate_hz, spool=True)
    files.start_after(RATE_HZ // 2)
    assert files.queued_ms == 1500
    block = device_rate_hz // 50
    second = tone(device_rate_hz, device_rate_hz)
    for start in range(0, len(second), block):
        files.add(second[start : start + block].tobytes())
    files.add_hole(device_rate_hz // 4)
    files.finish()
    files.flush()
    files.patch_header()
    assert files.frames == RATE_HZ * 11 // 4
    files.close()

    samples, rate_hz = soundfile.read(tmp_path / "room.native.wav", dtype="int16")
    assert rate_hz == RATE_HZ
    assert not samples[RATE_HZ : RATE_HZ * 3 // 2].any()
    heard = samples[RATE_HZ * 3 // 2 : RATE_HZ * 5 // 2].astype(float)
    spectrum = numpy.abs(numpy.fft.rfft(heard))
    assert numpy.argmax(spectrum) == 1000, "one second, so a bin is a hertz"
    assert len(spool_of(tmp_path)) == SPOOL_RATE_HZ * 11 // 4


def test_files_that_another_capture_has_are_left_alone(folder_fd: int, tmp_path: Path) -> None:
    held = TrackFiles.create(folder_fd, "room", RATE_HZ, spool=False)
    held.add(noise(RATE_HZ).tobytes())
    held.flush()
    before = (tmp_path / "room.native.wav").read_bytes()
    with pytest.raises(BlockingIOError):
        TrackFiles.reopen(folder_fd, "room", RATE_HZ, spool=True)
    held.close()
    assert (tmp_path / "room.native.wav").read_bytes() == before
    assert not (tmp_path / "room.live.pcm").exists()


def test_a_file_that_is_no_recording_is_not_gone_on_with(folder_fd: int, tmp_path: Path) -> None:
    (tmp_path / "room.native.wav").write_bytes(b"something else" * 20)
    with pytest.raises(OSError, match="no header of ours"):
        TrackFiles.reopen(folder_fd, "room", RATE_HZ, spool=True)
    assert (tmp_path / "room.native.wav").read_bytes() == b"something else" * 20
