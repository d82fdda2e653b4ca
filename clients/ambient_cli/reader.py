"""Calls the MCP tools as an assistant would: of the daemon, or on the files while none answers."""

from __future__ import annotations

import json
from typing import Any

from ambient_cli.link import Finder, NoRootError
from ambientd import dial, wire

ANSWER_TIMEOUT_S = 15.0


class ReadError(Exception):
    """A tool refused or failed; its text is for people."""


class Reader:
    """One command's view of the sessions."""

    def __init__(self) -> None:
        self._finder = Finder("ambient")
        self._link = self._finder.connect()
        self._next_id = 0

    def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return the text of its answer.

        Raises:
            ReadError: it refused or failed.
        """
        self._next_id += 1
        params = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": self._next_id, "method": "tools/call", "params": params}
        answer = self._ask(wire.encode(request))
        if "error" in answer:
            raise ReadError(answer["error"]["message"])
        text = str(answer["result"]["content"][0]["text"])
        if answer["result"]["isError"]:
            raise ReadError(text)
        return text

    def value(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return the JSON value of its answer."""
        return json.loads(self.text(tool, **arguments))

    def _ask(self, line: bytes) -> dict[str, Any]:
        if self._link is not None:
            try:
                return dial.exchange(self._link, line, ANSWER_TIMEOUT_S)
            except (OSError, ValueError):
                # It stopped under our hands; what it would have read is still there.
                self._link.close()
                self._link = None
        from pathlib import Path

        from ambientd import mcp

        try:
            answer = mcp.handle(line, Path(self._finder.known_root()))
        except NoRootError as error:
            raise ReadError(str(error)) from None
        if answer is None:
            raise ReadError("the request was not answered")
        return answer
