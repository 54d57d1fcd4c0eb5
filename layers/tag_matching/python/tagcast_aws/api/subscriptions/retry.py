"""The retry strategy of a subscription, in requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic.config import JsonDict, JsonValue
from tagcast.errors import Fault, FaultCode
from tagcast.model import RetryPolicy, Strategy
from tagcast.pushing.retry_delay import BACKOFF_RETRIES_DEFAULT, BACKOFF_RETRIES_MAX, DECAY_RETRIES_MAX
from tagcast.subscription_settings import DECAY_INTERVAL_S_MAX, RETRIES_FOR_LIFE

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import SchemaOf
from tagcast_aws.api.http.body import Body

LIFE = "life"


def _retries(value: object, read: ValidatorFunctionWrapHandler) -> int:
    return RETRIES_FOR_LIFE if value == LIFE else read(value)


_Retries = Annotated[
    int,
    Field(ge=0, le=BACKOFF_RETRIES_MAX),
    WrapValidator(_retries),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": BACKOFF_RETRIES_MAX},
                {"type": "string", "const": LIFE},
            ]
        }
    ),
    # Without a default, because client generators for Java write it as an integer, not as this choice.
    Field(
        description=f"Retries of a message, or life: until it expires. Default: {BACKOFF_RETRIES_DEFAULT}.",
        json_schema_extra=lambda schema: schema.pop("default"),
    ),
]
_Interval = Annotated[int, Field(ge=1, le=limits.BACKOFF_INTERVAL_S_MAX)]


class BackoffRetry(Body):
    """Retries in order. Each retry waits for `interval_seconds`; the default is a random 10-20 seconds.

    If `max_retries` is `life`, the head of the backlog is retried until it expires. The waits between these retries
    double, from `interval_seconds` (default: 1) up to `max_interval_seconds` (default: 512).
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"not": {"properties": {"max_retries": {"const": LIFE}}, "required": ["max_retries"]}},
            "then": {"properties": {"max_interval_seconds": {"type": "null"}}},
        }
    )

    strategy: Literal["BACKOFF_RETRY"]
    max_retries: _Retries = BACKOFF_RETRIES_DEFAULT
    interval_seconds: _Interval | None = None
    max_interval_seconds: _Interval | None = None


class _GrowingRetry(Body):
    max_retries: Annotated[int, Field(ge=0, le=DECAY_RETRIES_MAX)] = DECAY_RETRIES_MAX
    max_interval_seconds: Annotated[int, Field(ge=1, le=DECAY_INTERVAL_S_MAX)] = DECAY_INTERVAL_S_MAX


class DecayRetry(_GrowingRetry):
    """Retries after 1, 2, 4, … seconds, up to `max_interval_seconds`.

    After a failure, only one message at a time is pushed until a push succeeds. All others wait.
    """

    strategy: Literal["EXPONENTIAL_DECAY_RETRY"]


class IndependentRetry(_GrowingRetry):
    """Retries after 1, 2, 4, … seconds, up to `max_interval_seconds`. A failed message delays no other."""

    strategy: Literal["INDEPENDENT_RETRY"] = "INDEPENDENT_RETRY"


def _strategy(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return str(getattr(value, "strategy", Strategy.INDEPENDENT_RETRY.value))
    strategy = value.get("strategy", Strategy.INDEPENDENT_RETRY.value)
    return strategy if isinstance(strategy, str) else ""


_BY_STRATEGY: JsonDict = {
    "discriminator": {
        "propertyName": "strategy",
        "mapping": {
            "BACKOFF_RETRY": "#/components/schemas/BackoffRetry",
            "EXPONENTIAL_DECAY_RETRY": "#/components/schemas/DecayRetry",
            "INDEPENDENT_RETRY": "#/components/schemas/IndependentRetry",
        },
    }
}
"""Pydantic describes no discriminator that is a function."""
Retry = Annotated[
    Annotated[BackoffRetry, Tag("BACKOFF_RETRY")]
    | Annotated[DecayRetry, Tag("EXPONENTIAL_DECAY_RETRY")]
    | Annotated[IndependentRetry, Tag("INDEPENDENT_RETRY")],
    Discriminator(_strategy),
    Field(json_schema_extra=_BY_STRATEGY),
]


StoredRetry = Annotated[dict[str, Any], SchemaOf(Retry)]
"""A retry strategy in answers."""


def policy(retry: BackoffRetry | DecayRetry | IndependentRetry) -> RetryPolicy:
    """Convert the retry strategy in a request body to the core's :class:`RetryPolicy`."""
    match retry:
        case BackoffRetry():
            longest = retry.max_interval_seconds or DECAY_INTERVAL_S_MAX
            return RetryPolicy(Strategy.BACKOFF_RETRY, retry.max_retries, retry.interval_seconds, longest)
        case DecayRetry() | IndependentRetry():
            longest = retry.max_interval_seconds
            return RetryPolicy(Strategy(retry.strategy), retry.max_retries, interval_s_max=longest)


def show_retry(value: RetryPolicy) -> dict[str, Any]:
    """Return the retry policy in the API's form, with only the fields that its strategy has.

    >>> show_retry(RetryPolicy(Strategy.BACKOFF_RETRY, 3))
    {'strategy': 'BACKOFF_RETRY', 'max_retries': 3}
    >>> show_retry(RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE))
    {'strategy': 'BACKOFF_RETRY', 'max_retries': 'life', 'max_interval_seconds': 512}
    """
    answer: dict[str, Any] = {"strategy": value.strategy.value}
    answer["max_retries"] = LIFE if value.is_for_life else value.max_retries
    if value.strategy is Strategy.BACKOFF_RETRY and value.interval_s is not None:
        answer["interval_seconds"] = value.interval_s
    if value.strategy is not Strategy.BACKOFF_RETRY or value.is_for_life:
        answer["max_interval_seconds"] = value.interval_s_max
    return answer


_IS_BACKOFF: JsonDict = {"properties": {"strategy": {"const": "BACKOFF_RETRY"}}, "required": ["strategy"]}
_IS: dict[bool, JsonDict] = {
    value: {"properties": {"ordered": {"const": value}}, "required": ["ordered"]} for value in (True, False)
}
KEEPS_ORDER: JsonDict = {"anyOf": [{"properties": {"retry": _IS_BACKOFF}, "required": ["retry"]}, _IS[True]]}
"""The schema of an ordered subscription with pushes; :func:`asks_for_order` checks the same rule."""
OF_ORDERED: list[JsonValue] = [
    {"if": _IS[True], "then": {"properties": {"retry": _IS_BACKOFF}}},
    {"if": _IS[False], "then": {"properties": {"retry": {"not": _IS_BACKOFF}}}},
]
"""The schema rules between *ordered* and the strategy; :func:`retry_faults` checks the same rules."""


def asks_for_order(subscription: Mapping[str, object]) -> bool:
    """Return whether the request for a push subscription makes it ordered.

    >>> asks_for_order({"ordered": True}), asks_for_order({"retry": {"strategy": "BACKOFF_RETRY"}}), asks_for_order({})
    (True, True, False)
    """
    retry = subscription.get("retry")
    return subscription.get("ordered") is True or (
        isinstance(retry, Mapping) and retry.get("strategy") == Strategy.BACKOFF_RETRY
    )


def retry_faults(subscription: Mapping[str, object]) -> list[Fault]:
    """Return a fault if *ordered* contradicts the strategy of a subscription with pushes; else an empty list.

    >>> [str(fault.pointer) for fault in retry_faults({"ordered": True, "retry": {}})]
    ['/retry/strategy']
    """
    retry, ordered = subscription.get("retry"), subscription.get("ordered")
    if not isinstance(retry, Mapping):
        return []
    strategy = _strategy(retry)
    if ordered is True and strategy in (Strategy.EXPONENTIAL_DECAY_RETRY, Strategy.INDEPENDENT_RETRY):
        reason = "must be BACKOFF_RETRY for an ordered subscription. Leave out retry to retry in order until expiry"
        return [Fault(reason, "/retry/strategy", FaultCode.CONFLICT)]
    if ordered is False and strategy == Strategy.BACKOFF_RETRY:
        reason = "must be true with BACKOFF_RETRY, which keeps the order. The other strategies keep none"
        return [Fault(reason, "/ordered", FaultCode.CONFLICT)]
    return []


def growth_faults(subscription: Mapping[str, object]) -> list[Fault]:
    """Return a fault if BACKOFF_RETRY has a maximum interval without ``"max_retries": "life"``; else an empty list.

    Without retries for life, its intervals do not grow.

    >>> growth_faults({"retry": {"strategy": "BACKOFF_RETRY", "max_interval_seconds": 60}})[0].pointer
    '/retry/max_interval_seconds'
    """
    retry = subscription.get("retry")
    if not isinstance(retry, Mapping) or retry.get("strategy") != Strategy.BACKOFF_RETRY:
        return []
    if retry.get("max_interval_seconds") is None or retry.get("max_retries") == LIFE:
        return []
    reason = 'is allowed under BACKOFF_RETRY only with "max_retries": "life"'
    return [Fault(reason, "/retry/max_interval_seconds", FaultCode.CONFLICT)]


def present_for(present: Mapping[str, Any], named: Mapping[str, Any], *, is_group: bool = False) -> dict[str, Any]:
    """Return the settings in *present* without those that contradict a patch; *named* has the patch's fields.

    If the patch ends retries for life, the maximum interval is left out, because constant intervals have no maximum.
    Unless the subscription is a group, ``ordered`` is left out, because it follows from the strategy. But ``ordered``
    stays if the patch sets ``retry`` to null, because the default retries depend on the order. If the patch asks for
    order without ``retry``, a present strategy without order is left out. The subscription then gets the default
    retries for order.

    >>> before = {"ordered": False, "retry": {"strategy": "EXPONENTIAL_DECAY_RETRY"}}
    >>> present_for(before, {"ordered": True}), present_for(before, {"timeout_seconds": 5})
    ({}, {'retry': {'strategy': 'EXPONENTIAL_DECAY_RETRY'}})
    """
    sets_default = "retry" in named and named["retry"] is None
    left = {name: value for name, value in present.items() if is_group or sets_default or name != "ordered"}
    retry, patch = left["retry"], named.get("retry") or {}
    if not is_group and named.get("ordered") is True and not patch and retry["strategy"] != Strategy.BACKOFF_RETRY:
        del left["retry"]
    elif patch.get("max_retries", LIFE) != LIFE and retry["max_retries"] == LIFE:
        left["retry"] = {name: value for name, value in retry.items() if name != "max_interval_seconds"}
    return left
