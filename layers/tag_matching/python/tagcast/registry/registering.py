"""The use case of a heartbeat: it creates a missing group, and never changes a shared group.

A member whose filter differs from the filter of its group gets the difference as an error. So a shared group has one
filter at a time, and only an explicit update changes this filter (docs/consumers.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConditionLostError,
    ConflictError,
    DisagreementError,
    Fault,
    FaultCode,
    InvalidRequestError,
    PreconditionFailedError,
)
from tagcast.filters.difference import difference
from tagcast.filters.kinds import canonical
from tagcast.instant import rfc3339
from tagcast.membership import GROUP_LENGTH_MAX, MEMBERS_MAX, Heartbeat, Mode, Registration
from tagcast.model import (
    ContentFormat,
    Endpoint,
    Protocol,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.ports import World, Write
from tagcast.registry.members import NOT_ORDERED, Membership, record_heartbeat, refuse_if_full, shared_membership
from tagcast.registry.subscribing import NO_VERSION
from tagcast.registry.subscriptions import put_subscription
from tagcast.rows import stored
from tagcast.rows.member import REGISTRATIONS, registration_put, renewal

RETRIES = 16
"""RocketMQ's default number of retries."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group for a member: its subscription, its live members, and whether it was just created."""

    subscription: Subscription
    membership: Membership
    is_new: bool


def register(world: World, heartbeat: Heartbeat) -> Group:
    """Accept a heartbeat: create the group if it is missing, and add the sender of the heartbeat as a member.

    The group's filter is evaluated for every message that is accepted after this call returns. Raises NotFoundError
    (topic), InvalidFilterError, InvalidRequestError (name too long), DisagreementError (different filter or order),
    ConflictError (the subscription is no group, has another mode, or is full).
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
        raise ConflictError(f"{heartbeat.group} is a subscription: its messages are shared")


def _put(
    world: World, heartbeat: Heartbeat, known: Subscription | None, registration: Registration | None = None
) -> tuple[Subscription, Registration]:
    """Create the sender's subscription, or update *known* to the sender's filter.

    Only a subscription that no request created or updated may fall silent and be deleted. Raises ConditionLostError on
    a concurrent change.
    """
    now = world.clock.now()
    is_own = known is None or (registration is not None and registration.version == known.version)

    def registered(made: Subscription) -> Registration:
        return _registration(heartbeat, made.version if is_own else NO_VERSION, now)

    def also(made: Subscription) -> Write:
        return REGISTRATIONS.put(registered(made), made.topic, heartbeat.group, made.name)

    settings = _settings(heartbeat) if known is None else replace(known.settings, filter=heartbeat.filter)
    if_match = NO_VERSION if known is None else known.version
    try:
        made, _ = put_subscription(world, heartbeat.topic, heartbeat.subscription, settings, if_match, also)
    except PreconditionFailedError:
        raise ConditionLostError from None
    return made, registered(made)


def _join(world: World, heartbeat: Heartbeat, registration: Registration | None) -> Write:
    """Return the write with which a member joins an existing subscription.

    A subscription without *registration* is registered, so that the sweep announces the loss of its last members. It
    may have been created again while its members were alive. Its version says that no heartbeat wrote it, so the sweep
    does not delete it.
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
        retry=RetryPolicy(Strategy.INDEPENDENT_RETRY, RETRIES),
        timeout_s=15,
        content_format=ContentFormat.JSON,
        secret=None,
        ordered=heartbeat.is_ordered,
        start_from=heartbeat.start_from,
    )


def _origin(group: Subscription, registration: Registration | None) -> str:
    if registration is None or registration.version != group.version:
        return f"version {group.version}, set at {rfc3339(group.updated_at)}"
    return f"set by member {registration.client.member_id} of version {registration.client.version!r}"
