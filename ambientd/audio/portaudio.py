"""The one file that touches an audio device.

PortAudio is loaded when something is opened, not when this is imported, so that everything else
works on machines without it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from ambientd import clock
from ambientd.audio import pulse, selection
from ambientd.audio.pace import Pace
from ambientd.audio.ring import Ring
from ambientd.audio.source import BLOCK_MS, Anchor, Input, Instant, State
from ambientd.errors import CaptureError

RING_S = 30

OPEN_TIMEOUT_S = 8.0
"""PortAudio waits for ever for an audio server that is frozen; one that wakes up takes seconds.
With the wait for the first frames this stays below the 15 s that the daemon waits."""

FIRST_FRAMES_TIMEOUT_S = 5.0

SILENT_FOR_S = 1.5
"""A stream that delivers nothing for so long is lost: blocks come every 20 ms. With the looks that
the writer takes, this is said within 3 s."""

CLOSE_TIMEOUT_S = 2.0

KNOWN_WITHIN_S = 1.0
"""How long an opening waits to learn from the audio server what was opened."""

LATENCY_S = 0.1
"""What PortAudio is asked for. Half as many wake-ups, here and in the audio server, as its own
"high" of a device that is the server's, and no stream runs over sooner."""

ASLEEP_NS = 200_000_000
"""The two clocks that differ by sleep alone are not read at the same instant."""

_DEVICE_UNAVAILABLE = -9985
"""paDeviceUnavailable (portaudio.h)."""


class Device:
    """An input device as a source; see ``ambientd.audio.source.Source``.

    Args:
        name: as in ``ambientd.audio.selection``; None for the default.
        is_call: whether it is what the speakers play, and not a microphone. The default is then
            the monitor of the default output.
        allow_monitor: whether a microphone may be the monitor of a sink when it is opened. What was
            opened as a microphone never goes on with what the speakers play.
    """

    def __init__(self, name: str | None, *, is_call: bool, allow_monitor: bool) -> None:
        self.is_microphone = not is_call
        self.rate_hz = 0
        self.ring = Ring(0)
        self.anchor = Anchor(0, 0)
        self.overflows = 0
        self._name = name
        self._is_call = is_call
        self._allow_monitor = allow_monitor or is_call
        self._device = ""
        self._was_loaded = False
        self._server = pulse.Watch()
        self._wanted: str | None = None
        self._stream: Any = None
        # The writer asks for the state while another thread closes: never of a freed stream.
        self._stream_lock = threading.Lock()
        self._first = threading.Event()
        self._first_at = Instant(0, 0)
        self._slept_ns = 0
        self._last_block_s = 0.0
        self._pace = Pace(0)

    def open(self) -> Instant:
        """Open the device and wait for its first frames."""
        opened: Future[None] = Future()
        threading.Thread(target=self._fulfil, args=(opened,), daemon=True).start()
        try:
            opened.result(OPEN_TIMEOUT_S)
        except TimeoutError:
            raise _stuck() from None
        if not self._first.wait(FIRST_FRAMES_TIMEOUT_S):
            self.close()
            raise CaptureError(
                f"{self._device} opened and delivers nothing",
                "is it muted, suspended, or used by another program?",
                code="no_audio",
            )
        if sys.platform == "linux":
            follows_output = self._is_call and self._name is None
            self._server = pulse.Watch(self._wanted, follows_output=follows_output)
            self._server.start(KNOWN_WITHIN_S)
        if self._is_forbidden():
            device = self.input().device
            self.close()
            raise CaptureError(
                f"there is no microphone; the default input is {device}, a monitor of what is"
                " played",
                "plug one in",
                code="no_microphone",
            )
        if self._server.is_elsewhere:
            self.close()
            raise CaptureError(
                f"{self._wanted} cannot be heard: the audio library opened another input",
                "on Linux check that libasound2-plugins is installed",
                code="no_such_device",
            )
        self._allow_monitor = self._is_call or self.input().is_monitor
        return self._first_at

    def begin(self, position_frames: int) -> None:
        """Nothing to do: it delivers since it was opened."""

    def state(self) -> State:
        """Tell whether blocks still come, at the rate they should, from where they should."""
        with self._stream_lock:
            if self._stream is None:
                return State.ALIVE  # closed by us, which is no loss
            silent_s = time.monotonic() - self._last_block_s
            is_silent = silent_s > SILENT_FOR_S or not self._stream.active
        if is_silent:
            return State.SUSPENDED if self._server.is_suspended else State.LOST
        if self._is_forbidden():
            return State.LOST
        if self._server.is_elsewhere:
            # A named device is waited for; the default output is followed.
            return State.LOST if self._name else State.ELSEWHERE
        return State.OFF_PACE if self._pace.is_off(self.anchor) else State.ALIVE

    def input(self) -> Input:
        """Tell what it is, as the audio server has it, or as PortAudio called it."""
        return self._server.input or Input(self._device)

    def close(self) -> None:
        """Close the stream; a stuck one is left to the end of the process.

        Raises:
            CaptureError: it is stuck, and nothing can be opened in this process any more.
        """
        self._server.stop()
        with self._stream_lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            closing = threading.Thread(target=stream.close, daemon=True)
            closing.start()
            closing.join(CLOSE_TIMEOUT_S)
            if closing.is_alive():
                raise _stuck()

    def _is_forbidden(self) -> bool:
        return self.input().is_monitor and not self._allow_monitor

    def _find_source(self) -> str | None:
        """Return the source of the audio server that is meant, None if it is not the server's."""
        if self._name is None and not self._is_call:
            return None  # the server knows its default, and moves the stream with it
        found = pulse.sources()
        if found is not None and self._name is not None:
            named = selection.find(found, self._name)
            return None if named is None else named.name
        if self._name is not None:
            return None
        played = next((one.name for one in found or () if one.is_played), None)
        if played is None:
            raise CaptureError(
                "what the speakers play cannot be heard without PipeWire or PulseAudio",
                "on macOS install a loopback device, and name it: capture.call",
                code="no_such_device",
            )
        return played

    def _fulfil(self, opened: Future[None]) -> None:
        try:
            self._wanted = self._find_source()
            if self._wanted is not None:
                os.environ[pulse.ENV] = self._wanted
            sounddevice = _load()
            with _quiet_stderr():
                if self._was_loaded:
                    # It looks for devices only when it starts. No stream is open now.
                    sounddevice._terminate()
                    sounddevice._initialize()
                self._was_loaded = True
                devices = sounddevice.query_devices()
                name = self._name if self._wanted is None else None
                info = selection.choose(devices, name, _default_index(sounddevice))
                self._device = str(info["name"])
                self._open_stream(sounddevice, info)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            opened.set_exception(error)
        else:
            opened.set_result(None)

    def _open_stream(self, sounddevice: Any, info: dict[str, Any]) -> None:
        last_error = None
        for rate_hz in selection.rates_hz(info):
            self.rate_hz = rate_hz
            self.ring = Ring(RING_S * rate_hz)
            self._first.clear()
            self._slept_ns = clock.slept_ns()
            self._pace = Pace(rate_hz)
            try:
                self._stream = sounddevice.RawInputStream(
                    device=info["index"],
                    samplerate=rate_hz,
                    blocksize=rate_hz * BLOCK_MS // 1000,
                    channels=1,
                    dtype="int16",
                    latency=LATENCY_S,
                    callback=self._on_block,
                )
                self._stream.start()
            except sounddevice.PortAudioError as error:
                last_error = error
                self.close()
                continue
            return
        raise _explain(last_error, self._device)

    def _on_block(self, data: Any, frames: int, timing: Any, flags: Any) -> None:
        # PortAudio waits for this: copy, count, leave.
        now_ns, slept_ns = clock.boot_ns(), clock.slept_ns()
        if slept_ns - self._slept_ns > ASLEEP_NS:
            self.ring.skip((slept_ns - self._slept_ns) * self.rate_hz // 1_000_000_000, "asleep")
        self._slept_ns = slept_ns
        self.ring.push(bytes(data), frames)
        self.anchor = Anchor(self.ring.position_frames, now_ns)
        if flags.input_overflow:
            self.overflows += 1
        self._last_block_s = time.monotonic()
        if not self._first.is_set():
            length_ns = frames * 1_000_000_000 // self.rate_hz
            self._first_at = Instant(time.time_ns() - length_ns, now_ns - length_ns)
            self._first.set()


def list_inputs() -> list[dict[str, Any]]:
    """Return the inputs as the audio server and PortAudio see them now.

    Returns:
        For each its id, if the server has one, name, host_api, rate_hz and channels; whether it is
        a monitor of what is played, the default input (default), and the monitor of the default
        output (played).

    Raises:
        CaptureError: PortAudio is missing or does not start.
    """
    sounddevice = _load()
    with _quiet_stderr():
        served = pulse.sources() or []
        default = None if served else _default_index(sounddevice)
        apis = sounddevice.query_hostapis()
        own = [
            {
                "id": None,
                "name": info["name"],
                "host_api": apis[info["hostapi"]]["name"],
                "monitor": False,
                "default": info["index"] == default,
                "played": False,
                "rate_hz": int(info["default_samplerate"]),
                "channels": info["max_input_channels"],
            }
            for info in selection.inputs(sounddevice.query_devices())
            if not (served and info["name"] in selection.SERVER_NAMES)
        ]
    return [
        {
            "id": one.name,
            "name": one.description,
            "host_api": "PulseAudio",
            "monitor": one.is_monitor,
            "default": one.is_default,
            "played": one.is_played,
            "rate_hz": one.rate_hz,
            "channels": one.channels,
        }
        for one in served
    ] + own


def _load() -> Any:
    try:
        with _quiet_stderr():
            import sounddevice
    except OSError:
        raise CaptureError(
            "PortAudio is not installed", _install_hint(), code="no_portaudio"
        ) from None
    except Exception as error:  # noqa: BLE001 - PortAudio starts on import, and fails in its own way
        raise CaptureError(f"PortAudio does not start: {error}", code="device_failed") from None
    return sounddevice


def _install_hint() -> str:
    if sys.platform == "darwin":
        return "reinstall it with: pip install --force-reinstall sounddevice"
    return "install it: apt install libportaudio2 (Debian, Ubuntu), dnf install portaudio (Fedora)"


def _default_index(sounddevice: Any) -> int | None:
    try:
        return int(sounddevice.query_devices(kind="input")["index"])
    except (sounddevice.PortAudioError, ValueError):
        return None


def _stuck() -> CaptureError:
    return CaptureError(
        "the audio system does not answer",
        "restart PipeWire, PulseAudio or the computer's audio service",
        code="audio_stuck",
    )


def _explain(error: Any, device: str) -> CaptureError:
    code = error.args[1] if error is not None and len(error.args) > 1 else None
    if code == _DEVICE_UNAVAILABLE:
        return CaptureError(
            f"{device} is in use", "close the program that records from it", code="device_busy"
        )
    reason = str(error.args[0]) if error is not None and error.args else "unknown reason"
    return CaptureError(
        f"{device} cannot be opened: {reason}", "see ambientctl devices", code="device_failed"
    )


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep ALSA's and JACK's own lines, which are no errors of ours, out of the log."""
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(null)
        os.close(kept)
