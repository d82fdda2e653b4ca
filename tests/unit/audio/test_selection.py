import sys
from typing import Any

import pytest

from ambientd.audio import selection
from ambientd.errors import CaptureError


def device(index: int, name: str, inputs: int = 1) -> dict[str, Any]:
    return {
        "index": index,
        "name": name,
        "max_input_channels": inputs,
        "default_samplerate": 44_100.0,
    }


DEVICES = [
    device(0, "Loudspeaker", inputs=0),
    device(1, "USB Microphone"),
    device(2, "USB Microphone 2"),
    device(3, "Webcam"),
]


@pytest.mark.parametrize(
    ("name", "default_index", "index"),
    [
        (None, 3, 3),
        (None, None, 1),
        (None, 0, 1),  # the default cannot record
        ("Webcam", 1, 3),
        ("webc", 1, 3),
        ("USB Microphone", 3, 1),  # a whole name wins over being a part of another
    ],
)
def test_a_device_is_found_by_its_name_or_as_the_default(
    name: str | None, default_index: int | None, index: int
) -> None:
    assert selection.choose(DEVICES, name, default_index)["index"] == index


@pytest.mark.parametrize("name", ["Headset", "usb", "Loudspeaker"])
def test_a_name_that_fits_none_or_several_is_refused(name: str) -> None:
    with pytest.raises(CaptureError) as refused:
        selection.choose(DEVICES, name, 1)
    assert refused.value.code == "no_such_device"
    assert repr(name) in refused.value.message


def test_without_an_input_there_is_no_microphone_whatever_was_named() -> None:
    for name in (None, "Loudspeaker"):
        with pytest.raises(CaptureError) as refused:
            selection.choose(DEVICES[:1], name, None)
        assert refused.value.code == "no_microphone"


@pytest.mark.parametrize(
    ("platform", "expected_hz"), [("linux", [48_000, 44_100]), ("darwin", [44_100])]
)
def test_linux_servers_are_asked_for_their_own_rate_first(
    monkeypatch: pytest.MonkeyPatch, platform: str, expected_hz: list[int]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert selection.rates_hz(DEVICES[1]) == expected_hz
