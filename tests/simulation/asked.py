"""What subscribers of a plan ask for."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tagcast.model import Batching, RetryPolicy, Strategy, SubscriptionSettings
from tagcast.subscription_settings import RETRIES_FOR_LIFE

from tests.fakes.settings import settings_for
from tests.simulation.rules import FUNCTION_RULES, RULES, Rule

if TYPE_CHECKING:
    from tests.simulation.plan import Aim


def rules_for(aim: Aim) -> tuple[Rule, ...]:
    """Return the rules that subscribers draw from: most want everything."""
    drawn = (*RULES[:1] * 6, *RULES, *FUNCTION_RULES)
    return tuple(rule for rule in drawn if rule.label in aim.rules or not aim.rules)


def settings_of(dice: Random, aim: Aim, rule: Rule, url: str) -> SubscriptionSettings:
    """Return what a subscriber at *url* asks for."""
    strategy = Strategy.BACKOFF_RETRY if dice.random() < 0.65 else Strategy.EXPONENTIAL_DECAY_RETRY
    if (aim.strategy or strategy) is Strategy.BACKOFF_RETRY:
        retry = RetryPolicy(
            Strategy.BACKOFF_RETRY, dice.choice((0, 1, 2, 3, 3, 3)), dice.choice((None, None, 1, 5, 12, 30))
        )
    else:
        retry = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, dice.choice((2, 4, 176, 176)))
    timeout_s = dice.choice((1, 5, 15, 30))
    return settings_for(url, retry, filter=rule.json, timeout_s=timeout_s, max_per_second=aim.max_per_second)


def for_life(seed: int, name: str, aim: Aim, settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return what the subscriber asks for: one that keeps an order retries until a message expires now and then."""
    dice = Random(f"life {seed} {name}")
    if settings.retry.strategy is not Strategy.BACKOFF_RETRY or dice.random() >= aim.for_life:
        return settings
    first_s, longest_s = dice.choice((None, None, 1, 5)), dice.choice((8, 60, 512))
    return replace(settings, retry=RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE, first_s, longest_s))


def independent(seed: int, name: str, aim: Aim, settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return what the subscriber asks for: of those that keep no order, some let no delivery wait for another."""
    dice = Random(f"independent {seed} {name}")
    if settings.retry.strategy is not Strategy.EXPONENTIAL_DECAY_RETRY or dice.random() >= aim.independent:
        return settings
    retry = replace(settings.retry, strategy=Strategy.INDEPENDENT_RETRY, interval_s_max=dice.choice((8, 60, 512)))
    return replace(settings, retry=retry)


def mode_of(seed: int, name: str, mode: str, settings: SubscriptionSettings) -> str:
    """Return how the receiver behaves: of those for which no delivery waits for another, many refuse some messages."""
    dice = Random(f"poison {seed} {name}")
    return "poisoned" if settings.is_independent and dice.random() < 0.5 else mode


def varied(seed: int, name: str, aim: Aim, settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return what the subscriber asks for, some for the life of a message, some in batches: those need a retry."""
    settings = independent(seed, name, aim, for_life(seed, name, aim, settings))
    dice = Random(f"batches {seed} {name}")
    if dice.random() >= aim.batched or not settings.retry.max_retries:
        return settings
    return replace(settings, batching=Batching(dice.choice((2, 3, 10, 100)), dice.choice((1_024, 262_144))))
