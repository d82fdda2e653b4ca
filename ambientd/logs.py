"""The daemon's log: stderr, one line an event, ``time level name key=value ...``.

Names, ids, lengths and times only; a spoken word never gets here.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys

_LOGGER = logging.getLogger("ambientd")


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = f"{stamp} {record.levelname.lower()} {record.getMessage()}"
        if record.exc_info:
            # A traceback spans lines; folded, it stays one event.
            line += " traceback=" + json.dumps(self.formatException(record.exc_info))
        return line


def configure(level: str) -> None:
    """Send the log to stderr.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # The level is for our own events; of the libraries' only the warnings matter.
    root.setLevel(logging.WARNING)
    _LOGGER.setLevel(level.upper())


def event(
    name: str, *, level: int = logging.INFO, exc_info: bool = False, **fields: object
) -> None:
    """Log one event.

    Args:
        name: ``noun.verb``, for example ``session.started``.
        level: a ``logging`` level.
        exc_info: whether to add the current exception's traceback.
        fields: what belongs to it; strings with blanks are quoted.
    """
    if not _LOGGER.isEnabledFor(level):
        return
    words = [name, *(f"{key}={_value(value)}" for key, value in fields.items())]
    _LOGGER.log(level, "%s", " ".join(words), exc_info=exc_info)


def _value(value: object) -> str:
    text = str(value)
    if not text or any(sign.isspace() or sign in '"=' or not sign.isprintable() for sign in text):
        return json.dumps(text)
    return text
