"""Entry point of `ambient`.

`ambient mcp` is dispatched before anything else is imported: an MCP client starts one for each of
its windows and waits for it.
"""

from __future__ import annotations

import sys

from ambientd import descriptors


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    descriptors.prepare_standard()
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["mcp"]:
        from ambient_cli import shim

        return shim.main()
    from ambient_cli import commands

    return commands.main(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
