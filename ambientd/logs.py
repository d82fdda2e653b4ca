"""The daemon's log: stderr, one line an event, ``time level name key=value ...``.

Names, ids, lengths and times only; a spoken word never gets here.
"""

from __future__ import annotations

import atexit
import datetime
import json
import logging
import queue
import sys
import threading
import time

MAX_WAITING_LINES = 1000
LAST_LINES_S = 1.0
"""How long the last lines may take when the daemon ends."""

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


class _Relay(logging.Handler):
    """Hands lines to a thread that writes them: a stderr nobody reads must not stop the daemon.

    Lines that find the queue full are dropped, and their number is said when it goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(MAX_WAITING_LINES)
        self._dropped = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()
        atexit.register(self.flush)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record) + "\n")
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        deadline_s = time.monotonic() + LAST_LINES_S
        while self._lines.unfinished_tasks and time.monotonic() < deadline_s:
            time.sleep(0.005)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            dropped, self._dropped = self._dropped, 0
            try:
                if dropped:
                    sys.stderr.write(f"... {dropped} lines were dropped\n")
                sys.stderr.write(line)
                sys.stderr.flush()
            except (OSError, ValueError):
                pass  # nobody reads it
            self._lines.task_done()


def configure(level: str) -> None:
    """Send the log to stderr.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    handler = _Relay()
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
