import os
import struct
import wave
from pathlib import Path

import numpy
import pytest
import soundfile

from ambientd.audio import wav
from ambientd.errors import StoreError

RATE_HZ = 48_000


def write(path: Path, samples: bytes, claimed_bytes: int) -> None:
    path.write_bytes(wav.header(RATE_HZ, claimed_bytes) + samples)


def test_both_soundfile_and_the_standard_library_read_it(tmp_path: Path) -> None:
    path = tmp_path / "room.wav"
    samples = numpy.arange(-500, 500, dtype=numpy.int16)
    write(path, samples.tobytes(), samples.nbytes)
    read, rate_hz = soundfile.read(path, dtype="int16")
    assert rate_hz == RATE_HZ
    assert (read == samples).all()
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (RATE_HZ, 1, 1000)
        assert file.readframes(1000) == samples.tobytes()


@pytest.mark.parametrize("claimed_bytes", [0, 1000, 5000])
def test_repair_makes_the_sizes_those_of_the_file(tmp_path: Path, claimed_bytes: int) -> None:
    path = tmp_path / "room.native.wav"
    samples = numpy.arange(1000, dtype=numpy.int16)
    write(path, samples.tobytes() + b"\x01", claimed_bytes)  # killed in the middle of a frame
    assert wav.repair(path).frames == 1000
    read, _ = soundfile.read(path, dtype="int16")
    assert (read == samples).all()
    assert wav.repair(path).frames == 1000


def test_beyond_4_gib_it_is_rf64_and_still_readable(tmp_path: Path) -> None:
    path = tmp_path / "room.native.wav"
    frames = 3_000_000_000
    write(path, b"", 0)
    os.truncate(path, wav.DATA_OFFSET_BYTES + frames * 2)  # sparse
    with path.open("r+b") as file:
        file.seek(wav.DATA_OFFSET_BYTES + (frames - 1) * 2)
        file.write(struct.pack("<h", 1234))
    assert wav.repair(path).frames == frames
    with soundfile.SoundFile(path) as file:
        assert file.frames == frames
        file.seek(frames - 1)
        assert file.read(1, dtype="int16")[0] == 1234


def test_the_header_grows_into_rf64_in_place() -> None:
    assert len(wav.header(RATE_HZ, 0)) == len(wav.header(RATE_HZ, 5 << 30)) == wav.DATA_OFFSET_BYTES
    assert wav.header(RATE_HZ, 0)[:4] == b"RIFF"
    assert wav.header(RATE_HZ, 5 << 30)[:4] == b"RF64"


@pytest.mark.parametrize("content", [b"", b"RIFF", b"OggS" + bytes(200)])
def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "room.native.wav"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        wav.repair(path)
    assert path.read_bytes() == content


def test_a_link_is_not_repaired(tmp_path: Path) -> None:
    write(tmp_path / "other.wav", b"\0\0", 0)
    before = (tmp_path / "other.wav").read_bytes()
    (tmp_path / "room.native.wav").symlink_to(tmp_path / "other.wav")
    with pytest.raises(StoreError):
        wav.repair(tmp_path / "room.native.wav")
    assert (tmp_path / "other.wav").read_bytes() == before
