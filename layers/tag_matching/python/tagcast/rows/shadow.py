"""Rows of shadows. The registry has the candidate filter; the messages table has its counts and samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import cast
from zlib import crc32

from tagcast.model import Message
from tagcast.ports import World
from tagcast.rows.codec import Codec, RowPart, row_format
from tagcast.rows.keys import shadow_count_key, shadow_key, shadow_sample_key
from tagcast.rows.message import ttl_after
from tagcast.tables import Delete, Put, Table, Update

COUNT_SHARDS = 4
COUNTS_LIFE_S = 30 * 86_400
SLOTS = 50


class Comparison(StrEnum):
    """Which of the two filters, the active one and the shadow, matched a message. ERRORS: the shadow failed."""

    BOTH = "both"
    ONLY_ACTIVE = "only_active"
    ONLY_SHADOW = "only_shadow"
    NEITHER = "neither"
    ERRORS = "errors"


DIFFERENCES = (Comparison.ONLY_ACTIVE, Comparison.ONLY_SHADOW)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A candidate filter that is compared with a subscription's active filter.

    *filter* is the candidate; None matches every message. *since* is the time of the shadow's creation.
    *shadow_version* is unique. It is the ``subscriptions_version`` of the topic just after the creation.
    """

    topic: str
    name: str
    ordinal: int
    filter: Mapping[str, object] | None
    shadow_version: int
    since: int

    def observations(self, active: Mapping[str, object] | None) -> str:
        """Return the partition key of the counts and samples of this shadow and the *active* filter.

        Each pair of filters has its own partition.
        """
        against = sha256(json.dumps(active, sort_keys=True).encode()).hexdigest()[:16]
        return f"SHADOW#{self.topic}#{self.name}#{self.shadow_version}#{against}"


SHADOWS = row_format(
    shadow_key,
    Codec(
        Shadow,
        {
            "filter": RowPart(
                lambda filter: {"filter": json.dumps(filter, sort_keys=True)},  # None is stored as null.
                lambda row: json.loads(row["filter"]),
            )
        },
    ),
)


def shadow_delete(shadow: Shadow) -> Delete:
    """Return the write that deletes a shadow. It fails if another shadow has replaced this one."""
    return Delete(shadow_key(shadow.topic, shadow.name), {"shadow_version": shadow.shadow_version})


def counts_update(partition: str, counts: Mapping[Comparison, int], message_id: str, now: int) -> Update:
    """Return the write that adds *counts* to one shard of *partition* (:meth:`Shadow.observations`).

    *message_id* is the id of any counted message; it selects the shard.
    """
    shard = crc32(message_id.encode()) % COUNT_SHARDS
    added = {comparison.value: count for comparison, count in counts.items() if count}
    return Update(shadow_count_key(partition, shard), {"ttl": now // 1000 + COUNTS_LIFE_S}, add=added)


def sample_put(partition: str, comparison: Comparison, message: Message) -> Put:
    """Return the write that stores a sample: a message on which the two filters differ.

    The write replaces the sample in one of the 50 slots for *comparison*. The sample expires with the message's
    receipt.
    """
    slot = crc32(message.message_id.encode()) % SLOTS
    sample = {"way": comparison.value, "message_id": message.message_id, "ttl": ttl_after(message.expires_at)}
    return Put(shadow_sample_key(partition, comparison.value, slot), sample)


def read_observations(world: World, partition: str) -> tuple[dict[Comparison, int], tuple[tuple[str, Comparison], ...]]:
    """Return the counts of *partition*, and its samples as pairs of message id and comparison, newest first."""
    counts = dict.fromkeys(Comparison, 0)
    samples: list[tuple[str, Comparison]] = []
    for row in world.store.query(Table.MESSAGES, partition):
        if "message_id" in row:
            samples.append((cast("str", row["message_id"]), Comparison(cast("str", row["way"]))))
            continue
        for comparison in counts:
            counts[comparison] += cast("int", row.get(comparison.value, 0))
    return counts, tuple(sorted(samples, reverse=True))
