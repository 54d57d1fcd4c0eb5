"""What the API answers to members of pull groups, as values, in the way of `models`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Pulled:
    """A message that a member of a group pulled; *receipt_handle* stands for this pull."""

    topic: str
    subscription: str
    message_id: str
    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    ordering_key: str | None
    content_type: str | None
    accepted_at: datetime
    expires_at: datetime
    attempt: int
    receipt_handle: str
    body: str | None = None
    body_base64: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    replay_of: str | None = None

    @property
    def content(self) -> bytes:
        """The body as it was published."""
        return base64.b64decode(self.body_base64) if self.body_base64 is not None else (self.body or "").encode()

    @property
    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.content.decode()

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class Handle:
    """What became of one receipt handle.

    *status*: acknowledged, returned or extended; already_acknowledged, over (it ended otherwise), expired (its time was
    over) or unknown (no handle of this group) if nothing was changed. Once extended, *new_receipt_handle* stands for
    the pull.
    """

    receipt_handle: str
    status: str
    new_receipt_handle: str | None = None
