"""Finds the daemon and attaches to it. Standard library only.

Attaching tells the daemon that this connection speaks for an MCP client, and tells us whether it
serves the same sessions folder.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from ambient_cli import asked
from ambientd import __version__, dial, wire

CONNECT_TIMEOUT_S = 1.0
ATTACH_TIMEOUT_S = 1.0

RETRY_AFTER_S = 1.0
"""Least time between two attempts to find a daemon."""

RETRY_AFTER_HANG_S = 10.0
"""The same after a daemon that accepted and did not answer: waiting for it again so soon would make
every request slow."""


class NoRootError(Exception):
    """Neither the settings nor a daemon say where the sessions are."""


class Finder:
    """Remembers when to look for a daemon again, and what has been said about it on stderr.

    The sessions folder is the one that the user named. When nobody named one it is that of the
    daemon that answers, and only without a daemon the default; when the settings cannot be read,
    only a daemon knows.

    Args:
        program: what messages begin with.
        toolsets: what an assistant is offered over the connection.
    """

    def __init__(self, program: str, toolsets: tuple[str, ...] = asked.DEFAULT_TOOLSETS) -> None:
        self._program = program
        self._toolsets = toolsets
        self._root: str | None = None
        self._root_of_last_resort: str | None = None
        self._next_try_s = 0.0
        self._hangs = 0
        self._said: set[str] = set()
        try:
            self._root = asked.named()
            self._root_of_last_resort = self._root or asked.default()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the settings, say it
            self.say(str(error))

    def connect(self) -> socket.socket | None:
        """Return an attached, non-blocking socket; None if there is no daemon for us (yet)."""
        now_s = time.monotonic()
        if now_s < self._next_try_s:
            return None
        self._next_try_s = now_s + RETRY_AFTER_S
        for path in wire.socket_candidates():
            link = self._try(path)
            if link is not None:
                self._said.clear()
                self._hangs = 0
                return link
        return None

    def known_root(self) -> str:
        """Return the sessions folder.

        Raises:
            NoRootError: nobody has said where it is.
        """
        if self._root_of_last_resort is None:
            raise NoRootError("no daemon answers, and without it the settings are needed")
        return self._root_of_last_resort

    def avoid_for_a_while(self) -> None:
        """Note that the daemon hangs; the longer it has done so, the longer it is avoided."""
        self._next_try_s = time.monotonic() + RETRY_AFTER_HANG_S * (1 << min(self._hangs, 5))
        self._hangs += 1

    def say(self, text: str) -> None:
        """Write a line on stderr, once until things change."""
        if text not in self._said:
            self._said.add(text)
            try:
                sys.stderr.write(f"{self._program}: {text}\n")
                sys.stderr.flush()
            except OSError:
                pass  # nobody reads it; the protocol goes on

    def _try(self, path: str) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(CONNECT_TIMEOUT_S)
            link.connect(path)
            answer = self._attach(link)
        except TimeoutError:
            self.say(f"the daemon at {path} does not answer")
            self.avoid_for_a_while()
            answer = None
        except (OSError, ValueError):
            answer = None
        if answer is None or not self._suits(answer):
            link.close()
            return None
        link.setblocking(False)
        return link

    def _attach(self, link: socket.socket) -> dict[str, object]:
        params = {
            "client": "ambient mcp",
            "version": __version__,
            "root": self._root,
            "toolsets": list(self._toolsets),
        }
        request = {"jsonrpc": "2.0", "id": 0, "method": "ambient/attach", "params": params}
        answer = dial.exchange(link, wire.encode(request), ATTACH_TIMEOUT_S).get("result")
        if not isinstance(answer, dict):
            raise ValueError("attach was refused")
        return answer

    def _suits(self, answer: dict[str, object]) -> bool:
        version = str(answer.get("version"))
        if version.split(".")[:2] != __version__.split(".")[:2]:
            self.say(f"the daemon is version {version}, this is {__version__}; restart the service")
        offered = answer.get("toolsets")
        known = offered if isinstance(offered, list) else []
        missing = [name for name in self._toolsets if name not in known]
        if missing:
            self.say(f"the daemon has no toolset {', '.join(missing)}; restart the service")
        theirs = str(answer.get("root"))
        if self._root is None:
            # Also when it goes: what it served is what is being read.
            self._root_of_last_resort = theirs
        elif os.path.realpath(theirs) != os.path.realpath(self._root):
            self.say(
                f"the daemon serves {theirs}, not {self._root}; reading {self._root} without it "
                "(AMBIENT_HOME and the setting `root` must be the same for both)"
            )
            return False
        return True
