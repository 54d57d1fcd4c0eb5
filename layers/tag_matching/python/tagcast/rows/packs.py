"""The packs that the last message of a request carries in its row, so that the relay sends what the publisher sent."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from tagcast.ports import QueueEntry
from tagcast.queues import Audience

_NONE = zlib.compress(b"[]")


def to_bytes(packs: Sequence[QueueEntry]) -> bytes:
    """Return entries of one topic deflated, as a row keeps them: the ids of a request have most digits in common.

    >>> ids = [f"{7 * 10**18 + each:020d}" for each in range(96)]
    >>> len(to_bytes([QueueEntry("t", ids[0], "g", Audience.IN_ORDER, tuple(ids[1:]))])) < 400
    True
    """
    if not packs:
        return _NONE
    said = [(entry.group, entry.audience.value, *entry.message_ids) for entry in packs]
    return zlib.compress(json.dumps(said).encode())


def of_bytes(packs: bytes, topic: str) -> tuple[QueueEntry, ...]:
    """Return the entries that :func:`to_bytes` was given."""
    said = json.loads(zlib.decompress(packs))
    return tuple(
        QueueEntry(topic, first, group, Audience(audience), tuple(others)) for group, audience, first, *others in said
    )
