"""Where the sessions are, for a client. Without the settings table where nothing needs it."""

from __future__ import annotations

import os

from ambientd import wire


def named() -> str | None:
    """Return the sessions folder that the environment or the settings name, None if none does.

    Raises:
        ambientd.errors.SettingsError: the settings cannot be used.
    """
    home = os.path.expanduser(os.environ.get("AMBIENT_HOME", ""))
    if os.path.isabs(home):
        return os.path.realpath(home)
    is_configured = os.environ.get("AMBIENT_CONFIG") or os.path.exists(wire.config_file())
    if not home and not is_configured:
        return None
    from ambientd import settings

    values = settings.load()
    return str(settings.sessions_root(values)) if values.optional_text("root") else None


def default() -> str:
    """Return the sessions folder when nobody names one."""
    return os.path.realpath(wire.default_root())
