"""Use cases of a group's members: heartbeats, liveness, leaving, and filters that differ.

A heartbeat creates a missing group, and never changes a shared group. A member whose filter differs from the filter of
its group gets the difference as an error. So a shared group has one filter at a time, and only an explicit update
changes this filter (docs/consumers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConditionLostError,
    ConflictError,
    DisagreementError,
    Fault,
    FaultCode,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
)
from tagcast.filters.difference import difference, digest
from tagcast.filters.kinds import canonical
from tagcast.instant import rfc3339
from tagcast.membership import (
    GROUP_LENGTH_MAX,
    LIVENESS_S,
    MEMBERS_MAX,
    Heartbeat,
    Member,
    MemberChange,
    MembershipChange,
    Mode,
    Registration,
)
from tagcast.model import Endpoint, Protocol, RetryPolicy, Strategy, Subscription, SubscriptionSettings
from tagcast.ports import World, Write
from tagcast.registry.subscribing import NO_VERSION
from tagcast.registry.subscriptions import put_subscription
from tagcast.rows import stored
from tagcast.rows.member import MEMBERS, REGISTRATIONS, member_delete, member_gone, registration_put, renewal
from tagcast.subscription_settings import IN_ORDER

NOT_ORDERED = "ordered: the group is not ordered, and this cannot change. Create another group"
"""The difference between an unordered group and a member that relies on order."""
FORGOTTEN_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class Membership:
    """The live members of a group, and whether the group is ordered.

    *shared* is the digest of the group's filter. It is None for a broadcasting group, in which each member has its own
    filter.
    """

    members: tuple[Member, ...]
    shared: str | None
    is_ordered: bool = True

    def agrees(self, member: Member) -> bool:
        """Return whether the member has the group's filter, and the group is ordered if the member needs order."""
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
    """Record a *heartbeat*, announce a change of membership if there is one, and return the live members.

    *known* are the members as read. *also* is a further write of the same transaction. It is made only if the member
    joins, or if *is_registered* is False because the subscription has no registration. The group outlives its last
    member by *silence_s* seconds. *is_refused*: the member differs from the group in filter or order. Raises
    ConditionLostError if the condition of *also* failed.
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
    announce_lost(world, topic, group, (*others, member))
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


def announce_lost(world: World, topic: str, group: str, known: Sequence[Member]) -> None:
    """Announce the loss of each member in *known* whose heartbeats stopped. Each loss is announced by one process."""
    now = world.clock.now()
    alive = sum(1 for each in known if each.is_alive(now))
    for member in known:
        if not member.is_gone and not member.is_alive(now):
            _mark_gone(world, topic, group, member, MemberChange.LOST, alive)


def _mark_gone(world: World, topic: str, group: str, member: Member, change: MemberChange, alive: int) -> bool:
    try:
        world.store.write(member_gone(topic, group, member))
    except ConditionLostError:
        return False
    world.event_bus.announce(MembershipChange(topic, group, member.client, change, alive))
    return True


def leave(world: World, topic: str, group: str, member_id: str) -> None:
    """Mark a member as gone, and announce that it left. The messages that it holds become visible after their timeouts.

    Raises NotFoundError for an unknown member.
    """

    def attempt() -> None:
        known = stored.members(world.store, topic, group)
        member = next((each for each in known if each.client.member_id == member_id), None)
        if member is None:
            raise NotFoundError("member", member_id)
        alive = sum(1 for each in known if each is not member and each.is_alive(world.clock.now()))
        if not member.is_gone and not _mark_gone(world, topic, group, member, MemberChange.LEFT, alive):
            raise ConditionLostError

    until_won(world, f"group {group}", attempt)


def membership(world: World, topic: str, group: str) -> Membership:
    """Return the live members of a group. Raises NotFoundError if there is no such group."""
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
    """Raise DisagreementError if the member must not pull, because it expects another filter or order of its group.

    A consumer without a stored heartbeat may pull from any group.
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


RETRIES = 16
"""RocketMQ's default number of retries. In order, RocketMQ retries without an end."""


@dataclass(frozen=True, slots=True)
class Group:
    """The result of a heartbeat: the group's subscription and live members, and whether the heartbeat created it."""

    subscription: Subscription
    membership: Membership
    is_new: bool


def register(world: World, heartbeat: Heartbeat) -> Group:
    """Accept a heartbeat: create the group if it is missing, and add the sender of the heartbeat as a member.

    The group's filter is evaluated for every message that is accepted after this call returns. Raises NotFoundError
    (topic), InvalidFilterError, InvalidRequestError (name too long), DisagreementError (different filter or order),
    ConflictError (the subscription is not a group, has another mode, or is full).
    """
    heartbeat = replace(heartbeat, filter=canonical(heartbeat.filter))
    if heartbeat.mode is Mode.BROADCASTING and len(heartbeat.group) > GROUP_LENGTH_MAX:
        detail = f"a broadcasting group's name has at most {GROUP_LENGTH_MAX} characters"
        raise InvalidRequestError((Fault(detail, "/mode", FaultCode.CONFLICT),))
    return until_won(world, f"group {heartbeat.group}", lambda: _register(world, heartbeat))


def _register(world: World, heartbeat: Heartbeat) -> Group:
    registrations = stored.registrations(world.store, heartbeat.topic, heartbeat.group)
    members = stored.members(world.store, heartbeat.topic, heartbeat.group)
    known = stored.subscription(world.store, heartbeat.topic, heartbeat.subscription)
    if any(each.mode is not heartbeat.mode for each in registrations):
        raise ConflictError(f"the group is not {heartbeat.mode.value}")
    registration = next((each for each in registrations if each.subscription == heartbeat.subscription), None)
    refuse_if_full(world, heartbeat, members)
    if known is None:
        _check_room(world, heartbeat, len(registrations))
        known, registration = _put(world, heartbeat, None)
        is_new = True
    else:
        is_new = False
        if known.settings.endpoint.protocol is not Protocol.PULL:
            raise ConflictError(f"{known.name} is a push subscription")
        if heartbeat.mode is Mode.BROADCASTING and difference(known.settings.filter, heartbeat.filter):
            known, registration = _put(world, heartbeat, known, registration)
    differs = _difference(known, heartbeat)
    silence_s = heartbeat.silence_s if registration is None else registration.silence_s
    also = None if is_new else _join(world, heartbeat, registration)
    alive = record_heartbeat(world, heartbeat, also, silence_s, members, bool(differs), registration is not None)
    if differs:
        detail = f"the group has another filter or order, {_origin(known, registration)}"
        raise DisagreementError(detail, known.settings.filter, heartbeat.filter, differs)
    shares = heartbeat.mode is Mode.CLUSTERING
    return Group(known, shared_membership(alive, known) if shares else Membership(alive, None), is_new)


def _difference(group: Subscription, heartbeat: Heartbeat) -> tuple[str, ...]:
    lacks_order = heartbeat.is_ordered and not group.settings.ordered
    return difference(group.settings.filter, heartbeat.filter) + ((NOT_ORDERED,) if lacks_order else ())


def _check_room(world: World, heartbeat: Heartbeat, present: int) -> None:
    if heartbeat.mode is Mode.CLUSTERING:
        return
    if present >= MEMBERS_MAX:
        raise ConflictError(f"a broadcasting group has at most {MEMBERS_MAX} members, including silent ones")
    if stored.subscription(world.store, heartbeat.topic, heartbeat.group) is not None:
        raise ConflictError(f"{heartbeat.group} is a subscription, so it cannot be a broadcasting group")


def _put(
    world: World, heartbeat: Heartbeat, known: Subscription | None, registration: Registration | None = None
) -> tuple[Subscription, Registration]:
    """Create the sender's subscription, or update *known* to the sender's filter.

    The sweep deletes a silent subscription only if heartbeats alone created and updated it. Raises ConditionLostError
    on a concurrent change.
    """
    now = world.clock.now()
    is_own = known is None or (registration is not None and registration.version == known.version)

    def register(made: Subscription) -> Registration:
        return _registration(heartbeat, made.version if is_own else NO_VERSION, now)

    def also(made: Subscription) -> Write:
        return REGISTRATIONS.put(register(made), made.topic, heartbeat.group, made.name)

    settings = _settings(heartbeat) if known is None else replace(known.settings, filter=heartbeat.filter)
    if_match = NO_VERSION if known is None else known.version
    try:
        made, _ = put_subscription(world, heartbeat.topic, heartbeat.subscription, settings, if_match, also)
    except PreconditionFailedError:
        raise ConditionLostError from None
    return made, register(made)


def _join(world: World, heartbeat: Heartbeat, registration: Registration | None) -> Write:
    """Return the write with which a member joins an existing subscription.

    Without *registration*, e.g. after the subscription was created again, the write is a new registration, so that the
    sweep announces the loss of the last members. Its version 0 says that no heartbeat wrote the subscription, so the
    sweep does not delete the subscription.
    """
    now = world.clock.now()
    if registration is None:
        return registration_put(_registration(heartbeat, NO_VERSION, now))
    return renewal(registration, now)


def _registration(heartbeat: Heartbeat, version: int, now: int) -> Registration:
    return Registration(
        topic=heartbeat.topic,
        group=heartbeat.group,
        subscription=heartbeat.subscription,
        mode=heartbeat.mode,
        client=heartbeat.client,
        version=version,
        silence_s=heartbeat.silence_s,
        renewed_at=now,
    )


def _settings(heartbeat: Heartbeat) -> SubscriptionSettings:
    return SubscriptionSettings(
        endpoint=Endpoint(Protocol.PULL, ""),
        filter=heartbeat.filter,
        retry=IN_ORDER if heartbeat.is_ordered else RetryPolicy(Strategy.INDEPENDENT_RETRY, RETRIES),
        ordered=heartbeat.is_ordered,
        start_from=heartbeat.start_from,
    )


def _origin(group: Subscription, registration: Registration | None) -> str:
    if registration is None or registration.version != group.version:
        return f"version {group.version}, set at {rfc3339(group.updated_at)}"
    return f"set by member {registration.client.member_id} of version {registration.client.version!r}"
