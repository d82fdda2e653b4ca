"""A device library whose one device does what a control file says, in the place of the real one.

Only for faults that no virtual device here can show: a rate that changes under an open stream,
callbacks that stop while the stream is active, calls that never return. Found by PYTHONPATH. The
file named by FAKE_DEVICE holds a JSON object:

    is_there    whether the device exists when PortAudio looks
    rate_hz     the rate it can be opened at
    pace        frames it delivers for each that it should
    is_frozen   no callback is made, and the stream is active
    hangs       opening, and closing, never return
"""

from __future__ import annotations

import json
import math
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

TONE_HZ = 500

_NORMAL = {"is_there": True, "rate_hz": 48_000, "pace": 1.0, "is_frozen": False, "hangs": False}


def _control() -> dict[str, Any]:
    try:
        text = Path(os.environ["FAKE_DEVICE"]).read_text(encoding="utf-8")
        return {**_NORMAL, **json.loads(text)}
    except (FileNotFoundError, ValueError):
        return _NORMAL  # not written yet, or just being written


class PortAudioError(Exception):
    """As the real one."""


_devices: list[dict[str, Any]] = []


def _initialize() -> None:
    control = _control()
    _devices.clear()
    if control["is_there"]:
        _devices.append(
            {
                "name": "fake",
                "index": 0,
                "hostapi": 0,
                "max_input_channels": 1,
                "default_samplerate": float(control["rate_hz"]),
            }
        )


def _terminate() -> None:
    _devices.clear()


def query_devices(kind: str | None = None) -> Any:
    if kind is None:
        return list(_devices)
    if not _devices:
        raise PortAudioError("no default device", -9996)
    return _devices[0]


class _Flags:
    input_overflow = False


class RawInputStream:
    """Makes its callbacks from a thread, in real time."""

    def __init__(self, *, samplerate: int, blocksize: int, callback: Any, **_: Any) -> None:
        if samplerate != _control()["rate_hz"]:
            raise PortAudioError("Invalid sample rate", -9997)
        self.active = False
        self._rate_hz = samplerate
        self._block_frames = blocksize
        self._callback = callback
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        if _control()["hangs"]:
            threading.Event().wait()
        self.active = True
        self._thread.start()

    def close(self) -> None:
        if _control()["hangs"]:
            threading.Event().wait()
        self.active = False

    def _run(self) -> None:
        position = 0
        due_s = time.monotonic()
        while self.active and _control()["is_there"]:
            control = _control()
            # What it hears is a tone, at whichever rate it now runs.
            rate_hz = self._rate_hz * control["pace"]
            due_s = max(due_s, time.monotonic() - 1) + self._block_frames / rate_hz
            time.sleep(max(0.0, due_s - time.monotonic()))
            if control["is_frozen"]:
                continue
            step = 2 * math.pi * TONE_HZ / rate_hz
            samples = [
                int(8000 * math.sin(step * (position + frame)))
                for frame in range(self._block_frames)
            ]
            position += self._block_frames
            block = struct.pack(f"<{len(samples)}h", *samples)
            self._callback(block, self._block_frames, None, _Flags)
        self.active = False


_initialize()
