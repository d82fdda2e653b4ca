"""Drives a server with the official Python SDK's client and prints what it saw as JSON.

Runs under whichever SDK its interpreter has (1.x or 2.x): python drive.py COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def drive(command: str, arguments: list[str]) -> dict[str, Any]:
    ours = {key: value for key, value in os.environ.items() if key.startswith("AMBIENT_")}
    server = StdioServerParameters(command=command, args=arguments, env=ours)
    seen: dict[str, Any] = {"client": f"mcp {version('mcp')}"}
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        started = await client.initialize()
        info = getattr(started, "serverInfo", None) or getattr(started, "server_info", None)
        seen["server"] = info.name if info else None
        tools = (await client.list_tools()).tools
        seen["tools"] = [tool.name for tool in tools]
        for name, given in (
            ("status", {}),
            ("sessions", {}),
            ("transcript", {"session": "talk", "since": 1}),
        ):
            result = await client.call_tool(name, given)
            seen[name] = json.loads(result.content[0].text)  # type: ignore[union-attr]
        failed = await client.call_tool("transcript", {"session": "nope"})
        is_error = getattr(failed, "isError", None)
        seen["failed"] = failed.is_error if is_error is None else is_error
        try:
            await client.call_tool("transcript", {"session": "talk", "since": "1"})
        except Exception as error:  # noqa: BLE001 - each SDK has its own class
            seen["refused"] = getattr(getattr(error, "error", error), "code", None)
        await client.send_ping()
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(drive(sys.argv[1], sys.argv[2:]))))
