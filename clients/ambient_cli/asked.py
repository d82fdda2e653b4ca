"""What a client needs of the settings. Without the settings table where nothing needs it."""

from __future__ import annotations

import os

from ambientd import wire

DEFAULT_TOOLSETS = ("sessions",)


def named() -> str | None:
    """Return the sessions folder that the environment or the settings name, None if none does.

    Raises:
        ambientd.errors.SettingsError: the settings cannot be used.
    """
    home = os.path.expanduser(os.environ.get("AMBIENT_HOME", ""))
    if os.path.isabs(home):
        return os.path.realpath(home)
    if not home and not _is_configured():
        return None
    from ambientd import settings

    values = settings.load()
    return str(settings.sessions_root(values)) if values.optional_text("root") else None


def default() -> str:
    """Return the sessions folder when nobody names one."""
    return os.path.realpath(wire.default_root())


def toolsets(flag: str | None) -> tuple[str, ...]:
    """Return the toolsets that an assistant is offered.

    Args:
        flag: what the command line says; None if it says nothing.

    Raises:
        ambientd.errors.SettingsError: there is no such toolset, or the settings cannot be used.
    """
    if flag is None and not _says_toolsets():
        return DEFAULT_TOOLSETS
    from ambientd import settings

    values = settings.load({} if flag is None else {"mcp.toolsets": flag})
    return tuple(values.text("mcp.toolsets").split(","))


def _is_configured() -> bool:
    return bool(os.environ.get("AMBIENT_CONFIG")) or os.path.exists(wire.config_file())


def _says_toolsets() -> bool:
    """Tell whether the settings may name toolsets; what cannot be read is found out elsewhere."""
    if os.environ.get("AMBIENT_MCP_TOOLSETS"):
        return True
    try:
        with open(wire.config_file(), "rb") as file:
            return b"toolsets" in file.read()
    except OSError:
        return False
