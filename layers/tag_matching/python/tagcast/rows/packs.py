"""The packs that the last message of a request carries in its row, so that the relay sends what the publisher sent."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from tagcast.ports import QueueEntry
from tagcast.queues import Audience, own_group
from tagcast.rows import ordinals

_NONE = zlib.compress(b"[]")


def to_bytes(packs: Sequence[QueueEntry]) -> bytes:
    """Return entries of one topic deflated, as a row keeps them: the ids of a request have most digits in common.

    Entries for sections of one message are kept together, as a set of numbers.

    >>> ids = [f"{7 * 10**18 + each:020d}" for each in range(96)]
    >>> len(to_bytes([QueueEntry("t", ids[0], "g", Audience.IN_ORDER, tuple(ids[1:]))])) < 400
    True
    >>> len(to_bytes([QueueEntry("t", each, "g", section=number) for each in ids for number in range(100)])) < 1_200
    True
    """
    if not packs:
        return _NONE
    said: list[Any] = []
    sections: dict[tuple[str, str, str], list[int]] = {}
    for entry in packs:
        if entry.section is None:
            said.append((entry.group, entry.audience.value, *entry.message_ids))
            continue
        key = (entry.group if entry.has_order else "", entry.audience.value, entry.message_id)
        if key not in sections:
            said.append(key)
        sections.setdefault(key, []).append(entry.section)
    return zlib.compress(json.dumps([_wide(each, sections) if each in sections else each for each in said]).encode())


def _wide(key: tuple[str, str, str], sections: dict[tuple[str, str, str], list[int]]) -> dict[str, str]:
    group, audience, message_id = key
    packed = ordinals.pack(sections[key]).hex()
    return {"group": group, "audience": audience, "message_id": message_id, "sections": packed}


def of_bytes(packs: bytes, topic: str) -> tuple[QueueEntry, ...]:
    """Return the entries that :func:`to_bytes` was given."""
    return tuple(entry for each in json.loads(zlib.decompress(packs)) for entry in _entries(each, topic))


def _entries(said: Any, topic: str) -> Iterator[QueueEntry]:
    if isinstance(said, list):
        group, audience, first, *others = said
        yield QueueEntry(topic, first, group, Audience(audience), tuple(others))
        return
    message_id, audience = said["message_id"], Audience(said["audience"])
    for section in sorted(ordinals.unpack(bytes.fromhex(said["sections"]))):
        group = said["group"] or own_group(message_id, section)
        yield QueueEntry(topic, message_id, group, audience, section=section)
