"""One track while it is recorded: one capture child after another, into the same files.

A microphone that goes away, an audio server that dies, a capture that is killed: each is followed
by a successor that waits for the microphone, goes on where the files end, and says what lies
between as a gap. The session does not end for it.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from ambientd import capture as captures
from ambientd import clock, finishing, logs, units
from ambientd.audio import hearing, wav
from ambientd.audio.source import Input
from ambientd.capture import Capture, Opened, Since, Target
from ambientd.errors import CaptureError, StoreError
from ambientd.speech.supervisor import Transcriber
from ambientd.store import layout

CAPTURE_LOST = "capture_lost"
"""The reason of a gap that is ours: the capture child died."""

CLOSE_TIMEOUT_S = 10.0
"""A capture child that has not closed its files by then is killed and its files are mended."""

SILENT_WARNING_S = 3.0
"""A capture child reports once a second at least."""

SILENT_END_S = 30.0
"""As long as its ring lasts: after that nothing can be saved by waiting."""

SECOND_LOOK_S = 1.0

RETRY_S = 1.0

SHORT_LIFE_S = 5.0
MAX_PAUSE_S = 10.0
"""A capture that lived shorter than SHORT_LIFE_S is followed after a pause that doubles up to this:
a microphone with a loose plug must not fill the log."""

MAX_DEATHS = 5
"""Captures in a row that may die young, or not get at the files, before the recording ends."""

MARK_S = 4.0
"""Readers take a capture for open until 10 s after its last touch; 5 s are promised."""

ASLEEP_NS = 1_000_000_000
"""A gap in which the machine slept longer than this is told as sleep."""

SENTENCES = {
    hearing.MUTED: "the microphone is muted",
    hearing.DIGITAL_SILENCE: "the microphone delivers digital silence: is it switched off, or used"
    " by another program?",
}
DISK_OK: dict[str, Any] = {"state": "ok", "message": ""}
"""What the capture child says of a disk that takes audio."""

MONITOR_SENTENCE = "the input is a monitor: it hears what the speakers play, and no microphone"


PAUSED = "paused"
TRACK_MUTED = "track_muted"
HELD = {
    PAUSED: "it is paused: ambientctl resume",
    TRACK_MUTED: "the track is muted: ambientctl unmute",
}
"""Why a person may have a microphone closed inside a session: the reasons of its gaps."""

LATE_START = "late_start"
"""The reason of a gap at the head of a track whose input was not there when the session began."""


class Begun(NamedTuple):
    """A capture child that writes a track.

    Attributes:
        capture: the child.
        opened: what it opened.
        rate_hz: rate of the native file.
        events: what it has said since it was told to write.
    """

    capture: Capture
    opened: Opened
    rate_hz: int
    events: list[dict[str, Any]]


class Loss(NamedTuple):
    """Why nothing is captured at the moment while the track goes on.

    Attributes:
        reason: as the gap will have it.
        message: a sentence for people.
        slept_ns: ``clock.slept_ns`` at that time.
    """

    reason: str
    message: str
    slept_ns: int

    def gap_reason(self) -> str:
        """Return the reason of the gap that ends now."""
        return "asleep" if clock.slept_ns() - self.slept_ns > ASLEEP_NS else self.reason


class TrackRecorder:
    """Records one track of a session until ``stop``, or until its source has ended.

    Args:
        target: where its capture children write.
        source: what they open.
        begun: the first of them; None when there is no input yet.
        since: what the track's files hold, or held before ``begun``.
        transcriber: what reads the spool; None when the session is not to be transcribed.
        note: writes an event of the track, without waiting.

    Attributes:
        known: what is known of the input.
        rate_hz: the native file's rate; 0 before there is one.
        progress: what the capture child last said of its progress.
        disk: the capture child's last word on how the disk takes audio.
        is_waiting: there is no microphone at the moment.
        why_ended: why it came to its end without ``stop``, for people.
        has_file: set when there is a native file.
    """

    def __init__(
        self,
        target: Target,
        source: dict[str, Any],
        begun: Begun | None,
        since: Since,
        transcriber: Transcriber | None,
        note: Callable[..., None],
    ) -> None:
        self.known = Input("") if begun is None else begun.opened.known
        self.rate_hz = since.rate_hz if begun is None else begun.rate_hz
        self.progress: dict[str, Any] = {
            "frames": since.frames,
            "lost_frames": 0,
            "heard_ns": since.at_ns,
        }
        self.disk = DISK_OK
        self.is_waiting = False
        self.why_ended = ""
        self.has_file = anyio.Event()
        self._target = target
        self._native = Path(target.folder) / layout.native_wav(target.track)
        # A session that a person began on a monitor goes on with one; no other may turn to it.
        allow_monitor = self.known.is_monitor or source.get("allow_monitor", False)
        self._source = {**source, "allow_monitor": allow_monitor}
        self._capture = None if begun is None else begun.capture
        self._transcriber = transcriber
        self._note = note
        self._hearing = hearing.Hearing()
        self._warnings: dict[str, str] = {}
        self._stop = anyio.Event()
        self._ask_to_close = anyio.Event()
        self._pause = anyio.CancelScope()
        self._holds: dict[str, str] = {}
        self._loss: Loss | None = None
        self._first_reason = since.reason
        self._first_events = [] if begun is None else begun.events
        self._lost_before_frames = 0
        self._begun_s = self._last_word_s = anyio.current_time()
        self._short_lives = 0
        self._deaths = 0
        if self.rate_hz:
            self.has_file.set()

    @property
    def captured_ms(self) -> int:
        """Length of what is on disk."""
        if not self.rate_hz:
            return 0
        return units.frames_to_ms(self.progress["frames"], self.rate_hz)

    @property
    def lost_frames(self) -> int:
        """Frames that were heard and could not be written."""
        return self._lost_before_frames + int(self.progress["lost_frames"])

    @property
    def input_state(self) -> str:
        """How it is.

        ``ok``, ``waiting``, ``muted``, ``digital_silence`` or ``monitor``; or why a person has it
        closed, a key of ``HELD``.
        """
        if self._holds:
            return next(iter(self._holds))
        if self.is_waiting:
            return "waiting"
        if self._hearing.state == hearing.OK and self._is_wrong_monitor:
            return "monitor"
        return self._hearing.state

    @property
    def warning(self) -> str:
        """What is wrong at the moment, or an empty string."""
        sentences = list(self._warnings.values())
        if not self.is_waiting and self._hearing.state != hearing.OK:
            sentences.append(SENTENCES[self._hearing.state])
        elif not self.is_waiting and self._is_wrong_monitor:
            sentences.append(MONITOR_SENTENCE)
        return "; ".join(sentences)

    @property
    def _is_wrong_monitor(self) -> bool:
        return self.known.is_monitor and self._source["kind"] != "call"

    def hold(self, reason: str) -> None:
        """Close the input until ``release``; returns at once.

        Args:
            reason: one of ``HELD``.
        """
        self._holds[reason] = HELD[reason]
        self._lose(reason, HELD[reason])
        # Nor may an input be opened that was waited for.
        self._pause.cancel()

    def release(self, reason: str) -> None:
        """Open the input again, unless another reason keeps it closed."""
        self._holds.pop(reason, None)
        self._pause.cancel()

    def stop(self) -> None:
        """End the track; returns at once."""
        self._stop.set()
        self._ask_to_close.set()
        self._pause.cancel()

    async def run(self) -> None:
        """Record to the end; the files are whole and closed then."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._mark_as_open)
            for event in self._first_events:
                self._take(event)
            try:
                loss = await self._follow_to_end()
                while loss is not None and await self._go_on(loss):
                    loss = await self._follow_to_end()
            finally:
                if self._capture is not None:
                    await self._capture.end(CLOSE_TIMEOUT_S)
            group.cancel_scope.cancel()
        if loss is not None:
            await self._close_gap(loss)

    async def _mark_as_open(self) -> None:
        """Do it in the place of a capture child while there is none."""
        while True:
            await anyio.sleep(MARK_S)
            if self.is_waiting and self.has_file.is_set():
                try:
                    await finishing.apart(os.utime, self._native)
                except OSError as error:
                    logs.event("track.unmarked", level=logging.WARNING, reason=str(error))

    # One capture child.

    async def _follow_to_end(self) -> Loss | None:
        """Follow the present capture child to its end.

        Returns:
            Why the track goes on, or cannot be closed without more ado; None if it is complete.
        """
        if self._capture is None:
            message = (
                "the daemon was restarted" if self.has_file.is_set() else "it is not there yet"
            )
            return Loss(self._first_reason, message, clock.slept_ns())
        self._loss = None
        self._begun_s = self._last_word_s = anyio.current_time()
        if not self._stop.is_set():
            self._ask_to_close = anyio.Event()
        for reason, message in self._holds.items():
            self._lose(reason, message)
        async with anyio.create_task_group() as group:
            group.start_soon(self._order_close, self._capture)
            group.start_soon(self._watch, self._capture)
            is_closed = await self._follow(self._capture)
            group.cancel_scope.cancel()
        await self._capture.end(CLOSE_TIMEOUT_S)
        self._lost_before_frames = self.lost_frames
        self.progress["lost_frames"] = 0
        self._take_disk(DISK_OK)
        if is_closed:
            return self._loss
        logs.event("capture.lost", level=logging.ERROR)
        self._note(CAPTURE_LOST, start_ms=self.captured_ms)
        return Loss(CAPTURE_LOST, "the capture process ended unexpectedly", clock.slept_ns())

    async def _order_close(self, capture: Capture) -> None:
        await self._ask_to_close.wait()
        await capture.stop()
        await anyio.sleep(CLOSE_TIMEOUT_S)
        logs.event("capture.stuck", level=logging.ERROR, pid=capture.pid)
        await capture.end(0)

    async def _watch(self, capture: Capture) -> None:
        """Notice a capture child that says nothing: it reports once a second at least."""
        while True:
            silent_s = anyio.current_time() - self._last_word_s
            if silent_s >= SILENT_WARNING_S and "capture" not in self._warnings:
                self._warnings["capture"] = "capture does not answer"
                logs.event("capture.silent", level=logging.ERROR, pid=capture.pid)
            if silent_s >= SILENT_END_S and await self._is_still_silent():
                await capture.end(0)
                return
            await anyio.sleep(SILENT_WARNING_S)

    async def _is_still_silent(self) -> bool:
        """Look again: if this process was stopped, the child's words wait in the pipe."""
        await anyio.sleep(SECOND_LOOK_S)
        return anyio.current_time() - self._last_word_s >= SILENT_END_S

    async def _follow(self, capture: Capture) -> bool:
        """Take the capture child's events until it ends; True if it closed its files."""
        async for event in capture.events():
            self._last_word_s = anyio.current_time()
            self._warnings.pop("capture", None)
            self._take(event)
            if event["event"] == "closed":
                return True
        return False

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind in ("progress", "closed"):
            self.progress.update(event)
            if self._transcriber is not None:
                self._transcriber.add_frames(self._target.track, event["spool_frames"])
            if kind == "progress":
                self._listen(event)
        elif kind == "gap":
            self._say_gap(event["start_ms"], event["end_ms"], event["reason"])
        elif kind == "overflow":
            self._note("overflow", start_ms=event["at_ms"], end_ms=event["at_ms"])
        elif kind == "input":
            self._meet(captures.known(event), event["at_ms"])
        elif kind == "disk":
            self._take_disk(event)
        elif kind == "must_end":
            self._note(event["reason"], start_ms=self.captured_ms, reason=event["message"])
            self.why_ended = event["message"]
            self.stop()
        elif kind == "ended" and event["reason"] == "end_of_file":
            self.why_ended = event["message"]
            self._ask_to_close.set()
        elif kind == "ended":
            self._note(event["reason"], start_ms=self.captured_ms)
            self._lose(event["reason"], event["message"])

    def _take_disk(self, event: dict[str, Any]) -> None:
        """Take what the disk does now; what it did until now is noted when that has passed."""
        before, self.disk = self.disk, event
        if event["state"] == before["state"]:
            return
        logs.event("capture.disk", level=logging.WARNING, state=event["state"])
        if event["state"] == "ok":
            end_ms = max(before["end_ms"], event.get("end_ms", self.captured_ms))
            span = {"start_ms": before["start_ms"], "end_ms": end_ms}
            self._note(before["state"], **span, reason=before["message"])

    def _listen(self, event: dict[str, Any]) -> None:
        now_s = anyio.current_time()
        if now_s - self._begun_s >= SHORT_LIFE_S:
            self._short_lives = self._deaths = 0
        before = self._hearing.state
        is_sound = event["zero_ms"] == 0 and event["peak_dbfs"] > units.SILENCE_DBFS
        if self._hearing.see(self.known, event["zero_ms"], is_sound=is_sound):
            state = self._hearing.state
            logs.event("input.state", level=logging.WARNING, state=state)
            start_ms = max(0, self.captured_ms - event["zero_ms"])
            if state == hearing.OK:
                self._note("sound_again", start_ms=start_ms, reason=before)
            else:
                self._note(state, start_ms=start_ms)
        if self._hearing.should_reopen(now_s):
            self._lose(hearing.DIGITAL_SILENCE, SENTENCES[hearing.DIGITAL_SILENCE])

    def _meet(self, known: Input, at_ms: int) -> None:
        """Take what is now known of the input."""
        if self.known.device not in ("", known.device):
            logs.event("input.changed", device=known.device)
            self._note("device_changed", start_ms=at_ms, device=known.device)
        self.known = known

    def _lose(self, reason: str, message: str) -> None:
        """Have the present capture child close its files, and another one go on."""
        if not self._ask_to_close.is_set():
            logs.event("input.lost", level=logging.WARNING, reason=reason)
            self._loss = Loss(reason, message, clock.slept_ns())
            # Said now: to close a stream whose device is gone may take seconds.
            self._say_lost(self._loss)
            self._ask_to_close.set()

    def _say_lost(self, loss: Loss) -> None:
        self.is_waiting = True
        if loss.reason not in HELD:
            self._warnings["input"] = loss.message

    def _say_gap(self, start_ms: int, end_ms: int, reason: str) -> None:
        if self._transcriber is not None:
            self._transcriber.add_hole(self._target.track, start_ms, end_ms)
        logs.event("capture.gap", level=logging.WARNING, start_ms=start_ms, end_ms=end_ms)
        self._note("gap", start_ms=start_ms, end_ms=end_ms, reason=reason)

    # From one capture child to the next.

    async def _go_on(self, loss: Loss) -> bool:
        """Start captures until one goes on with the track; False if it ends here."""
        pause_s = 0.0
        if self._capture is not None and loss.reason not in HELD:
            if anyio.current_time() - self._begun_s < SHORT_LIFE_S:
                self._short_lives += 1
                self._deaths += loss.reason == CAPTURE_LOST
            pause_s = min(2.0**self._short_lives - 1, MAX_PAUSE_S)
        self._say_lost(loss)
        if self._transcriber is not None:
            # Whoever was speaking is cut off here: the turn ends, and need not wait for the gap.
            self._transcriber.add_hole(self._target.track, self.captured_ms, self.captured_ms)
        while not self._stop.is_set() and self._deaths < MAX_DEATHS:
            with anyio.CancelScope() as self._pause:
                if self._holds:
                    await anyio.sleep_forever()
                await anyio.sleep(pause_s)
                pause_s = RETRY_S
                if await self._start_successor(loss):
                    self.is_waiting = False
                    self._warnings.pop("input", None)
                    return True
        if not self._stop.is_set():
            self.why_ended = f"recording failed {MAX_DEATHS} times in a row: {loss.message}"
        return False

    async def _start_successor(self, loss: Loss) -> bool:
        """Start a capture that waits for the input, and then goes on where the files end."""
        try:
            capture = await captures.start()
        except CaptureError as error:
            self._count_failure(error)
            return False
        try:
            take_waiting = functools.partial(self._say_waiting, loss)
            opened = await capture.wait_and_open(self._source, take_waiting)
            # A stop must not come between the gap and the audio behind it.
            with anyio.CancelScope(shield=True):
                has_file = await finishing.apart(self._native.exists)
                since = Since(self.progress["frames"], self.progress["heard_ns"], loss.gap_reason())
                self.rate_hz = await capture.begin(
                    self._target, since, create=not has_file, take=self._take
                )
        except CaptureError as error:
            await capture.end(0)
            self._count_failure(error)
            return False
        except BaseException:
            await capture.end(0)
            raise
        self._capture = capture
        self._meet(opened.known, self.captured_ms)
        self.has_file.set()
        return True

    def _count_failure(self, error: CaptureError) -> None:
        logs.event("capture.failed", level=logging.ERROR, code=error.code, reason=error.message)
        # The others are of the audio system, which a person may mend in hours.
        self._deaths += error.code == CaptureError.code

    def _say_waiting(self, loss: Loss, event: dict[str, Any]) -> None:
        warning = f"{loss.message}; waiting for it: {event['message']}"
        self._warnings["input"] = warning

    async def _close_gap(self, loss: Loss) -> None:
        """Make the files as long as the track: they end with what was not recorded."""
        missing_ns = max(0, clock.boot_ns() - self.progress["heard_ns"])
        if not self.has_file.is_set():
            # Nothing was ever heard, and so there is no file that could end with it.
            self._note("gap", start_ms=0, end_ms=missing_ns // 1_000_000, reason=loss.reason)
            return
        end_frames = self.progress["frames"] + missing_ns * self.rate_hz // 1_000_000_000
        try:
            # What a capture that was killed has written is more than it said.
            heard = await finishing.apart(wav.repair, self._native)
            whole = await finishing.apart(wav.repair, self._native, extend_to_frames=end_frames)
            self.progress["frames"] = whole.frames
        except (StoreError, TimeoutError) as error:
            logs.event("track.not_closed", level=logging.ERROR, reason=str(error))
            return
        if whole.ms > heard.ms:
            self._say_gap(heard.ms, whole.ms, loss.gap_reason())
        if self._transcriber is not None:
            spool = Path(self._target.folder) / layout.spool(self._target.track)
            self._transcriber.add_frames(
                self._target.track, spool.stat().st_size // units.SAMPLE_BYTES
            )
