"""The attributes of a message's row by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class MessageAttributes(TypedDict, total=False):
    """The attributes of a message's row as they are read; the first ten are always there (no *pending* in sections)."""

    topic: str
    message_id: str
    is_text: int
    accepted_at: int
    expires_at: int
    subscriptions_version: int
    matched: bytes
    pending: int
    round: str
    version: int
    body: bytes
    deflated: bytes
    tags: Sequence[str]
    routing_key: str
    properties: Mapping[str, str]
    ordering_key: str
    content_type: str
    trace: str
    replay_of: str
    unordered: int
    in_order: bytes
    packs: bytes
    kept: int
    filter_errors: Sequence[str]
    filter_error_count: int
    owed: bytes
    handed: bytes
    over: bytes
    late: str
    round_at: int
    finished: bytes
    finishes: bytes
    exceptions: str
    ended: bytes
    histories: bytes
    bounds: bytes
