"""The MCP tools, a file a toolset."""
