"""Which input device is meant, and at which rates to try it. Pure: nothing here opens one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ambientd.audio.pulse import PulseSource
from ambientd.errors import CaptureError

SERVER_NAMES = {"pulse", "default", "pipewire", "sysdefault"}
"""Under which PortAudio knows the audio server itself; its devices have names of their own."""

SERVER_RATE_HZ = 48_000
"""What PulseAudio and PipeWire run at; PortAudio reports another default for them."""


def inputs(devices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of PortAudio's devices that can record."""
    return [device for device in devices if device["max_input_channels"] > 0]


def choose(
    devices: Sequence[dict[str, Any]], name: str | None, default_index: int | None
) -> dict[str, Any]:
    """Return the input device that is meant.

    By name each time: an index points to another device after any plug or unplug.

    Args:
        devices: PortAudio's devices.
        name: the device's name, or a part of it that fits only one, in either case of letters; None
            for the default input.
        default_index: the default input's index as of now, None when there is none.

    Raises:
        CaptureError: no device fits, or several do.
    """
    able = inputs(devices)
    if not able:
        raise CaptureError(
            "there is no microphone",
            "plug one in; on Linux check that PipeWire or PulseAudio runs and that "
            "libasound2-plugins is installed",
            code="no_microphone",
        )
    if name is None:
        return next((one for one in able if one["index"] == default_index), able[0])
    fitting = [one for one in able if one["name"] == name] or [
        one for one in able if name.lower() in one["name"].lower()
    ]
    if len(fitting) != 1:
        what = "no input device" if not fitting else f"{len(fitting)} input devices"
        raise CaptureError(
            f"{what} called {name!r}", "see ambientctl devices", code="no_such_device"
        )
    return fitting[0]


def find(sources: Sequence[PulseSource], name: str) -> PulseSource | None:
    """Return the source of an audio server that is meant.

    Args:
        sources: the server's sources.
        name: its name there or what people call it, or a part of that which fits only one.

    Returns:
        None if none fits: PortAudio may know it.

    Raises:
        CaptureError: several do.
    """
    fitting = [one for one in sources if name in (one.name, one.description)] or [
        one for one in sources if name.lower() in one.description.lower()
    ]
    if len(fitting) > 1:
        raise CaptureError(
            f"{len(fitting)} input devices called {name!r}",
            "see ambientctl devices",
            code="no_such_device",
        )
    return fitting[0] if fitting else None


def mark_chosen(listed: Sequence[dict[str, Any]], wanted: Mapping[str, dict[str, Any]]) -> None:
    """Say of each listed input which track would be recorded from it: ``chosen``, null for none.

    Args:
        listed: the inputs as ``portaudio.list_inputs`` has them; it is added to them.
        wanted: by track what to open, as in ``ambientd.audio.capture.make_source``.
    """
    for one in listed:
        one["chosen"] = None
    for track, source in wanted.items():
        if source["kind"] == "file":
            continue
        name = source["name"]
        if name is None:
            by_itself = "default" if source["kind"] == "device" else "played"
            fitting = [one for one in listed if one[by_itself]]
        else:
            fitting = [one for one in listed if name in (one["id"], one["name"])] or [
                one for one in listed if name.lower() in one["name"].lower()
            ]
        if len(fitting) == 1:
            fitting[0]["chosen"] = track


def rates_hz(device: dict[str, Any]) -> list[int]:
    """Return the sample rates to try, the best first."""
    default_hz = int(device["default_samplerate"])
    if sys.platform == "linux":
        return list(dict.fromkeys([SERVER_RATE_HZ, default_hz]))
    return [default_hz]
