"""The keys of all rows of the two tables (docs/tables.md), and what a row is, by its key."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, auto
from hashlib import sha256
from zlib import crc32

from tagcast.rows.values import text
from tagcast.tables import Key, Row, Table

UNSENT_SHARDS = 4
MESSAGE_PARTITION = "MSG#"
"""With this the partition of every message begins."""
_PLACES = 10**20 - 1


class KeyOf:
    """Makes the keys of one kind of row from the values that *pk* and *sk* name, in their order.

    >>> KeyOf(Table.MESSAGES, "LANES#{topic}", "{subscription_id}")("orders", "1.2").pk
    'LANES#orders'
    """

    def __init__(self, table: Table, pk: str, sk: str) -> None:
        self.table, self.pk, self.sk = table, pk, sk
        names = ", ".join(re.findall(r"{(\w+)", pk + sk))
        self._made = eval(f"lambda {names}: Key(table, f{pk!r}, f{sk!r})", {"Key": Key, "table": table})

    def __call__(self, *values: str | int) -> Key:
        """Return the key of the row of these values."""
        made: Key = self._made(*values)
        return made

    @property
    def looks(self) -> tuple[Table, str, str]:
        """Return table and keys as people read them."""
        pk, sk = (re.sub(r"{(\w+)[^}]*}", lambda m: m[1].replace("_", " "), each) for each in (self.pk, self.sk))
        return self.table, pk, sk


topic_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "TOPIC")
directory_key = KeyOf(Table.REGISTRY, "TOPICS", "{topic}")
counters_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "GRAVE")
subscription_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "SUB#{name}")
name_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "NAME#{ordinal:010d}")
version_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "VERSION#{ordinal:010d}#{version:010d}")
shadow_key = KeyOf(Table.REGISTRY, "TOPIC#{topic}", "SHADOW#{name}")
secrets_key = KeyOf(Table.REGISTRY, "SECRETS#{topic}", "{name}")
"""No stream's reader is told of its partition."""
exchange_key = KeyOf(Table.REGISTRY, "EXCHANGED", "{until:>015}#{topic}#{name}")
shadow_count_key = KeyOf(Table.MESSAGES, "{partition}", "COUNTS#{shard}")
shadow_sample_key = KeyOf(Table.MESSAGES, "{partition}", "SAMPLE#{way}#{slot:02d}")
message_key = KeyOf(Table.MESSAGES, MESSAGE_PARTITION + "{topic}#{message_id}", "MSG")
section_key = KeyOf(Table.MESSAGES, MESSAGE_PARTITION + "{topic}#{message_id}", "SECTION#{section:05d}")
tally_key = KeyOf(Table.MESSAGES, MESSAGE_PARTITION + "{topic}#{message_id}", "TALLY")
lane_key = KeyOf(Table.MESSAGES, "LANES#{topic}", "{subscription_id}")
due_key = KeyOf(Table.MESSAGES, "DUE#{subscription_id}", "{position}#{message_id}")
rate_key = KeyOf(Table.MESSAGES, "RATE#{subscription_id}", "RATE")
pulled_key = KeyOf(Table.MESSAGES, "PULLED#{topic}#{message_id}", "{ordinal:010d}")
member_key = KeyOf(Table.MESSAGES, "MEMBERS#{topic}#{group}", "{client_id}")
registration_key = KeyOf(Table.MESSAGES, "GROUPS", "{topic}#{group}#{subscription}")
sweep_key = KeyOf(Table.MESSAGES, "SWEEP", "SWEEP")
nonce_key = KeyOf(Table.MESSAGES, "NONCE#{secret_id}#{timestamp}#{nonce}", "NONCE")
watch_key = KeyOf(Table.MESSAGES, "WATCHED", "{topic}")
waiting_key = KeyOf(Table.MESSAGES, "WAITING#{topic}", "WAITING")
claim_key = KeyOf(Table.MESSAGES, "IDEM#{topic}#{idempotency_key}", "IDEM")


def host_key(host: str) -> Key:
    """Return the key of a host that gave no answer lately; a name may be longer than a key."""
    return Key(Table.MESSAGES, "HOSTS", sha256(host.encode()).hexdigest()[:32])


def retained_key(topic: str, message_id: str, section: int | None = None) -> Key:
    """Return the key that lists a message, or a section of its map, as owed after its first round."""
    name = message_id if section is None else f"{message_id}#{section:05d}"
    return Key(Table.MESSAGES, f"RETAINED#{topic}", name)


def unsent_key(topic: str, message_id: str, audience: str = "") -> Key:
    """Return the key that lists a message as not taken by the queue; all of a topic stand in one list, by their ids.

    *audience* tells entries of one message apart; the one for all has none.
    """
    name = f"{message_id}#{topic}#{audience}" if audience else f"{message_id}#{topic}"
    return Key(Table.MESSAGES, unsent_list(crc32(topic.encode()) % UNSENT_SHARDS), name)


def unsent_list(shard: int) -> str:
    """Return the partition of one list of what the queue did not take."""
    return f"UNSENT#{shard}"


def tail_key(topic_id: str, place: str) -> Key:
    """Return the key of what the watchers of a topic are told of one batch; the newest *place* stands first."""
    return Key(Table.MESSAGES, f"TAIL#{topic_id}", f"{_PLACES - int(place):020d}")


def tail_place(sk: str) -> str:
    """Return the place that a key of a tail stands for.

    >>> tail_place(tail_key("t", "07549747200000000002").sk)
    '07549747200000000002'
    """
    return f"{_PLACES - int(sk):020d}"


def all_like(first: Key) -> tuple[Key, Key]:
    """Return *first*, which ends in ``#``, and the first key that does not begin like it.

    >>> all_like(subscription_key("orders", ""))[1].sk
    'SUB$'
    """
    return first, replace(first, sk=first.sk.removesuffix("#") + "$")


def all_subscriptions(topic: str) -> tuple[Key, Key]:
    """Return the keys between which all subscriptions of a topic stand."""
    return all_like(subscription_key(topic, ""))


def all_shadows(topic: str) -> tuple[Key, Key]:
    """Return the keys between which all shadows of a topic stand; directly behind them stand all subscriptions."""
    return all_like(shadow_key(topic, ""))


class RowKind(Enum):
    """What a row is that a table's stream tells of."""

    MESSAGE = auto()
    SECTION = auto()
    DUE = auto()
    LANE = auto()
    TOPIC = auto()
    SUBSCRIPTION = auto()
    FILTER_VERSION = auto()
    OTHER = auto()
    """Lists, claims, names, shadows, counts: nobody follows their changes."""


_BY_PARTITION = {"DUE": RowKind.DUE, "LANES": RowKind.LANE}
_OF_MESSAGE = {"MSG": RowKind.MESSAGE, "SECTION": RowKind.SECTION}
_OF_TOPIC = {"TOPIC": RowKind.TOPIC, "SUB": RowKind.SUBSCRIPTION, "VERSION": RowKind.FILTER_VERSION}


def kind_of(row: Row) -> RowKind:
    """Return what *row* is.

    >>> kind_of({"pk": "LANES#orders", "sk": "07457000000000000001.3"})
    <RowKind.LANE: 4>
    >>> kind_of({"pk": "TOPIC#orders", "sk": "SUB#A"}), kind_of({"pk": "TOPIC#orders", "sk": "NAME#0000000003"})
    (<RowKind.SUBSCRIPTION: 6>, <RowKind.OTHER: 8>)
    """
    part = text(row, "pk").partition("#")[0]
    if part in ("MSG", "TOPIC"):
        kinds = _OF_MESSAGE if part == "MSG" else _OF_TOPIC
        return kinds.get(text(row, "sk").partition("#")[0], RowKind.OTHER)
    return _BY_PARTITION.get(part, RowKind.OTHER)


def topic_in_key(row: Row) -> str:
    """Return the name of the topic whose row this is, which the key of its partition says.

    >>> topic_in_key({"pk": "TOPIC#orders", "sk": "VERSION#0000000003#0000000001"})
    'orders'
    """
    return text(row, "pk").partition("#")[2]
