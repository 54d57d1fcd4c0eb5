"""The start of a new group, in requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from tagcast.instant import parse, rfc3339

from tagcast_aws.api import limits

LATEST, EARLIEST = "latest", "earliest"
FROM_EARLIEST = 0


def _check_start(text: str) -> str:
    try:
        show_start(instant_of(text))
    except (ValueError, OverflowError):
        raise PydanticCustomError("start_from", f"must be {LATEST}, {EARLIEST}, or an instant of RFC 3339") from None
    return text


StartFrom = Annotated[
    str, AfterValidator(_check_start), Field(json_schema_extra={"pattern": limits.START_FROM, "format": "start-from"})
]
"""``latest``, ``earliest``, or an instant. A new group also gets the kept messages accepted since that start."""


def instant_of(text: str | None) -> int | None:
    """Return the instant in *text* in milliseconds since 1970.

    0 means the earliest message, and None means no older messages.

    >>> instant_of("latest"), instant_of("earliest"), instant_of("1970-01-01T00:00:01Z")
    (None, 0, 1000)
    """
    if text is None or text == LATEST:
        return None
    return FROM_EARLIEST if text == EARLIEST else max(FROM_EARLIEST, parse(text))


def show_start(instant: int | None) -> str:
    """Return the start of a group in the API's form.

    >>> show_start(None), show_start(0), show_start(1_000)
    ('latest', 'earliest', '1970-01-01T00:00:01.000Z')
    """
    if instant is None:
        return LATEST
    return EARLIEST if instant == FROM_EARLIEST else rfc3339(instant)
