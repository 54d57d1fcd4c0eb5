"""Answers of the API to members of consumer groups, as values, in the way of `models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tagcast_client.received import Received


@dataclass(frozen=True, slots=True)
class Pulled(Received):
    """A pulled message: the fields of a push, and the *receipt_handle* of this pull.

    Code that handles a `Received` handles it, too.
    """

    content_type: str | None
    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    ordering_key: str | None
    accepted_at: datetime
    expires_at: datetime
    receipt_handle: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Handle:
    """Outcome of a request for one receipt handle.

    *status*: acknowledged, returned or extended; already_acknowledged, over (it ended otherwise), expired (its time was
    over) or unknown (no handle of this group) if nothing was changed. Once extended, *new_receipt_handle* stands for
    the pull.
    """

    receipt_handle: str
    status: str
    new_receipt_handle: str | None = None
