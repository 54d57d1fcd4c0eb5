"""Use cases of shadows: create, view, promote, delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConflictError, Fault, FaultCode, InvalidFilterError, NotFoundError, PreconditionFailedError
from tagcast.filters.function_filter import is_function
from tagcast.filters.kinds import canonical
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.registry.directory import read_topic, wait_for_publishers
from tagcast.registry.subscribing import replace_filter
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import stored
from tagcast.rows.shadow import SHADOWS, Comparison, Shadow, read_observations, shadow_delete
from tagcast.rows.topic import change_update
from tagcast.strict_json import same_json

SHADOWS_MAX = 10
"""The maximum of shadows of one topic, because each shadow costs a write per publish call."""


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """A shadow with the counts of its comparison with the current active filter.

    *active_version* is the version of the subscription. *samples* are the ids of messages on which the two filters
    differ, each with its comparison. Each active filter has its own counts. They continue if the same filter becomes
    active again.
    """

    shadow: Shadow
    active_version: int
    counts: Mapping[Comparison, int]
    samples: tuple[tuple[str, Comparison], ...]


def put_shadow(world: World, topic: str, name: str, filter: Mapping[str, object] | None) -> tuple[ShadowReport, bool]:
    """Store *filter* as the shadow of the subscription *name*. Return the shadow, and whether this call stored it.

    Every publish after this call evaluates the shadow. A shadow with the same filter stays unchanged; another one is
    replaced. Raises NotFoundError, InvalidFilterError, ConflictError (too many, or the active filter is a function).
    """
    wanted = canonical(filter)
    if is_function(wanted):
        raise InvalidFilterError(
            (Fault("a function cannot be a shadow: it runs after publishing", "/kind", FaultCode.NOT_ALLOWED),)
        )

    def attempt() -> tuple[ShadowReport, bool]:
        owner = read_topic(world, topic)
        subscription = get_subscription(world, topic, name)
        if is_function(subscription.settings.filter):
            raise ConflictError("the active filter is a function: its verdict is unknown during publishing")
        known = {shadow.name: shadow for shadow in stored.shadows(world.store, topic)}
        if name in known and same_json(known[name].filter, wanted):
            return _report(world, known[name], subscription), False
        if name not in known and len(known) >= SHADOWS_MAX:
            raise ConflictError(f"a topic has at most {SHADOWS_MAX} shadows")
        version = owner.subscriptions_version + 1
        shadow = Shadow(topic, name, subscription.ordinal, wanted, version, world.clock.now())
        world.store.transact((change_update(owner, name), SHADOWS.put(shadow, shadow.topic, shadow.name)))
        return _report(world, shadow, subscription), True

    report = until_won(world, f"topic {topic}", attempt)
    wait_for_publishers(world)
    return report


def _read_shadow(world: World, subscription: Subscription) -> Shadow:
    shadow = SHADOWS.read(world.store, subscription.topic, subscription.name)
    if shadow is None:
        raise NotFoundError("shadow of subscription", subscription.name)
    return shadow


def _report(world: World, shadow: Shadow, subscription: Subscription) -> ShadowReport:
    counts, samples = read_observations(world, shadow.observations(subscription.settings.filter))
    return ShadowReport(shadow, subscription.version, counts, samples)


def get_shadow(world: World, topic: str, name: str) -> ShadowReport:
    """Return the shadow with its counts and samples, or raise NotFoundError."""
    subscription = get_subscription(world, topic, name)
    return _report(world, _read_shadow(world, subscription), subscription)


def delete_shadow(world: World, topic: str, name: str) -> None:
    """Delete the shadow, or raise NotFoundError. Its counts are never shown again and expire by their time to live."""

    def attempt() -> None:
        owner = read_topic(world, topic)
        shadow = _read_shadow(world, get_subscription(world, topic, name))
        world.store.transact((change_update(owner, name), shadow_delete(shadow)))

    until_won(world, f"topic {topic}", attempt)


def promote_shadow(world: World, topic: str, name: str, shadow_version: int | None = None) -> Subscription:
    """Make the shadow the active filter, as a new version of the subscription, and delete the shadow; all or nothing.

    *shadow_version* is the required version of the shadow (PreconditionFailedError); None allows any. Raises
    NotFoundError if there is no shadow.
    """

    def attempt() -> Subscription:
        subscription = get_subscription(world, topic, name)
        shadow = _read_shadow(world, subscription)
        if shadow_version is not None and shadow.shadow_version != shadow_version:
            raise PreconditionFailedError(f"the current shadow has version {shadow.shadow_version}")
        return replace_filter(world, subscription, shadow.filter, shadow_delete(shadow))

    return until_won(world, f"topic {topic}", attempt)
