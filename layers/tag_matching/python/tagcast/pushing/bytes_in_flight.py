"""How much memory the requests under way take: a content that many of them share counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tagcast.model import ContentFormat, Message, Protocol, Push, Subscription
from tagcast.pushing.batch_form import item_bytes
from tagcast.pushing.envelope import content

BYTES_MAX = 64 * 1024 * 1024
SURE_BYTES_MAX = 4 * 1024
"""Below this a content is not encoded only to learn its size."""
ESCAPED_MAX = 6
"""JSON makes at most so many bytes of one."""
COPIES = 6
"""AWS's SDK holds about so many copies of what one call sends."""
ITEM_BYTES_AROUND = 256
"""In a batch no name, number or comma around a message takes more."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one push needs in memory; pushes of the same *key* share it."""

    key: tuple[str, ...]
    size: int


class BytesInFlight:
    """Counts the loads under way. A load that is larger than everything allowed goes alone."""

    def __init__(self, total: int = BYTES_MAX) -> None:
        self._total = total
        self._used = 0
        self._holders: dict[tuple[str, ...], int] = {}
        self._sizes: dict[tuple[str, ContentFormat], int] = {}
        self._items: dict[tuple[str, ContentFormat, Protocol], int] = {}

    def load_of(self, subscription: Subscription, message: Message) -> Load:
        """Return the load of a push: over HTTP all pushes of a message in one format share the content."""
        settings = subscription.settings
        if settings.batching is None:
            form, size = settings.content_format.value, self._size(message, settings.content_format)
        else:
            form, size = f"{settings.content_format.value} item", self.item_size(subscription, message)
        if settings.endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
            return Load((message.message_id, form), size)
        return Load((message.message_id, form, subscription.subscription_id), COPIES * size)

    def item_size(self, subscription: Subscription, message: Message) -> int:
        """Return how many bytes *message* takes in a batch, or slightly more."""
        key = message.message_id, subscription.settings.content_format, subscription.settings.endpoint.protocol
        if key not in self._items:
            self._items[key] = item_bytes(Push(subscription, message, 1)) + ITEM_BYTES_AROUND
        return self._items[key]

    def fits(self, loads: Sequence[Load]) -> bool:
        """Say whether *loads* may be added now."""
        added = sum(load.size for load in loads if load.key not in self._holders)
        return not added or self._used == 0 or self._used + added <= self._total

    def add(self, loads: Sequence[Load]) -> None:
        """Count one more holder of each of *loads*."""
        for load in loads:
            holders = self._holders.get(load.key, 0)
            self._holders[load.key] = holders + 1
            self._used += 0 if holders else load.size

    def remove(self, loads: Sequence[Load]) -> bool:
        """Count one holder less of each, and say whether it was the last of any."""
        was_last = False
        for load in loads:
            holders = self._holders.pop(load.key)
            if holders > 1:
                self._holders[load.key] = holders - 1
            else:
                self._used -= load.size
                was_last = True
        return was_last

    def _size(self, message: Message, content_format: ContentFormat) -> int:
        body = len(message.draft.body)
        if body <= SURE_BYTES_MAX:
            return ESCAPED_MAX * body
        key = message.message_id, content_format
        if key not in self._sizes:
            self._sizes[key] = len(content(message, content_format).octets)
        return self._sizes[key]
