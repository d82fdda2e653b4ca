"""What a source of audio is: a microphone, or a file that stands in for one."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from ambientd.audio.ring import Ring

BLOCK_MS = 20
"""Length of a block. Smaller ones would shrink the period of a shared audio server and make other
programs stutter."""


class State(Enum):
    """How a source is."""

    ALIVE = "alive"
    ENDED = "end_of_file"
    LOST = "device_lost"


class Source(Protocol):
    """Delivers blocks of mono int16 samples into a ring.

    Attributes:
        device: its name, for people.
        rate_hz: its sample rate.
        ring: where the blocks go; made by ``open``.
        overflows: how often the audio system said that it dropped samples; it does not say how
            many.
    """

    device: str
    rate_hz: int
    ring: Ring
    overflows: int

    def open(self) -> int:
        """Open it.

        Returns:
            Wall time of the first frame, in nanoseconds since the epoch.

        Raises:
            CaptureError: it cannot be opened.
        """
        ...

    def begin(self) -> None:
        """Say that a session records from now on; a device has delivered since ``open``."""
        ...

    def state(self) -> State:
        """Tell how it is."""
        ...

    def close(self) -> None:
        """Stop delivering; returns within seconds even if a device is stuck."""
        ...
