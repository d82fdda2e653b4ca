"""`make demo` and `make listen`: the whole way from a microphone to an assistant, in one terminal.

Everything is real: a daemon, a session, and the `ambient mcp` that an assistant would start. Only
the microphone of `make demo` is a file, which takes the very same path.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import running

DATA = Path(__file__).parent / "data"
SAMPLE = DATA / "standup.flac"
REFERENCE = DATA / "standup.json"
POLL_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.demo")
    parser.add_argument("--microphone", action="store_true", help="listen to the real microphone")
    microphone = parser.parse_args().microphone
    source = [] if microphone else ["--source", str(SAMPLE)]
    with running.place() as at, running.daemon(at, *source), running.client(at) as client:
        say(f"ambientd runs, `ambient mcp` is attached. Sessions are in {at.root} until this ends.")
        started = at.ctl("record", "--name", "demo", check=False)
        if started.returncode:
            say(started.stderr.strip())
            return started.returncode
        session = started.stdout.strip()
        if microphone:
            say("Listening to the microphone. Talk; Ctrl-C stops.")
            delay = delay_of_turn_end(at, session)
        else:
            say("Playing a talk of two as the microphone, in real time:")
            delay = delay_after_speech(client)
        say("")
        try:
            follow(client, session, delay)
        except KeyboardInterrupt:
            say("\nstopping ...")
            at.ctl("stop", "--wait", check=False)
        # Anew: an interrupt may have left an answer unread in the other's pipe.
        with running.client(at) as reader:
            show_tools(reader, session)
    say("The daemon has stopped and its temporary folder is gone.")
    return 0


def follow(client: running.Client, session: str, delay: Callable[[dict[str, Any]], str]) -> None:
    """Print each line when it becomes readable, until the session is done."""
    since = 0
    state = "live"
    while state != "done":
        answer = client.tool("transcript", session=session, since=since)
        for line in answer["lines"]:
            at_s = line["start_ms"] / 1000
            clock = f"[{int(at_s) // 60:02d}:{at_s % 60:04.1f}]"
            say(f"{bold(clock)} {line['text']}  {delay(line)}")
        since, state = answer["next"], answer["state"]
        if state == "pending":
            raise RuntimeError("the session ended without a transcript")
        time.sleep(POLL_S)


def delay_after_speech(client: running.Client) -> Callable[[dict[str, Any]], str]:
    """Measure from the end of a sentence in the recording to its line being readable."""
    spoken = json.loads(REFERENCE.read_text(encoding="utf-8"))["lines"]
    session = client.tool("sessions")[0]
    origin_s = instant_s(session["started_at"])

    def delay(line: dict[str, Any]) -> str:
        ends_ms = [one["end_ms"] for one in spoken if one["start_ms"] < line["end_ms"]]
        waited_s = time.time() - origin_s - max(ends_ms) / 1000
        return f"(readable {waited_s:.2f} s after it was said)"

    return delay


def delay_of_turn_end(at: running.Place, session: str) -> Callable[[dict[str, Any]], str]:
    """Measure from the end of the turn, its closing pause included; nobody knows the speech's."""
    meta = json.loads((at.root / session / "session.json").read_text(encoding="utf-8"))
    origin_s = instant_s(meta["started_at"])

    def delay(line: dict[str, Any]) -> str:
        return f"(readable {time.time() - origin_s - line['end_ms'] / 1000:.2f} s after its end)"

    return delay


def instant_s(text: str) -> float:
    """Return an RFC 3339 time in seconds since the epoch."""
    return datetime.datetime.fromisoformat(text).timestamp()


def show_tools(client: running.Client, session: str) -> None:
    """Print what an assistant gets from each of the three tools."""
    say("\nWhat an assistant reads through `ambient mcp`:\n")
    total = client.tool("transcript", session=session)["next"]
    for name, arguments in (
        ("status", {}),
        ("sessions", {}),
        ("transcript", {"session": session, "since": max(0, total - 3)}),
    ):
        say(bold(f"{name} {json.dumps(arguments)}"))
        say(client.tool_text(name, **arguments) + "\n")


def bold(text: str) -> str:
    """Emphasise on a terminal only."""
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except (RuntimeError, OSError, EOFError, subprocess.SubprocessError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        raise SystemExit(1) from None
