"""Instants as text: RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def rfc3339(instant: int) -> str:
    """Return *instant* (milliseconds since 1970 UTC) as text of constant width.

    >>> rfc3339(0)
    '1970-01-01T00:00:00.000Z'
    >>> rfc3339(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return (_EPOCH + instant * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(instant: int | None) -> str | None:
    """Return *instant* (milliseconds since 1970) as text, or None for None.

    >>> rfc3339_or_none(0), rfc3339_or_none(None)
    ('1970-01-01T00:00:00.000Z', None)
    """
    return None if instant is None else rfc3339(instant)


def parse(text: str) -> int:
    """Return the instant in *text* as milliseconds since 1970 UTC, rounded down.

    Raises ``ValueError`` if *text* is not an instant, or has no offset from UTC.

    >>> parse("2023-11-14T22:13:20.123Z")
    1700000000123
    >>> parse("2023-11-14T23:13:20+01:00") == parse("2023-11-14T22:13:20Z")
    True
    >>> parse("2023-11-14T22:13:20")
    Traceback (most recent call last):
    ...
    ValueError: the instant has no offset from UTC
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the instant has no offset from UTC")
    return (moment - _EPOCH) // _MILLISECOND
