"""The Model Context Protocol over newline-delimited JSON-RPC, stateless line by line.

Written by hand on the standard library: `ambient mcp` must be up in a moment, malformed lines must
get their answer, and no answer may be lost at the end of input. The daemon, the client without a
daemon and the tests all call the same ``handle``.
"""

from ambientd.mcp.engine import (
    answer,
    call_for_daemon,
    handle,
    is_read_only,
    reads_disk,
    serve,
    tool_failure,
    tool_success,
)

__all__ = [
    "answer",
    "call_for_daemon",
    "handle",
    "is_read_only",
    "reads_disk",
    "serve",
    "tool_failure",
    "tool_success",
]
