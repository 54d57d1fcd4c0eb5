"""Who consumes a pull group: its members, what made the group, and what is told when either changes.

A member is a consumer that sends heartbeats. Liveness decides only who is listed: a group without a live member is
still owed what it was owed (docs/consumers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

HEARTBEAT_S, LIVENESS_S = 30, 120
"""How often a member is to tell that it lives, and how long it is believed to."""
SILENCE_S = 86_400
"""After this silence a group that heartbeats made may be removed."""
MEMBERS_MAX = 100
HASH_LENGTH = 12
GROUP_LENGTH_MAX = 64 - 1 - HASH_LENGTH
"""Of a group whose members have subscriptions of their own."""


class Mode(StrEnum):
    """Whether members share a group's messages or each gets all of them, as a subscription of its own."""

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"


class Change(StrEnum):
    """What became of a member; *lost* is one whose heartbeats ceased, *refused* one that wants another filter."""

    JOINED = "joined"
    LEFT = "left"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Client:
    """A consumer as it names itself; *version* is whatever tells its releases apart."""

    member_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a consumer says of itself again and again: which group it belongs to, and what it wants to receive.

    *filter* is in its JSON form. *is_ordered*: it relies on getting each order one batch at a time. How long the group
    outlives its last member, *silence_s*, and since when it gets messages, *start_from*, is asked when it is made.
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
        """The name of the subscription that the consumer pulls from.

        >>> Heartbeat("t", "g", Client("10.0.0.1@7", "1"), None, Mode.BROADCASTING).subscription
        'g-7b36accc021c'
        """
        if self.mode is Mode.CLUSTERING:
            return self.group
        return f"{self.group}-{sha256(self.client.member_id.encode()).hexdigest()[:HASH_LENGTH]}"


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of a group, as its last heartbeat said.

    *digest* stands for the filter that it wants; *is_ordered*: it relies on an ordered group. *is_gone*: it left, or
    others were told that it is lost.
    """

    client: Client
    digest: str
    joined_at: int
    seen_at: int
    silence_s: int = SILENCE_S
    is_gone: bool = False
    is_ordered: bool = False

    def is_alive(self, now: int) -> bool:
        """Say whether it is believed to live."""
        return not self.is_gone and now < self.seen_at + LIVENESS_S * 1000


@dataclass(frozen=True, slots=True)
class Registration:
    """That heartbeats made a subscription for a group, and at which version of it.

    Under broadcasting a group has one such *subscription* for each member, else one of its own name. *client* is the
    member that set the filter, *renewed_at* when a member joined last.
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
        """Say whether a heartbeat of *client* is a sign of life of this subscription."""
        return self.mode is Mode.CLUSTERING or self.client.member_id == client.member_id


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """What listeners are told: *members* are left alive after it."""

    topic: str
    group: str
    client: Client
    change: Change
    members: int
