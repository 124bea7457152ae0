"""Times as people write them on a command line, and as commands print them.

A moment is an ISO 8601 date or time, of this machine's time zone unless it names another, or how long ago it was: `10m`,
`2h30m`. A duration is such a sum of numbers with units, or seconds without one.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from ether_broker.errors import UsageError

__all__ = ["moment_text", "parse_duration", "parse_moment"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_NO_YEAR: Final = 253_370_764_800
"""Seconds from 1970 to the year 9999, the last that `datetime` has, and whose end is in another one in some time zones."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_duration(text: str, option: str) -> float:
    """Seconds of a duration such as `7d`, `1h30m`, `1.5s` or `90`.

    Raises:
        UsageError: it is none.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        msg = f"{option} is {text!r} and has to be a duration: a number with ms, s, m, h, d or w, as in 7d or 1h30m."
        raise UsageError(msg)
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def parse_moment(text: str, option: str, now: float | None = None) -> float:
    """Seconds since 1970 in UTC of a moment, such as `2026-11-22T10:30`, `2026-11-22`, `10:30` or `10m` (ago).

    A time alone is today's. A `+` or `Z` behind a time names its zone.

    Raises:
        UsageError: it is none.
    """
    now = time.time() if now is None else now
    text = text.strip()
    if _DURATION.fullmatch(text):
        return now - parse_duration(text, option)
    for candidate in (text, f"{datetime.fromtimestamp(now, UTC).astimezone():%Y-%m-%d}T{text}"):
        try:
            return datetime.fromisoformat(candidate).timestamp()
        except (ValueError, OverflowError):
            continue
    raise UsageError(
        f"{option} is {text!r} and has to be a time, as in 2026-11-22T10:30 or 10:30, or how long ago, as in 10m or 2h."
    )


def moment_text(seconds: float, *, now: float | None = None) -> str:
    """A time of day for people, in this machine's time zone, to the millisecond; one word that `parse_moment` reads.

    Args:
        seconds: since 1970 in UTC.
        now: leave out the date if it is the same day as this; None always writes it.

    Returns:
        Of what is in no calendar, as a peer may say it, the seconds.
    """
    if not 0 <= seconds < _NO_YEAR:
        return f"{seconds:g} s"
    moment = datetime.fromtimestamp(seconds, UTC).astimezone()
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    if now is not None and moment.date() == datetime.fromtimestamp(now, UTC).astimezone().date():
        return text.partition("T")[2]
    return text
