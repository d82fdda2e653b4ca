"""What is said of a source while it is open: that it changed, dropped samples, or ended."""

from __future__ import annotations

import time

from ambientd.audio.disk import Send
from ambientd.audio.settled import Settled
from ambientd.audio.source import Source, State

LOST_LOOKS = 3

SETTLES_S = 1.0
"""A change of the input is told when it has lasted so long: a plug changes it several times."""

WHY_ENDED = {
    State.ENDED: "the file has ended",
    State.LOST: "the microphone went away",
    State.SUSPENDED: "the microphone was suspended",
    State.OFF_PACE: "the microphone changed its rate",
    State.ELSEWHERE: "what should be heard is at another device now",
}

_SILENT = {State.LOST, State.SUSPENDED, State.ELSEWHERE}


class Attention:
    """Looks at a source as often as it is told to, and says what is news.

    Args:
        source: an open source.
        send: sends an event to the daemon.
    """

    def __init__(self, source: Source, send: Send) -> None:
        self._source = source
        self._send = send
        self._input = Settled(source.input(), SETTLES_S)
        self._overflows = 0
        self._lost_looks = 0
        self._ended = False

    def look(self, at_ms: int, *, may_end: bool) -> None:
        """Look, every quarter of a second.

        Args:
            at_ms: the track time now.
            may_end: whether the source may be closed now if it has ended.
        """
        if self._source.overflows > self._overflows:
            self._overflows = self._source.overflows
            self._send("overflow", at_ms=at_ms)
        if (changed := self._input.see(self._source.input(), time.monotonic())) is not None:
            self._send("input", at_ms=at_ms, **changed._asdict())
        state = self._source.state()
        # Again: if this process was stopped for a while, the next block is on its way.
        self._lost_looks = self._lost_looks + 1 if state in _SILENT else 0
        if state is State.ALIVE or self._ended or 0 < self._lost_looks < LOST_LOOKS:
            return
        if not may_end or (state is State.ENDED and not self._source.ring.is_empty()):
            return
        self._ended = True
        self._send("ended", reason=state.value, message=WHY_ENDED[state])
