"""Where the sessions are, for a client."""

from __future__ import annotations

import os

from ambientd import wire


def sessions_root() -> str:
    """Return the sessions folder, without the settings table where nothing needs it.

    Raises:
        ambientd.errors.SettingsError: the settings cannot be used.
    """
    named = os.path.expanduser(os.environ.get("AMBIENT_HOME", ""))
    if os.path.isabs(named):
        return os.path.realpath(named)
    is_configured = os.environ.get("AMBIENT_CONFIG") or os.path.exists(wire.config_file())
    if not named and not is_configured:
        return os.path.realpath(wire.default_root())
    from ambientd import settings

    return str(settings.sessions_root(settings.load()))
