"""Ambient: live speech to text on this machine, readable over MCP.

This file must stay free of imports: the clients load it on their way to the daemon.
"""

__version__ = "0.1.0"
