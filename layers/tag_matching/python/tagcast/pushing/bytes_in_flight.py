"""How much memory the pushes under way take: a content that many of them share counts once."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.model import ContentFormat, Message, Protocol, Subscription
from tagcast.pushing.envelope import content

BYTES_MAX = 64 * 1024 * 1024
SURE_BYTES_MAX = 4 * 1024
"""Below this a content is not encoded only to learn its size."""
ESCAPED_MAX = 6
"""JSON makes at most so many bytes of one."""
COPIES = 6
"""AWS's SDK holds about so many copies of what one call sends."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one push needs in memory; pushes of the same *key* share it."""

    key: tuple[str, ...]
    size: int


NOTHING = Load((), 0)


class BytesInFlight:
    """Counts the loads under way. A load that is larger than everything allowed goes alone."""

    def __init__(self, total: int = BYTES_MAX) -> None:
        self._total = total
        self._used = 0
        self._holders: dict[tuple[str, ...], int] = {}
        self._sizes: dict[tuple[str, ContentFormat], int] = {}

    def load_of(self, subscription: Subscription, message: Message) -> Load:
        """Return the load of a push: over HTTP all pushes of a message in one format share the content."""
        content_format = subscription.settings.content_format
        size = self._size(message, content_format)
        if subscription.settings.endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
            return Load((message.message_id, content_format.value), size)
        return Load((message.message_id, content_format.value, subscription.subscription_id), COPIES * size)

    def fits(self, load: Load) -> bool:
        """Say whether *load* may be added now."""
        return load.key in self._holders or self._used == 0 or self._used + load.size <= self._total

    def add(self, load: Load) -> None:
        """Count one more holder of *load*."""
        holders = self._holders.get(load.key, 0)
        self._holders[load.key] = holders + 1
        self._used += 0 if holders else load.size

    def remove(self, load: Load) -> bool:
        """Count one holder less, and say whether it was the last."""
        holders = self._holders.pop(load.key)
        if holders > 1:
            self._holders[load.key] = holders - 1
            return False
        self._used -= load.size
        return True

    def _size(self, message: Message, content_format: ContentFormat) -> int:
        body = len(message.draft.body)
        if body <= SURE_BYTES_MAX:
            return ESCAPED_MAX * body
        key = message.message_id, content_format
        if key not in self._sizes:
            self._sizes[key] = len(content(message, content_format).octets)
        return self._sizes[key]
