"""Instants in requests: always with an offset from UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def instant(value: str | datetime) -> str:
    """Return an instant in the API's form; a word such as ``earliest`` is unchanged.

    Raises ValueError if the instant has no offset.

    >>> instant(datetime(2027, 1, 15, 8, tzinfo=UTC)), instant("2027-01-15T09:00:00+01:00"), instant("latest")
    ('2027-01-15T08:00:00.000Z', '2027-01-15T09:00:00+01:00', 'latest')
    >>> instant(datetime(2027, 1, 15, 8))
    Traceback (most recent call last):
        ...
    ValueError: 2027-01-15T08:00:00 has no time zone: add one, such as datetime(…, tzinfo=UTC) or 2027-01-15T08:00:00Z
    """
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)  # Any other word; the API checks it.
    if parsed.utcoffset() is None:
        text = parsed.isoformat()
        raise ValueError(f"{text} has no time zone: add one, such as datetime(…, tzinfo=UTC) or {text}Z")
    if isinstance(value, str):
        return value
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_default(value: object) -> Any:
    """Return an instant or a message of the client as a JSON value. Pass this function to ``json.dumps`` as *default*.

    Raises TypeError for any other value, and ValueError for an instant without an offset.

    >>> json_default(datetime(2027, 1, 15, 8, tzinfo=UTC))
    '2027-01-15T08:00:00.000Z'
    """
    if isinstance(value, datetime):
        return instant(value)
    as_json = getattr(value, "as_json", None)
    if as_json is None:
        raise TypeError(f"{value!r} cannot be written as JSON")
    return as_json()
