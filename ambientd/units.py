"""Rates and sizes that several parts share, and the arithmetic between them.

Audio faults are unit faults: convert here, and nowhere by hand. Positions are counted from track
time 0, the session's start.
"""

SPOOL_RATE_HZ = 16_000
"""Rate of the spool, the VAD and the speech model."""

SAMPLE_BYTES = 2
"""Every file and pipe carries signed 16-bit samples, one channel."""

MB_BYTES = 1_000_000
"""Room on a disk is counted as disks are sold, and as people are told of it."""

SILENCE_DBFS = -120.0
"""Level reported for digital zero, where the logarithm has no value."""


def frames_to_ms(frames: int, rate_hz: int) -> int:
    """Return the track time of a frame position, in whole milliseconds, rounded down."""
    return frames * 1000 // rate_hz


def ms_to_frames(ms: int, rate_hz: int) -> int:
    """Return the frame position of a track time, rounded down."""
    return ms * rate_hz // 1000


MAX_SHOWN_S = 359_999_999
"""Longer lengths, which only a damaged file has, are shown as this."""


def clock(seconds: float) -> str:
    """Return a length for people, as ``h:mm:ss``."""
    whole = int(max(-MAX_SHOWN_S, min(seconds, MAX_SHOWN_S)))
    sign, whole = "-" if whole < 0 else "", abs(whole)
    return f"{sign}{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
