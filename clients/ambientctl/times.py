"""Lengths and times of day as people write them."""

from __future__ import annotations

import argparse
import datetime
import re

DEFAULT_TEXT = "2h"
DEFAULT = datetime.timedelta(hours=2)
LONGEST = datetime.timedelta(days=7)

_UNITS = {"h": "hours", "m": "minutes", "s": "seconds"}


def length(text: str) -> datetime.timedelta:
    """Return a length such as ``2h``, ``90m`` or ``1h30m``.

    Raises:
        argparse.ArgumentTypeError: it is none, or above a week.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no length; write 2h, 90m or 1h30m")
    total = sum(
        (datetime.timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts),
        datetime.timedelta(),
    )
    if not datetime.timedelta() < total <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie between 0 and 7 days")
    return total


def next_at(text: str, now: datetime.datetime | None = None) -> datetime.datetime:
    """Return when it is next such a time of day.

    Args:
        text: ``HH:MM``.
        now: the time, with an offset; the present by default.

    Raises:
        argparse.ArgumentTypeError: it is no time of day.
    """
    now = datetime.datetime.now().astimezone() if now is None else now
    try:
        wanted = datetime.time.fromisoformat(text) if re.fullmatch(r"\d\d:\d\d", text) else None
    except ValueError:
        wanted = None
    if wanted is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time of day; write 18:00")
    day = now.date() if wanted > now.time() else now.date() + datetime.timedelta(days=1)
    # Local time, with the offset of then: summer time may begin or end in between.
    return datetime.datetime.combine(day, wanted).astimezone()


def after(length: datetime.timedelta) -> datetime.datetime:
    """Return when a length from now has passed."""
    return (datetime.datetime.now(datetime.UTC) + length).astimezone()


def until(text: str | None) -> str:
    """Return an end as the daemon tells it, for people."""
    if text is None:
        return "until ambientctl disarm"
    end = datetime.datetime.fromisoformat(text).astimezone()
    is_today = end.date() == datetime.date.today()  # noqa: DTZ011 - the person's own day
    return f"until {end:%H:%M}" if is_today else f"until {end:%Y-%m-%d %H:%M}"
