"""Consumers of a pull group: members, registrations, and announced changes.

A member is a consumer that sends heartbeats. Liveness only decides which members are listed: a group without live
members keeps its pending messages (docs/consumers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

HEARTBEAT_S, LIVENESS_S = 30, 120
"""The interval of heartbeats, and the time after which a silent member counts as lost."""
SILENCE_S = 86_400
"""A group created by heartbeats may be deleted after this time without a heartbeat."""
MEMBERS_MAX = 100
HASH_LENGTH = 12
GROUP_LENGTH_MAX = 64 - 1 - HASH_LENGTH
"""The longest name of a broadcasting group, whose members have subscriptions of their own."""


class Mode(StrEnum):
    """How members get messages. *Clustering* members share the messages of one group.

    Each *broadcasting* member has its own subscription and gets all messages.
    """

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"


class MemberChange(StrEnum):
    """The change of a member. A *lost* member stopped its heartbeats. A *refused* one has another filter or order."""

    JOINED = "joined"
    LEFT = "left"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Client:
    """The id of a consumer, and *version*, any text that identifies the consumer's release."""

    member_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A consumer's periodic message to its group, with the filter that the consumer expects the group to have.

    - *filter*: in its JSON form; None matches every message. *is_ordered*: the consumer relies on an ordered group.
    - *silence_s*: the seconds by which the group outlives its last member. *start_from*: the time from which the group
      gets messages, None for the time of its creation. Both apply when the heartbeat creates the group.
    """

    topic: str
    group: str
    client: Client
    filter: Mapping[str, object] | None
    mode: Mode = Mode.CLUSTERING
    silence_s: int = SILENCE_S
    is_ordered: bool = False
    start_from: int | None = None

    @property
    def subscription(self) -> str:
        """The name of the consumer's subscription.

        >>> Heartbeat("t", "g", Client("10.0.0.1@7", "1"), None, Mode.BROADCASTING).subscription
        'g-7b36accc021c'
        """
        if self.mode is Mode.CLUSTERING:
            return self.group
        return f"{self.group}-{sha256(self.client.member_id.encode()).hexdigest()[:HASH_LENGTH]}"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as the member's last heartbeat described it.

    *digest* identifies the member's filter. *silence_s* are the seconds by which the group outlives its last member.
    *is_ordered*: the member relies on an ordered group. *is_gone*: the member left, or its loss was announced.
    *is_refused*: the group had another filter or order.
    """

    client: Client
    digest: str
    joined_at: int
    seen_at: int
    silence_s: int = SILENCE_S
    is_gone: bool = False
    is_ordered: bool = False
    is_refused: bool = False

    def is_alive(self, now: int) -> bool:
        """Return whether the member has not left, and its last heartbeat is recent enough."""
        return not self.is_gone and now < self.seen_at + LIVENESS_S * 1000


@dataclass(frozen=True, slots=True)
class Registration:
    """The stored fact that the *subscription* lives as long as its members send heartbeats.

    A broadcasting group has one record for each member, because each member has a subscription. Any other group has one
    record, for the subscription with the group's name. *version* is the version of the subscription that a heartbeat
    wrote last. It is 0 if another writer created or changed the subscription. *client* is the member that set the
    filter; *renewed_at* is the time at which a member last joined.
    """

    topic: str
    group: str
    subscription: str
    mode: Mode
    client: Client
    version: int
    silence_s: int
    renewed_at: int

    def is_of(self, client: Client) -> bool:
        """Return whether a heartbeat of *client* keeps this subscription alive."""
        return self.mode is Mode.CLUSTERING or self.client.member_id == client.member_id


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """An announced change of a group's members; *members* is the number of live members after the change."""

    topic: str
    group: str
    client: Client
    change: MemberChange
    members: int
