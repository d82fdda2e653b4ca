"""Entry point of `ambientd`: arguments, logging, signals, the event loop, exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from ambientd import __version__, assistant, bounded, control, descriptors, logs, settings, wire
from ambientd.daemon import Daemon
from ambientd.errors import AmbientError, CaptureError, SettingsError
from ambientd.inputs import Source
from ambientd.store.layout import CALL, ROOM

OPEN_FILES = 1024
"""Enough for every connection that is accepted, and for the children."""

SWITCH_S = 0.00002
"""How long a thread that makes a long answer may keep the interpreter from the event loop, which
asks for it again after each system call, as does a thread that looks at the disk; Python's own 5 ms
add up, and so does half a one (docs/developing/measurements.md)."""


def main(argv: list[str] | None = None) -> int:
    """Run the daemon in the foreground and return the exit code."""
    descriptors.prepare_standard()
    arguments = _parser().parse_args(argv)
    # A core dump would hold what was said; children inherit the limit.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    _allow_open_files()
    sys.setswitchinterval(SWITCH_S)
    try:
        values = settings.load(flags=settings.given_flags(vars(arguments)))
        logs.configure(values.text("log_level"))
        for name, hint in settings.unknown_variables(os.environ):
            logs.event("settings.unknown_variable", level=logging.WARNING, variable=name, near=hint)
        sources = _sources(arguments, values)
        anyio.run(_run, values, sources)
    except AmbientError as error:
        sys.stderr.write(f"ambientd: {error}\n")
        return exit_code(error.exit_code)
    return exit_code(wire.EXIT_OK)


def exit_code(code: int) -> int:
    """Return the code, or end the process here if a call on a disk that hangs would keep it."""
    if bounded.hanging():
        logging.shutdown()
        os._exit(code)
    return code


def _allow_open_files() -> None:
    """Raise the soft limit of open files: some systems start with as few as our connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ambientd",
        description="Owns the microphone and turns speech into text on this machine. Runs in the "
        "foreground until SIGTERM or SIGINT; listens only after `ambientctl record` or `arm`.",
        epilog="exit codes: 0 stopped, 1 could not start or failed, 2 usage",
    )
    parser.add_argument("--version", action="version", version=f"ambientd {__version__}")
    parser.add_argument(
        "--source",
        metavar="FILE",
        type=Path,
        help="play this audio file as the microphone, from the moment `record` is asked for",
    )
    parser.add_argument(
        "--call-source",
        metavar="FILE",
        type=Path,
        help="play this audio file as what the speakers play (record --call)",
    )
    parser.add_argument(
        "--source-speed",
        metavar="max|N",
        type=_speed,
        help="how fast to play it: 1 is real time (default), max is as fast as it can be written",
    )
    settings.add_flags(parser.add_argument)
    return parser


def _speed(text: str) -> float:
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is neither max nor a number up to 1000")
    return speed


def _sources(arguments: argparse.Namespace, values: settings.Settings) -> dict[str, Source]:
    """Return what each track would be recorded from."""
    if arguments.source is None and arguments.source_speed is not None:
        raise SettingsError.in_flag("--source-speed needs --source FILE")
    speed = 1.0 if arguments.source_speed is None else arguments.source_speed
    room: Source = {"kind": "device", "name": values.optional_text("capture.device")}
    call: Source = {"kind": "call", "name": _call_device(values)}
    if arguments.source is not None:
        room = _file(arguments.source, speed)
    if arguments.call_source is not None:
        call = _file(arguments.call_source, speed)
    return {ROOM: room, CALL: call}


def _file(path: Path, speed: float) -> Source:
    if not path.is_file():
        raise CaptureError(f"{path} is no file", "name a sound file")
    return {"kind": "file", "path": str(path.absolute()), "speed": speed}


def _call_device(values: settings.Settings) -> str | None:
    name = values.text("capture.call")
    return None if name in ("off", "auto") else name


async def _run(values: settings.Settings, sources: dict[str, Source]) -> None:
    daemon = Daemon(values, settings.sessions_root(values), sources)
    failure: AmbientError | None = None
    # Before anything else of the daemon: an early signal must already be a clean stop.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_on_signal, signals, daemon)
            try:
                await daemon.run(control.methods, assistant.actor)
            except AmbientError as error:
                failure = error  # raised below: a task group would wrap it
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _stop_on_signal(signals: AsyncIterator[signal.Signals], daemon: Daemon) -> None:
    async for number in signals:
        logs.event("daemon.stopping", signal=number.name)
        daemon.stop()


if __name__ == "__main__":
    raise SystemExit(main())
