import numpy
import pytest

from ambientd.audio.level import Meter
from ambientd.units import SILENCE_DBFS


def test_digital_silence_and_no_audio_have_the_floor_level() -> None:
    meter = Meter(blocks=3)
    assert meter.read() == (SILENCE_DBFS, SILENCE_DBFS)
    meter.add(bytes(1920))
    assert meter.read() == (SILENCE_DBFS, SILENCE_DBFS)


@pytest.mark.parametrize(("amplitude", "dbfs"), [(32767, 0.0), (16384, -6.0), (328, -40.0)])
def test_a_square_wave_has_its_amplitude_as_both_levels(amplitude: int, dbfs: float) -> None:
    meter = Meter(blocks=3)
    meter.add(numpy.array([amplitude, -amplitude] * 480, dtype=numpy.int16).tobytes())
    assert meter.read() == (dbfs, dbfs)


def test_only_the_last_blocks_count() -> None:
    meter = Meter(blocks=2)
    loud = numpy.full(960, 20_000, dtype=numpy.int16).tobytes()
    for block in (loud, bytes(1920), bytes(1920)):
        meter.add(block)
    assert meter.read() == (SILENCE_DBFS, SILENCE_DBFS)
