"""What a tool is: a descriptor that clients see, and a function that returns its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Tool(NamedTuple):
    """One tool.

    Attributes:
        descriptor: its entry in tools/list.
        run: takes the sessions folder and the arguments object and returns the text of the result.
            Raises wire.Fault for wrong arguments and StoreError when it ran and failed. None for a
            tool that only the daemon can run.
    """

    descriptor: dict[str, Any]
    run: Callable[[str, dict[str, Any]], str] | None

    @property
    def name(self) -> str:
        """The name it is called by."""
        return str(self.descriptor["name"])

    @property
    def read_only(self) -> bool:
        """Whether calling it twice is the same as calling it once."""
        return bool(self.descriptor["annotations"]["readOnlyHint"])


class Toolset(NamedTuple):
    """Tools that are offered together.

    Attributes:
        name: what a client asks for.
        tools: its tools.
        instructions: what an assistant is told about them when it connects.
    """

    name: str
    tools: tuple[Tool, ...]
    instructions: str
