"""The keys of all rows of the two tables (docs/tables.md), and the kind of a row by its key."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from hashlib import sha256
from zlib import crc32

from tagcast.rows.values import text
from tagcast.tables import Key, Row, Table

UNSENT_SHARDS = 4
MESSAGE_PARTITION = "MSG#"
"""The prefix of every message's partition key."""
VERSION_MAX = 9_999_999_999
_PLACES = 10**20 - 1


def topic_key(topic: str) -> Key:
    """Return the key of a topic."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", "TOPIC")


def directory_key(topic: str) -> Key:
    """Return the key of a topic's row in the list of all topics."""
    return Key(Table.REGISTRY, "TOPICS", topic)


def counters_key(topic: str) -> Key:
    """Return the key of the counters of a deleted topic."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", "GRAVE")


def subscription_key(topic: str, name: str) -> Key:
    """Return the key of a subscription."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", f"SUB#{name}")


def name_key(topic: str, ordinal: int) -> Key:
    """Return the key of the row with a deleted subscription's name."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", f"NAME#{ordinal:010d}")


def version_key(topic: str, ordinal: int, version: int) -> Key:
    """Return the key of one version of a subscription's filter. Newer versions have lower keys, so they come first."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", f"VERSION#{ordinal:010d}#{VERSION_MAX - version:010d}")


def shadow_key(topic: str, name: str) -> Key:
    """Return the key of the shadow of a subscription."""
    return Key(Table.REGISTRY, f"TOPIC#{topic}", f"SHADOW#{name}")


def secrets_key(topic: str, name: str) -> Key:
    """Return the key of a subscription's secrets. Functions that read the table's stream ignore this partition."""
    return Key(Table.REGISTRY, f"SECRETS#{topic}", name)


def exchange_key(until: int, topic: str, name: str) -> Key:
    """Return the key of a subscription's row in the list of rotated secrets. The list is sorted by *until*.

    The previous secrets expire at *until*.
    """
    return Key(Table.REGISTRY, "EXCHANGED", f"{until:015d}#{topic}#{name}")


def shadow_count_key(partition: str, shard: int) -> Key:
    """Return the key of one shard of a shadow's counts. *partition* is from :meth:`.Shadow.observations`."""
    return Key(Table.MESSAGES, partition, f"COUNTS#{shard}")


def shadow_sample_key(partition: str, way: str, slot: int) -> Key:
    """Return the key of the slot *slot* for a sample: a message on which a shadow and the active filter differ.

    *partition* is from :meth:`.Shadow.observations`. *way* says which of the two filters matched.
    """
    return Key(Table.MESSAGES, partition, f"SAMPLE#{way}#{slot:02d}")


def message_key(topic: str, message_id: str) -> Key:
    """Return the key of a message."""
    return Key(Table.MESSAGES, f"{MESSAGE_PARTITION}{topic}#{message_id}", "MSG")


def round_key(topic: str, message_id: str, section: int, audience: str) -> Key:
    """Return the key of the first round of an audience in one section of a wide message."""
    return Key(Table.MESSAGES, message_key(topic, message_id).pk, f"ROUND#{section:05d}#{audience}")


def end_key(topic: str, message_id: str, ordinal: int) -> Key:
    """Return the key of the end of one delivery."""
    return Key(Table.MESSAGES, message_key(topic, message_id).pk, f"END#{ordinal:010d}")


def enqueued_key(topic: str, message_id: str, ordinal: int) -> Key:
    """Return the key of the row that marks a delivery as moved from its backlog to the queue of its group."""
    return Key(Table.MESSAGES, message_key(topic, message_id).pk, f"ENQUEUED#{ordinal:010d}")


def late_key(topic: str, message_id: str, ordinal: int) -> Key:
    """Return the key of a late entry of a message."""
    return Key(Table.MESSAGES, message_key(topic, message_id).pk, f"LATE#{ordinal:010d}")


def lane_key(topic: str, subscription_id: str) -> Key:
    """Return the key of a lane."""
    return Key(Table.MESSAGES, f"LANES#{topic}", subscription_id)


def due_key(subscription_id: str, position: str, message_id: str) -> Key:
    """Return the key of a due row: a pending delivery in its backlog."""
    return Key(Table.MESSAGES, f"DUE#{subscription_id}", f"{position}#{message_id}")


def rate_key(subscription_id: str) -> Key:
    """Return the key of the rate permits of a subscription."""
    return Key(Table.MESSAGES, f"RATE#{subscription_id}", "RATE")


def pulled_key(topic: str, message_id: str, ordinal: int) -> Key:
    """Return the key of the failed pulls of a delivery to the group with *ordinal*."""
    return Key(Table.MESSAGES, f"PULLED#{topic}#{message_id}", f"{ordinal:010d}")


def member_key(topic: str, group: str, member_id: str) -> Key:
    """Return the key of a member of a group."""
    return Key(Table.MESSAGES, f"MEMBERS#{topic}#{group}", member_id)


def registration_key(topic: str, group: str, subscription: str) -> Key:
    """Return the key of the registration of a *subscription* whose consumers send heartbeats."""
    return Key(Table.MESSAGES, "GROUPS", f"{topic}#{group}#{subscription}")


def sweep_key() -> Key:
    """Return the key of the sweep's progress."""
    return Key(Table.MESSAGES, "SWEEP", "SWEEP")


def signed_key(secret_id: str, signature: str) -> Key:
    """Return the key of an accepted signed request of CMQ."""
    return Key(Table.MESSAGES, f"SIGNED#{secret_id}#{signature}", "SIGNED")


def watch_key(topic: str) -> Key:
    """Return the key of the row that says until when clients watch a topic's tail."""
    return Key(Table.MESSAGES, "WATCHED", topic)


def waiting_key(topic: str) -> Key:
    """Return the key of the row with the places for a topic's waiting requests."""
    return Key(Table.MESSAGES, f"WAITING#{topic}", "WAITING")


def claim_key(topic_id: str, idempotency_key: str) -> Key:
    """Return the key of the claim of an Idempotency-Key. A later topic of the same name has another *topic_id*."""
    return Key(Table.MESSAGES, f"IDEM#{topic_id}#{idempotency_key}", "IDEM")


def host_key(host: str) -> Key:
    """Return the key of a host's row. The key has a hash of the host's name, because the name may be too long."""
    return Key(Table.MESSAGES, "HOSTS", sha256(host.encode()).hexdigest()[:32])


def retained_key(topic: str, message_id: str, section: int | None = None) -> Key:
    """Return the key of a message in the list of retained messages, or of one *section* of a wide message."""
    name = message_id if section is None else f"{message_id}#{section:05d}"
    return Key(Table.MESSAGES, f"RETAINED#{topic}", name)


def unsent_key(topic: str, message_id: str, audience: str = "") -> Key:
    """Return the key of a refused queue entry in one of the lists of refused entries, each sorted by message id.

    *audience* distinguishes the queue entries of one message. This text contains the audience, then the section and a
    digest of the other message ids, if the entry has them.
    """
    name = f"{message_id}#{topic}#{audience}" if audience else f"{message_id}#{topic}"
    return Key(Table.MESSAGES, unsent_list(crc32(topic.encode()) % UNSENT_SHARDS), name)


def unsent_list(shard: int) -> str:
    """Return the partition key of one list of refused queue entries."""
    return f"UNSENT#{shard}"


def tail_key(topic_id: str, place: str) -> Key:
    """Return the key of a batch of events in a topic's tail. *place* is the batch's id. Newer batches sort first."""
    return Key(Table.MESSAGES, f"TAIL#{topic_id}", f"{_PLACES - int(place):020d}")


def tail_place(sk: str) -> str:
    """Return the *place* from which :func:`tail_key` made the sort key *sk*.

    >>> tail_place(tail_key("t", "07549747200000000002").sk)
    '07549747200000000002'
    """
    return f"{_PLACES - int(sk):020d}"


def all_like(first: Key) -> tuple[Key, Key]:
    """Return the lower and the upper bound of all keys that begin with *first*. The sort key of *first* ends in ``#``.

    >>> all_like(subscription_key("orders", ""))[1].sk
    'SUB$'
    """
    return first, replace(first, sk=first.sk.removesuffix("#") + "$")


def all_subscriptions(topic: str) -> tuple[Key, Key]:
    """Return the lower and the upper bound of the keys of a topic's subscriptions."""
    return all_like(subscription_key(topic, ""))


def all_shadows(topic: str) -> tuple[Key, Key]:
    """Return the lower and the upper bound of the keys of a topic's shadows. The keys of subscriptions follow them."""
    return all_like(shadow_key(topic, ""))


class RowKind(Enum):
    """The kind of a row in a table's stream."""

    MESSAGE = auto()
    ROUND = auto()
    END = auto()
    LATE = auto()
    DUE = auto()
    LANE = auto()
    TOPIC = auto()
    SUBSCRIPTION = auto()
    FILTER_VERSION = auto()
    OTHER = auto()
    """Any other kind, such as lists, claims and names. No function that reads a stream uses their changes."""


_BY_PARTITION = {"DUE": RowKind.DUE, "LANES": RowKind.LANE}
_OF_MESSAGE = {"MSG": RowKind.MESSAGE, "ROUND": RowKind.ROUND, "END": RowKind.END, "LATE": RowKind.LATE}
_OF_TOPIC = {"TOPIC": RowKind.TOPIC, "SUB": RowKind.SUBSCRIPTION, "VERSION": RowKind.FILTER_VERSION}


def kind_of(row: Row) -> RowKind:
    """Return the kind of *row*.

    >>> kind_of({"pk": "LANES#orders", "sk": "07457000000000000001.3"})
    <RowKind.LANE: 6>
    >>> kind_of({"pk": "TOPIC#orders", "sk": "SUB#A"}), kind_of({"pk": "TOPIC#orders", "sk": "NAME#0000000003"})
    (<RowKind.SUBSCRIPTION: 8>, <RowKind.OTHER: 10>)
    """
    part = text(row, "pk").partition("#")[0]
    if part in ("MSG", "TOPIC"):
        kinds = _OF_MESSAGE if part == "MSG" else _OF_TOPIC
        return kinds.get(text(row, "sk").partition("#")[0], RowKind.OTHER)
    return _BY_PARTITION.get(part, RowKind.OTHER)


def topic_in_key(row: Row) -> str:
    """Return the name of the topic in the partition key of *row*.

    >>> topic_in_key({"pk": "TOPIC#orders", "sk": "VERSION#0000000003#9999999998"})
    'orders'
    """
    return text(row, "pk").partition("#")[2]
