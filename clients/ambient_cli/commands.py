"""The verbs for people and scripts: `sessions`, `status`, `show`, `completion`.

Each reads through the same tools as an assistant, and with --json prints exactly their text.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from ambient_cli import show
from ambient_cli.reader import Reader, ReadError
from ambientd import __version__, wire

FOLLOW_EVERY_S = 0.5
UNFINISHED = ("live", "transcribing")


def main(arguments: list[str]) -> int:
    """Run one verb and return the exit code."""
    chosen = _parser().parse_args(arguments)
    if chosen.verb == "mcp":
        return _mcp(chosen)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except ReadError as error:
        sys.stderr.write(f"ambient: {error}\n")
        return wire.EXIT_FAILED
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells report it
    except BrokenPipeError:
        # Who reads has what it wanted; keep the interpreter from complaining at exit.
        sys.stdout = None
    except OSError as error:
        sys.stdout = None
        sys.stderr.write(f"ambient: cannot write: {error.strerror}\n")
        return wire.EXIT_FAILED
    return wire.EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ambient",
        description="Reads what Ambient recorded, also while it is being recorded.",
        epilog="exit codes: 0 done, 1 failed, 2 usage. The sessions are those of the running "
        "ambientd; while none runs they are read from $AMBIENT_HOME, else the setting `root`, "
        f"else {wire.default_root()}.",
    )
    parser.add_argument("--version", action="version", version=f"ambient {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    # `ambient mcp` without options never gets here.
    served = _verb(
        verbs,
        "mcp",
        "serve the sessions to an MCP client on stdin and stdout",
        "Register it with an assistant by the absolute path of this program and the argument mcp.",
    )
    served.add_argument(
        "--toolsets",
        metavar="NAMES",
        help="what the assistant is offered: sessions (the default: it reads), control (it starts "
        "and stops recordings, where the setting mcp.allow_control is on), or both with a comma "
        "between",
    )
    sessions = _verb(verbs, "sessions", "list the sessions, newest first")
    sessions.set_defaults(run=_sessions)
    status = _verb(verbs, "status", "say whether somebody is being recorded")
    status.set_defaults(run=_status)
    shown = _verb(verbs, "show", "print what was said in a session")
    shown.add_argument(
        "session", metavar="ID", help="a session's id, the start of it, `latest`, or `live`"
    )
    shown.add_argument(
        "--since", type=_count, default=0, metavar="N", help="leave out the first N lines"
    )
    shown.add_argument(
        "--verbatim", action="store_true", help="without corrections and speakers' names"
    )
    shown.add_argument(
        "--follow", action="store_true", help="print new lines until the session is done"
    )
    shown.set_defaults(run=_show, parser=shown)
    for verb in (sessions, status, shown):
        verb.add_argument("--json", action="store_true", help="print what the MCP tool returns")
    completion = _verb(verbs, "completion", "print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run=_completion)
    return parser


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a verb whose own help says what the list of verbs says."""
    return verbs.add_parser(
        name, help=help, description=f"{help[0].upper()}{help[1:]}.", epilog=epilog
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no count of lines")
    return int(text)


def _mcp(chosen: argparse.Namespace) -> int:
    from ambient_cli import shim

    toolsets: str | None = chosen.toolsets
    return shim.main(toolsets)


def _sessions(chosen: argparse.Namespace) -> None:
    _print("sessions", show.sessions, as_json=chosen.json)


def _status(chosen: argparse.Namespace) -> None:
    _print("status", show.status, as_json=chosen.json)


def _print(tool: str, page: Callable[[Any], str], *, as_json: bool) -> None:
    reader = Reader()
    if as_json:
        print(reader.text(tool))
    else:
        sys.stdout.write(page(reader.value(tool)))


def _show(chosen: argparse.Namespace) -> None:
    if chosen.json and chosen.follow:
        chosen.parser.error("--follow is for people; with --json ask again with --since NEXT")
    reader = Reader()
    session = _find(reader, chosen.session)
    arguments = {"session": session, "since": chosen.since, "verbatim": chosen.verbatim}
    if chosen.json:
        print(reader.text("transcript", **arguments))
        return
    rows: list[dict[str, Any]] = reader.value("sessions")
    started_at = next((row["started_at"] for row in rows if row["id"] == session), None)
    answer = reader.value("transcript", **arguments)
    page = show.Page(started_at, colour=sys.stdout.isatty())
    if not answer["lines"] and not (chosen.follow and answer["state"] in UNFINISHED):
        # On stderr: the transcript is empty all the same.
        sys.stderr.write(f"ambient: {show.why_empty(answer, chosen.since)}\n")
    # People read in the order of speaking; what comes later while following comes in its own.
    for line in sorted(answer["lines"], key=lambda line: int(line["start_ms"])):
        print(page.line(line))
    while chosen.follow and answer["state"] in UNFINISHED:
        sys.stdout.flush()
        time.sleep(FOLLOW_EVERY_S)
        answer = reader.value("transcript", **{**arguments, "since": answer["next"]})
        for line in answer["lines"]:
            print(page.line(line))


def _find(reader: Reader, wanted: str) -> str:
    """Return the id that a person means.

    Raises:
        ReadError: none or more than one fits.
    """
    if not wanted:
        raise ReadError("an empty id; see ambient sessions")
    if wanted == "live":
        live = reader.value("status")["live"]
        if live is None:
            raise ReadError("nobody is being recorded")
        return str(live["id"])
    ids = [str(row["id"]) for row in reader.value("sessions")]
    if wanted == "latest":
        if not ids:
            raise ReadError("there are no sessions yet")
        return ids[0]
    fitting = [one for one in ids if one.startswith(wanted)]
    if wanted in ids or not fitting:
        return wanted  # also when it is unknown: the tool says so
    if len(fitting) > 1:
        raise ReadError(f"{wanted} fits {len(fitting)} sessions: {', '.join(sorted(fitting))}")
    return fitting[0]


def _completion(chosen: argparse.Namespace) -> None:
    from ambient_cli import completion

    sys.stdout.write(completion.script(chosen.shell))
