"""The toolsets there are, and the one that every client gets."""

from __future__ import annotations

from ambientd.tools import control, sessions
from ambientd.tools.registry import Toolset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ALL = (sessions.TOOLSET, control.TOOLSET)
DEFAULT = (sessions.TOOLSET,)


def chosen(names: Iterable[object]) -> tuple[Toolset, ...]:
    """Return the toolsets of some names; a name that is none is left out."""
    wanted = list(names)
    return tuple(toolset for toolset in ALL if toolset.name in wanted)
