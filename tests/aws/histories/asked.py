"""What else subscribers and operators of a history on the box ask for, drawn apart from the rest of its plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tagcast.model import Endpoint, Protocol, RetryPolicy
from tagcast.pushing.circuit import LANES_MIN

from tests.aws.histories.letter_checks import LETTERS
from tests.simulation.asked import mode_of, varied
from tests.simulation.plan import Action, Aim, Subscriber

GROUP = "group"
"""The mode of a subscriber that nothing is pushed to: its members pull."""
SHARED_HOST = "shared.example"
SHARED_MODES = ("refused", "silent", "hanging", "healthy")
SHARING = LANES_MIN + 1
"""So many are at one host, of which a circuit opens after fewer."""


def asking(seed: int, aim: Aim, subscribers: tuple[Subscriber, ...]) -> tuple[Subscriber, ...]:
    """Return *subscribers* with batches and rates now and then; many of them may be at one host, which has one mode."""
    dice = Random(f"aws asked {seed}")
    found = []
    for each in subscribers:
        settings = varied(seed, each.name, aim, each.settings)
        if settings.max_per_second is None and dice.random() < 0.1:
            settings = replace(settings, max_per_second=dice.choice((0.5, 2.0, 20.0)))
        mode = mode_of(seed, each.name, each.mode, settings)
        found.append(replace(each, settings=settings, mode=mode))
    if len(found) < SHARING or dice.random() < 0.4:
        return tuple(found)
    mode, recovers = dice.choice(SHARED_MODES), dice.random() < 0.7
    moved = [replace(_moved(each), mode=mode, recovers=recovers) for each in found[:SHARING]]
    return (*moved, *found[SHARING:])


def _moved(subscriber: Subscriber) -> Subscriber:
    target = f"http://{SHARED_HOST}/{subscriber.name}"
    endpoint = replace(subscriber.settings.endpoint, target=target)
    return replace(subscriber, settings=replace(subscriber.settings, endpoint=endpoint))


def grouped(seed: int, aim: Aim, subscribers: tuple[Subscriber, ...]) -> tuple[Subscriber, ...]:
    """Return *subscribers*, of which one or two are groups now and then."""
    dice = Random(f"aws groups {seed}")
    if dice.random() >= aim.grouped:
        return subscribers
    chosen = dice.sample(range(len(subscribers)), min(len(subscribers), dice.choice((1, 1, 2))))
    return tuple(_as_group(dice, each) if place in chosen else each for place, each in enumerate(subscribers))


def _as_group(dice: Random, subscriber: Subscriber) -> Subscriber:
    retry = RetryPolicy(subscriber.settings.retry.strategy, dice.choice((0, 1, 2, 3, 8)))
    settings = replace(
        subscriber.settings,
        endpoint=Endpoint(Protocol.PULL, ""),
        retry=retry,
        ordered=dice.random() < 0.5,
        max_per_second=None,
        batching=None,
    )
    return replace(subscriber, settings=settings, mode=GROUP)


def with_letters(seed: int, subscribers: tuple[Subscriber, ...]) -> tuple[Subscriber, ...]:
    """Return *subscribers*, of which some have dead letters: groups more often than the others."""
    return tuple(_with_letters(Random(f"aws letters {seed} {each.name}"), each) for each in subscribers)


def _with_letters(dice: Random, subscriber: Subscriber) -> Subscriber:
    if dice.random() >= (0.6 if subscriber.mode == GROUP else 0.4):
        return subscriber
    settings = replace(subscriber.settings, dead_letter_topic=LETTERS, dead_letter_expired=dice.random() < 0.5)
    return replace(subscriber, settings=settings)


def has_events(seed: int) -> bool:
    """Say whether the topic has its events published."""
    return Random(f"aws events {seed}").random() < 0.5


def questioned(seed: int, subscribers: tuple[Subscriber, ...]) -> frozenset[str]:
    """Return the names of those whose endpoints have to agree before they are pushed to."""
    dice = Random(f"aws questioned {seed}")
    return frozenset(each.name for each in subscribers if dice.random() < 0.12 and each.mode != GROUP)


def with_pulls(seed: int, subscribers: tuple[Subscriber, ...], actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return *actions* with pulls by members of the groups among *subscribers*."""
    dice, found = Random(f"aws pulls {seed}"), list(actions)
    for name in (each.name for each in subscribers if each.mode == GROUP):
        for _ in range(dice.choice((3, 6, 9))):
            gap = round(dice.choice((0, 200, 5_000, 20_000)) * dice.random())
            found.insert(dice.randrange(1, len(found) + 2), Action(0, "pull", gap, name))
    return tuple(replace(action, number=number) for number, action in enumerate(found))


def with_verifying(seed: int, asked: frozenset[str], actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return *actions* with some that ask the endpoints of *asked* once more, and some that deploy another queueing."""
    dice, found = Random(f"aws verifying {seed}"), list(actions)
    for name in sorted(asked):
        for _ in range(dice.choice((0, 1, 2))):
            found.insert(dice.randrange(len(found) + 1), Action(0, "verify", dice.randrange(30_000), name))
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        found.insert(dice.randrange(len(found) + 1), Action(0, "redeploy", dice.randrange(1_000)))
    return tuple(replace(action, number=number) for number, action in enumerate(found))
