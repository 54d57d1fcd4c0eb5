"""Instants and durations as people read and write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import typer
from tagcast_client import instants

UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
SHAPES = "write 90, 90s, 15m, 12h or 1d"


def seconds_of(text: str) -> int:
    """Parse a duration: whole seconds, or a number with s, m, h or d.

    >>> [seconds_of(t) for t in ("90", "90s", "15m", "12h", "1d")]
    [90, 90, 900, 43200, 86400]

    Raises ValueError for anything else.
    """
    found = re.fullmatch(r"([0-9]{1,9})\s*([smhd]?)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration: {SHAPES}")
    return int(found.group(1)) * UNITS_S[found.group(2)]


def readable_duration(seconds: float) -> str:
    """Return a duration, given in seconds, in its two largest units.

    >>> [readable_duration(s) for s in (0.25, 7, 75, 3600, 86015, 86400)]
    ['0.2 s', '7 s', '1 min 15 s', '1 h', '23 h 53 min', '1 d']
    """
    if seconds < 1:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def rfc3339(milliseconds: int) -> str:
    """Return an instant, in milliseconds since 1970, in the API's format.

    >>> rfc3339(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return instants.instant(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds))


def readable_instant(text: object, now: datetime | None = None) -> str:
    """Return an RFC 3339 instant in UTC with its distance from *now*, by default the current time.

    Any other text is returned unchanged, and None becomes a dash.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> readable_instant("2026-05-01T11:59:30.000Z", noon)
    '11:59:30 UTC (30 s ago)'
    >>> readable_instant("2026-05-02T12:00:00.000Z", noon)
    '2026-05-02 12:00:00 UTC (in 1 d)'
    >>> readable_instant(None), readable_instant("soon")
    ('—', 'soon')
    """
    if not text:
        return "—"
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    now = now or datetime.now(UTC)
    instant = instant.astimezone(UTC)
    shape = "%H:%M:%S UTC" if instant.date() == now.date() else "%Y-%m-%d %H:%M:%S UTC"
    away_s = (instant - now).total_seconds()
    distance = f"in {readable_duration(away_s)}" if away_s > 0 else f"{readable_duration(-away_s)} ago"
    return f"{instant.strftime(shape)} ({distance})"


def _read_duration(text: object, longest_s: int | None) -> int:
    try:
        seconds = seconds_of(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if longest_s is not None and seconds > longest_s:
        raise typer.BadParameter(f"{text} is out of range: 0 s to {readable_duration(longest_s)}")
    return seconds


def duration(*names: str, help: str, longest_s: int | None = None) -> Any:
    """Return a command option for durations such as 90, 90s, 15m, 12h or 1d. Its value is in whole seconds.

    *names* are the option's names. Without *names*, Typer derives one from the parameter. Values above *longest_s* are
    refused; None allows any. *help* must name the default, because Typer would show the default in seconds.
    """
    parser = partial(_read_duration, longest_s=longest_s)
    return typer.Option(*names, parser=parser, metavar="DURATION", help=help, show_default=False)
