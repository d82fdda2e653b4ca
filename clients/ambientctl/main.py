"""Entry point of `ambientctl`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ambientctl import show, times
from ambientctl.call import DaemonFault, NoDaemonError, call
from ambientd import __version__, descriptors, wire

QUICK_S = 10.0
"""For what the daemon answers at once."""

OPEN_S = 60.0
"""For what opens a device or closes one, and for checking a model for the first time."""


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    descriptors.prepare_standard()
    arguments = _parser().parse_args(argv)
    try:
        if getattr(arguments, "watch", False):
            # Only now: nothing else needs what draws it.
            from ambientctl import watch

            return watch.run()
        text: str = arguments.run(arguments)
    except NoDaemonError as error:
        return _fail(f"{error}", "start it with: ambientd", wire.EXIT_NO_DAEMON)
    except DaemonFault as fault:
        return _fail(str(fault), fault.hint, fault.exit_code)
    except TimeoutError:
        return _fail("the daemon did not answer in time", "look at its log", wire.EXIT_FAILED)
    except KeyboardInterrupt:
        if arguments.run is _record or getattr(arguments, "action", None) == "test":
            _take_back()
        return 130  # 128 + SIGINT, as shells report it
    except OSError as error:
        return _fail(f"the connection broke: {error}", "try again", wire.EXIT_FAILED)
    return descriptors.say(text)


def _take_back() -> None:
    """Undo a start whose outcome nobody waits for any more."""
    try:
        call("ambient/stop", {}, OPEN_S)
    except (NoDaemonError, DaemonFault, OSError):
        pass  # it had not come that far


def _fail(message: str, hint: str, exit_code: int) -> int:
    sys.stderr.write(f"ambientctl: {message}{'; ' + hint if hint else ''}\n")
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ambientctl",
        description="Tells ambientd what to do, and shows what it is doing.",
        epilog="exit codes: 0 done, 1 failed, 2 usage, 3 no daemon answers, 4 refused",
    )
    parser.add_argument("--version", action="version", version=f"ambientctl {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    status = verbs.add_parser("status", help="show whether it listens, and how it is doing")
    status.add_argument(
        "--watch", action="store_true", help="show it live, with levels and the last turns"
    )
    status.set_defaults(run=_status)
    record = verbs.add_parser(
        "record", help="start listening; prints the session's id and returns at once"
    )
    record.add_argument("--name", help="what to call the session")
    record.add_argument(
        "--seconds", type=_seconds, metavar="S", help="stop by itself after S seconds"
    )
    record.add_argument(
        "--no-transcribe", action="store_true", help="record audio only; needs no speech model"
    )
    call = record.add_mutually_exclusive_group()
    call.add_argument(
        "--call",
        action="store_true",
        default=None,
        help="record what the speakers play, too, as a track of its own",
    )
    call.add_argument(
        "--no-call",
        dest="call",
        action="store_false",
        help="record the microphone only, whatever capture.call says",
    )
    record.set_defaults(run=_record)
    stop = verbs.add_parser("stop", help="stop listening; returns when the microphone is closed")
    stop.add_argument("--wait", action="store_true", help="return when the transcript is done")
    stop.set_defaults(run=_stop)
    arm = verbs.add_parser(
        "arm",
        help="listen without recording; a session starts by itself when somebody speaks",
        description="Gives standing consent: the microphone is open, two seconds of it are kept in "
        "memory, and a session starts by itself when somebody speaks. It ends when nobody has "
        "spoken for a while; then the microphone stays open for the next one.",
    )
    until = arm.add_mutually_exclusive_group()
    until.add_argument(
        "--for",
        dest="length",
        type=times.length,
        metavar="LENGTH",
        help=f"for so long, such as 90m or 2h (default: {times.DEFAULT_TEXT})",
    )
    until.add_argument(
        "--until", type=times.next_at, metavar="HH:MM", help="until this time, today or tomorrow"
    )
    until.add_argument(
        "--until-disarm", action="store_true", help="until ambientctl disarm, or the next restart"
    )
    arm.set_defaults(run=_arm)
    disarm = verbs.add_parser(
        "disarm", help="close the microphone and end the session that began by itself"
    )
    disarm.set_defaults(run=_disarm)
    pause = verbs.add_parser("pause", help="close the microphone for a while; the session goes on")
    pause.set_defaults(run=_tell, method="ambient/pause")
    resume = verbs.add_parser("resume", help="open it again")
    resume.set_defaults(run=_tell, method="ambient/resume")
    mute = verbs.add_parser("mute", help="close the input of one track for a while")
    mute.set_defaults(run=_tell, method="ambient/mute")
    unmute = verbs.add_parser("unmute", help="open it again")
    unmute.set_defaults(run=_tell, method="ambient/unmute")
    for verb in (mute, unmute):
        verb.add_argument(
            "track",
            choices=("room", "call"),
            help="room: the microphone; call: what the speakers play",
        )
    devices = verbs.add_parser(
        "devices",
        help="list the input devices, or test what is heard",
        description="Lists the input devices: > is the one that would be recorded, * the default, "
        "+ what the speakers play. With test it opens what would be recorded for ten seconds, "
        "shows how loud it is and whether that is taken for speech, and keeps nothing.",
    )
    devices.add_argument("action", nargs="?", choices=("test",), help="hear for ten seconds")
    devices.set_defaults(run=_devices)
    for verb in (status, record, stop, arm, disarm, pause, resume, mute, unmute, devices):
        verb.add_argument("--json", action="store_true", help="print the answer as JSON")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return seconds


def _status(arguments: argparse.Namespace) -> str:
    answer = call("ambient/status", {}, QUICK_S)
    return _json(answer) if arguments.json else show.status(answer)


def _record(arguments: argparse.Namespace) -> str:
    params: dict[str, Any] = {"transcribe": not arguments.no_transcribe}
    if arguments.name is not None:
        params["name"] = arguments.name
    if arguments.seconds is not None:
        params["seconds"] = arguments.seconds
    if arguments.call is not None:
        params["call"] = arguments.call
    answer = call("ambient/record", params, OPEN_S)
    for track, device in answer["devices"].items():
        if device is None:
            hint = "; ambientctl status says why"
            sys.stderr.write(f"ambientctl: {track} is not heard yet and is waited for{hint}\n")
    return _json(answer) if arguments.json else f"{answer['id']}\n"


def _stop(arguments: argparse.Namespace) -> str:
    answer = call("ambient/stop", {"wait": arguments.wait}, None if arguments.wait else OPEN_S)
    if answer["problem"]:
        hint = "see ambientctl status and the daemon's log"
        raise DaemonFault({"message": answer["problem"], "data": {"hint": hint}})
    return (
        _json(answer)
        if arguments.json
        else f"{answer['id'] or 'nothing was recorded yet; it is given up'}\n"
    )


def _arm(arguments: argparse.Namespace) -> str:
    until = None
    if not arguments.until_disarm:
        until = arguments.until or times.after(arguments.length or times.DEFAULT)
    text = None if until is None else until.isoformat(timespec="seconds")
    answer = call("ambient/arm", {"until": text}, OPEN_S)
    if arguments.json:
        return _json(answer)
    return f"armed {times.until(answer['consent']['until'])}\n"


def _disarm(arguments: argparse.Namespace) -> str:
    answer = call("ambient/disarm", {}, OPEN_S)
    if arguments.json:
        return _json(answer)
    if answer["open"] is not None:
        sys.stderr.write(
            f"ambientctl: session {answer['open']} goes on, because it was asked for; end it with: "
            "ambientctl stop\n"
        )
    return f"{answer['id']}\n" if answer["id"] is not None else "disarmed\n"


def _tell(arguments: argparse.Namespace) -> str:
    params = {"track": arguments.track} if "track" in arguments else {}
    answer = call(arguments.method, params, OPEN_S)
    return _json(answer) if arguments.json else f"{answer['id']}\n"


def _devices(arguments: argparse.Namespace) -> str:
    if arguments.action == "test":
        # Only now: it is rarely wanted.
        from ambientctl import soundcheck

        answer = soundcheck.run(None if arguments.json else sys.stdout)
        return _json(answer) if arguments.json else soundcheck.summary(answer)
    answer = call("ambient/devices", {}, OPEN_S)
    return _json(answer) if arguments.json else show.devices(answer)


def _json(answer: dict[str, Any]) -> str:
    return json.dumps(answer, indent=2) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
