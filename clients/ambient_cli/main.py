"""Entry point of `ambient`.

`ambient mcp` is dispatched before anything else is imported: an MCP client starts one for each of
its windows and waits for it.
"""

from __future__ import annotations

import sys

from ambientd import __version__, descriptors, wire

USAGE = """\
usage: ambient mcp
       ambient --help | --version

  mcp   serve the sessions to an MCP client on stdin and stdout

The sessions are those of the running ambientd; while none runs they are read from
$AMBIENT_HOME, else the setting `root`, else {root}.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    descriptors.fill_standard()
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["mcp"]:
        from ambient_cli import shim

        return shim.main()
    if arguments in (["--version"], ["-V"]):
        _say(f"ambient {__version__}\n")
        return wire.EXIT_OK
    usage = USAGE.format(root=wire.default_root())
    if arguments and arguments[-1] in ("--help", "-h") and arguments[:-1] in ([], ["mcp"]):
        _say(usage)
        return wire.EXIT_OK
    problem = "no verb given" if not arguments else f"cannot do {' '.join(arguments)!r}"
    sys.stderr.write(f"ambient: {problem}\n{usage}")
    return wire.EXIT_USAGE


def _say(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has what it wanted; keep the interpreter from complaining at exit.
        sys.stdout = None


if __name__ == "__main__":
    raise SystemExit(main())
