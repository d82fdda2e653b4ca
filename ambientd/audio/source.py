"""What a source of audio is: a microphone, or a file that stands in for one."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from ambientd.audio.ring import Ring

BLOCK_MS = 20
"""Length of a block. Smaller ones would shrink the period of a shared audio server and make other
programs stutter."""


class State(Enum):
    """How a source is; the value of a bad one is the reason of the gap that follows."""

    ALIVE = "alive"
    ENDED = "end_of_file"
    LOST = "device_lost"
    SUSPENDED = "suspended"
    OFF_PACE = "rate_changed"
    ELSEWHERE = "device_changed"


class Instant(NamedTuple):
    """A moment on two clocks.

    Attributes:
        wall_ns: since the epoch.
        boot_ns: as ``clock.boot_ns``.
    """

    wall_ns: int
    boot_ns: int


class Anchor(NamedTuple):
    """Which moment a position is.

    Attributes:
        position_frames: a count of the ring's.
        boot_ns: when the frame before it was heard, as ``clock.boot_ns``.
    """

    position_frames: int
    boot_ns: int


class Input(NamedTuple):
    """What the audio system knows of an input.

    Attributes:
        device: its name, for people.
        is_monitor: it carries what a sink plays, and is no microphone.
        is_muted: it is muted there, so that zeros are what is wanted.
    """

    device: str
    is_monitor: bool = False
    is_muted: bool = False


class Source(Protocol):
    """Delivers blocks of mono int16 samples into a ring.

    Attributes:
        is_microphone: exact zeros from it mean that something is wrong.
        rate_hz: its sample rate.
        ring: where the blocks go; made by ``open``.
        anchor: where the last block ended.
        overflows: how often the audio system said that it dropped samples; it does not say how
            many.
    """

    is_microphone: bool
    rate_hz: int
    ring: Ring
    anchor: Anchor
    overflows: int

    def open(self) -> Instant:
        """Open it; again after it failed, to see what is there now.

        Returns:
            When its first frame was heard.

        Raises:
            CaptureError: it cannot be opened.
        """
        ...

    def begin(self, position_frames: int) -> None:
        """Say that a session records from now on; a device has delivered since ``open``.

        Args:
            position_frames: where in the track the first frame belongs.
        """
        ...

    def state(self) -> State:
        """Tell how it is."""
        ...

    def input(self) -> Input:
        """Tell what it is now: an audio server may put another device behind an open stream."""
        ...

    def close(self) -> None:
        """Stop delivering; returns within seconds even if a device is stuck."""
        ...
