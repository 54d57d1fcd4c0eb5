"""The notify strategy of a subscription, in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from tagcast.model import RetryPolicy, Strategy

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import SchemaOf
from tagcast_aws.api.http.body import Body


class BackoffRetry(Body):
    """A few retries, evenly spaced; without an interval each waits 10-20 seconds."""

    strategy: Literal["BACKOFF_RETRY"]
    max_retries: Annotated[int, Field(ge=0, le=limits.BACKOFF_RETRIES_MAX)] = limits.BACKOFF_RETRIES_DEFAULT
    interval_seconds: Annotated[int, Field(ge=1, le=limits.BACKOFF_INTERVAL_S_MAX)] | None = None


class DecayRetry(Body):
    """Retries after 1, 2, 4, … seconds up to the longest interval."""

    strategy: Literal["EXPONENTIAL_DECAY_RETRY"] = "EXPONENTIAL_DECAY_RETRY"
    max_retries: Annotated[int, Field(ge=0, le=limits.DECAY_RETRIES_MAX)] = limits.DECAY_RETRIES_MAX
    max_interval_seconds: Annotated[int, Field(ge=1, le=limits.DECAY_INTERVAL_S_MAX)] = limits.DECAY_INTERVAL_S_MAX


def _strategy(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return str(getattr(value, "strategy", Strategy.EXPONENTIAL_DECAY_RETRY.value))
    strategy = value.get("strategy", Strategy.EXPONENTIAL_DECAY_RETRY.value)
    return strategy if isinstance(strategy, str) else ""


Retry = Annotated[
    Annotated[BackoffRetry, Tag("BACKOFF_RETRY")] | Annotated[DecayRetry, Tag("EXPONENTIAL_DECAY_RETRY")],
    Discriminator(_strategy),
]


StoredRetry = Annotated[dict[str, Any], SchemaOf(Retry)]
"""A notify strategy as answers show it."""


def policy(retry: BackoffRetry | DecayRetry) -> RetryPolicy:
    """Return the policy as the core knows it."""
    match retry:
        case BackoffRetry():
            return RetryPolicy(Strategy.BACKOFF_RETRY, retry.max_retries, interval_s=retry.interval_seconds)
        case DecayRetry():
            longest = retry.max_interval_seconds
            return RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, retry.max_retries, interval_s_max=longest)


def shown_retry(value: RetryPolicy) -> dict[str, Any]:
    """Return the notify strategy with the fields that it has.

    >>> shown_retry(RetryPolicy(Strategy.BACKOFF_RETRY, 3))
    {'strategy': 'BACKOFF_RETRY', 'max_retries': 3}
    """
    answer: dict[str, Any] = {"strategy": value.strategy.value, "max_retries": value.max_retries}
    match value.strategy:
        case Strategy.BACKOFF_RETRY:
            if value.interval_s is not None:
                answer["interval_seconds"] = value.interval_s
        case Strategy.EXPONENTIAL_DECAY_RETRY:
            answer["max_interval_seconds"] = value.interval_s_max
    return answer
