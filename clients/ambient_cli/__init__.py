"""`ambient`: reads and keeps sessions; `ambient mcp` is the MCP shim."""
