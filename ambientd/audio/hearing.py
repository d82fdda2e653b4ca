"""What an input that delivers nothing but exact zeros is. Pure: the clock is the caller's.

A real microphone in a silent room is never exactly zero for seconds. Zeros mean that it is muted,
or that the audio system gives it to another program, or that this one may not hear it.
"""

from __future__ import annotations

from ambientd.audio.source import Input

OK = "ok"
MUTED = "muted"
DIGITAL_SILENCE = "digital_silence"

ZEROS_MS = 5000
"""So long a run of exact zeros is no pause in speech."""

REOPEN_PAUSE_S = 60.0
"""Opening it again may help, and costs half a second of audio: once a minute at most, and half as
often each time that it did not help."""

MAX_REOPEN_PAUSE_S = 960.0


class Hearing:
    """Follows one input through all the captures of a track.

    Attributes:
        state: ``ok``, ``muted`` or ``digital_silence``.
    """

    def __init__(self) -> None:
        self.state = OK
        self._reopen_pause_s = REOPEN_PAUSE_S
        self._next_reopen_s = 0.0

    def see(self, known: Input, zero_ms: int, *, is_sound: bool) -> bool:
        """Take how the input is; return whether the state changed.

        Args:
            known: what the audio system knows of it.
            zero_ms: length of the run of exact zeros up to now.
            is_sound: whether the last moments hold anything else.
        """
        before = self.state
        if known.is_muted:
            self.state = MUTED
        elif zero_ms >= ZEROS_MS and not known.is_monitor:
            self.state = DIGITAL_SILENCE
        elif is_sound or known.is_monitor or self.state == MUTED:
            self.state = OK
        if is_sound:
            self._reopen_pause_s = REOPEN_PAUSE_S
        return self.state != before

    def should_reopen(self, now_s: float) -> bool:
        """Tell whether to open the input again now; True counts as having done so."""
        if self.state != DIGITAL_SILENCE or now_s < self._next_reopen_s:
            return False
        self._next_reopen_s = now_s + self._reopen_pause_s
        self._reopen_pause_s = min(2 * self._reopen_pause_s, MAX_REOPEN_PAUSE_S)
        return True
