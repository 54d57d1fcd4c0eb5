"""Use cases of a group's members: who is alive, who leaves, and whose filter differs from the group's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConditionLostError, ConflictError, DisagreementError, NotFoundError
from tagcast.filters.difference import digest
from tagcast.membership import (
    LIVENESS_S,
    MEMBERS_MAX,
    Heartbeat,
    Member,
    MemberChange,
    MembershipChange,
    Mode,
)
from tagcast.model import Subscription
from tagcast.ports import World, Write
from tagcast.rows import stored
from tagcast.rows.member import MEMBERS, member_delete, member_gone

NOT_ORDERED = "ordered: the group is not ordered, and this cannot change. Create another group"
"""The difference between an unordered group and a member that relies on order."""
FORGOTTEN_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class Membership:
    """The live members, the digest of their filter (None: each has its own), and whether the group is ordered."""

    members: tuple[Member, ...]
    shared: str | None
    is_ordered: bool = True

    def agrees(self, member: Member) -> bool:
        """Return whether the group has the member's filter, and the order if the member relies on it."""
        return self.shared is None or (self.shared == member.digest and (self.is_ordered or not member.is_ordered))


def refuse_if_full(world: World, heartbeat: Heartbeat, known: Sequence[Member]) -> None:
    """Raise ConflictError if the sender of *heartbeat* is not among the members of a full group."""
    alive = {each.client.member_id for each in known if each.is_alive(world.clock.now())}
    if len(alive) >= MEMBERS_MAX and heartbeat.client.member_id not in alive:
        raise ConflictError(f"a group has at most {MEMBERS_MAX} members")


def record_heartbeat(
    world: World,
    heartbeat: Heartbeat,
    also: Write | None,
    silence_s: int,
    known: Sequence[Member],
    is_refused: bool,
    is_registered: bool = True,
) -> tuple[Member, ...]:
    """Record a *heartbeat*, announce the change of membership, and return the live members.

    *known* are the members as read. If the member is new, or the group is not registered, the same transaction makes
    the write *also*. *silence_s* is how long the group outlives its last member. *is_refused*: the member differs from
    the group. Raises ConditionLostError if the condition of *also* failed.
    """
    now, topic, group = world.clock.now(), heartbeat.topic, heartbeat.group
    before = next((each for each in known if each.client.member_id == heartbeat.client.member_id), None)
    others = [each for each in known if each is not before]
    is_join = before is None or not before.is_alive(now)
    alive = [each for each in others if each.is_alive(now)]
    member = Member(
        client=heartbeat.client,
        digest=digest(heartbeat.filter),
        joined_at=now if is_join or before is None else before.joined_at,
        seen_at=now,
        silence_s=silence_s,
        is_ordered=heartbeat.is_ordered,
        is_refused=is_refused,
    )
    if also is not None and (is_join or not is_registered):
        world.store.transact((MEMBERS.put(member, topic, group, member.client.member_id), also))
    else:
        world.store.write(MEMBERS.put(member, topic, group, member.client.member_id))
    wish = (member.digest, member.is_ordered, is_refused)
    if is_join or before is None or (before.digest, before.is_ordered, before.is_refused) != wish:
        change = MemberChange.REFUSED if is_refused else MemberChange.JOINED
        world.event_bus.announce(MembershipChange(topic, group, member.client, change, len(alive) + 1))
    tell_lost(world, topic, group, (*others, member))
    if is_join and heartbeat.mode is Mode.CLUSTERING:
        _forget_gone(world, topic, group, others)
    return tuple(sorted((*alive, member), key=lambda each: each.client.member_id))


def _forget_gone(world: World, topic: str, group: str, others: Sequence[Member]) -> None:
    """Delete rows of members that left long ago, because every heartbeat reads all rows.

    The row of the member that just joined shows that the group is not silent.
    """
    silent_since = world.clock.now() - LIVENESS_S * 1000
    gone = [member for member in others if member.is_gone and member.seen_at <= silent_since]
    if gone:
        with suppress(ConditionLostError):  # One of them came back; the next join tries again.
            world.store.transact(tuple(member_delete(topic, group, each) for each in gone[:FORGOTTEN_AT_ONCE]))


def tell_lost(world: World, topic: str, group: str, known: Sequence[Member]) -> None:
    """Announce each member whose heartbeats stopped. Only the first process that notices the loss announces it."""
    now = world.clock.now()
    alive = sum(1 for each in known if each.is_alive(now))
    for member in known:
        if not member.is_gone and not member.is_alive(now):
            _tell_gone(world, topic, group, member, MemberChange.LOST, alive)


def _tell_gone(world: World, topic: str, group: str, member: Member, change: MemberChange, alive: int) -> bool:
    try:
        world.store.write(member_gone(topic, group, member))
    except ConditionLostError:
        return False
    world.event_bus.announce(MembershipChange(topic, group, member.client, change, alive))
    return True


def leave(world: World, topic: str, group: str, member_id: str) -> None:
    """Mark a member as gone, and announce that it left. Its messages in flight return when their timeouts end.

    Raises NotFoundError for an unknown member.
    """

    def attempt() -> None:
        known = stored.members(world.store, topic, group)
        member = next((each for each in known if each.client.member_id == member_id), None)
        if member is None:
            raise NotFoundError("member", member_id)
        alive = sum(1 for each in known if each is not member and each.is_alive(world.clock.now()))
        if not member.is_gone and not _tell_gone(world, topic, group, member, MemberChange.LEFT, alive):
            raise ConditionLostError

    until_won(world, f"group {group}", attempt)


def membership(world: World, topic: str, group: str) -> Membership:
    """Return the live members. Raises NotFoundError if there is no such group."""
    known = stored.members(world.store, topic, group)
    subscription = stored.subscription(world.store, topic, group)
    if not known and subscription is None:
        raise NotFoundError("group", group)
    alive = tuple(member for member in known if member.is_alive(world.clock.now()))
    return Membership(alive, None) if subscription is None else shared_membership(alive, subscription)


def shared_membership(alive: tuple[Member, ...], group: Subscription) -> Membership:
    """Return the membership of a group whose *alive* members share its messages."""
    return Membership(alive, digest(group.settings.filter), group.settings.ordered)


def check_filter(world: World, subscription: Subscription, member_id: str) -> None:
    """Raise DisagreementError if the member's filter or order differs from that of its group, so that it pulls nothing.

    A consumer that sends no heartbeats accepts any filter.
    """
    member = MEMBERS.read(world.store, subscription.topic, subscription.name, member_id)
    filter = subscription.settings.filter
    if member is not None and member.digest != digest(filter):
        detail = f"member {member_id} has another filter than version {subscription.version} of the group"
        raise DisagreementError(
            detail, filter, None, ("the answer to the client's next heartbeat lists the differences",)
        )
    if member is not None and member.is_ordered and not subscription.settings.ordered:
        raise DisagreementError(f"member {member_id} wants an ordered group", filter, filter, (NOT_ORDERED,))
