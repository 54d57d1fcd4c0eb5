"""Rows of lanes that are not active. Their writes are in `tagcast.rows.lane_transitions`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from zlib import crc32

from tagcast.model import LaneState
from tagcast.queues import GroupQueue
from tagcast.rows.codec import FROM_KEY, Codec, json_part, optional_part, read_part, row_format
from tagcast.rows.keys import lane_key
from tagcast.tables import Key, Row

WAKE_SHARDS = 8
JOINED_MAX, ID_BYTES = 100, 8
"""A lane's row lists only the last 100 messages that joined its backlog, so that the row stays below a kilobyte."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The progress of filling a new group's backlog with messages that are older than the group.

    The messages were accepted at *accepted_from* or later. *since* is the first topic version with the group, so their
    publishes read an earlier version. All such publishes have ended by *begins_at*. The search through all messages
    continues at *cursor*; None is its start. *is_over*: the search has ended.
    """

    since: int
    accepted_from: int
    begins_at: int
    cursor: str | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is not active.

    - *generation*: the id under which one workflow works on the lane. Writes of older generations fail.
    - *appended* grows with every batch that joins the backlog. *joined* packs the ids of the messages that joined last,
      so that a repeated batch joins once.
    - *claim* is the number of the lane's lease. While *is_claimed*, attempts may be in flight, and another worker may
      take over from *next_attempt_at* on.
    - *planned_for*: the message whose failure set the next attempt. Other failed messages keep their own schedule.
    - *wake_at*: the time of the sweep's next check of the lane; None if there is no check. Each claim moves this time.
    - *queue*: the queue of a deleted group; the worker empties it. *filling*: the progress of a new group's filling.
    - *lost_since* (INDEPENDENT_RETRY): when contact was lost. In LOST_CONTACT, None means that the next new message is
      the probe. *retry_all_at*: the time of the last *retry now*. Deliveries attempted before it are due at once.
    - *ttl*: the expiry, in seconds, of the lane of a deleted subscription.
    """

    topic: str
    subscription_id: str
    state: LaneState
    generation: str
    appended: int
    claim: int
    next_attempt_at: int | None = None
    wake_at: int | None = None
    ttl: int | None = None
    joined: bytes = b""
    queue: GroupQueue | None = None
    filling: Filling | None = None
    planned_for: str | None = None
    is_claimed: bool = False
    lost_since: int | None = None
    retry_all_at: int | None = None

    @property
    def is_filling(self) -> bool:
        """Whether messages older than the group may still join the backlog."""
        return self.filling is not None and not self.filling.is_over

    @property
    def pushes_new(self) -> bool:
        """Whether new messages are pushed while the lane has a backlog, under INDEPENDENT_RETRY.

        In LOST_CONTACT, new messages are pushed only if *lost_since* is None. The first of them is a probe.
        """
        has_no_probe = self.state is LaneState.LOST_CONTACT and self.lost_since is None
        return self.state is LaneState.RETRYING or has_no_probe

    @property
    def key(self) -> Key:
        """The key of the lane's row."""
        return lane_key(self.topic, self.subscription_id)

    def holds(self, message_id: str) -> bool:
        """Return whether the message is among the last 100 that joined this backlog. Its delivery may have ended."""
        name = int(message_id).to_bytes(ID_BYTES)
        return any(name == self.joined[at : at + ID_BYTES] for at in range(0, len(self.joined), ID_BYTES))


def _shard_of(subscription_id: str) -> str:
    return str(crc32(subscription_id.encode()) % WAKE_SHARDS)


LANES = row_format(
    lane_key,
    Codec(
        Lane,
        {
            "subscription_id": FROM_KEY,
            "joined": optional_part("joined", missing=b""),
            "queue": read_part(
                lambda row: GroupQueue(row["sk"], row["queue"] == "ordered") if "queue" in row else None
            ),
            "filling": json_part("filling", astuple, lambda fields: Filling(*fields)),
        },
    ),
    lambda lane: {
        "wake_shard": None if lane.wake_at is None else _shard_of(lane.subscription_id),
        "queue": None if lane.queue is None else "ordered" if lane.queue.ordered else "unordered",
    },
)


def place_in_index(lane: Lane) -> Row:
    """Return the place of *lane* in the index ``wake``. A page that is read after this place begins after this lane."""
    key = lane.key
    return {"pk": key.pk, "sk": key.sk, "wake_at": lane.wake_at, "wake_shard": _shard_of(lane.subscription_id)}


def append_joined(joined: bytes, message_ids: Iterable[str]) -> bytes:
    """Return the packed list of ids *joined* with *message_ids* appended. Only the last :data:`JOINED_MAX` ids remain.

    >>> append_joined(bytes(8), ["1", "2"]).hex(" ", 8)
    '0000000000000000 0000000000000001 0000000000000002'
    """
    names = b"".join(int(message_id).to_bytes(ID_BYTES) for message_id in message_ids)
    return (joined + names)[-JOINED_MAX * ID_BYTES :]


def starts_workflow(before: Row, after: Row) -> bool:
    """Return whether the relay starts the lane's workflow after a change of its row: the generation is new.

    *before* is {} for a new row. A new row with a claim does not count. The first round that created this row starts
    the workflow after its late answers, if work remains.
    """
    is_under_first_round = not before and "is_claimed" in after
    return before.get("generation") != after["generation"] and not is_under_first_round
