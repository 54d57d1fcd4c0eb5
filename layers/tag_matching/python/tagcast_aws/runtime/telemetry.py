"""Telemetry for operators: one log line per attempt and EMF metrics, without bodies and secrets."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from logging import DEBUG
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from tagcast.model import EntryState, Message, Outcome, Push, Subscription
from tagcast.ports import Clock

_METRIC_NAMES = {
    EntryState.DELIVERED: "Delivered",
    EntryState.BLOCKED: "AttemptFailed",
    EntryState.DISCARDED: "Discarded",
    EntryState.EXPIRED: "Expired",
}


class PowertoolsTelemetry:
    """Implements the port ``Telemetry``; *watched* are the topics with metrics per subscription."""

    def __init__(
        self,
        logger: Logger,
        metrics: Metrics,
        clock: Clock,
        by_subscription: SubscriptionMetrics,
        watched: Collection[str] = (),
    ) -> None:
        self._logger = logger
        self._metrics = metrics
        self._clock = clock
        self._by_subscription = by_subscription
        self._watched = frozenset(watched)

    def record_attempt(self, push: Push, outcome: Outcome, state: EntryState, took_ms: int) -> None:
        """Log an attempt, and count its result *state*. A success at the first attempt is logged at DEBUG only.

        At INFO, the lines of such successes would be most of the cost of a topic with many subscribers
        (docs/speed-and-cost.md).
        """
        is_usual = state is EntryState.DELIVERED and push.attempt == 1
        if not is_usual or self._logger.log_level <= DEBUG:
            log = self._logger.debug if is_usual else self._logger.info
            log(
                "attempted",
                extra={
                    "topic": push.message.topic,
                    "subscription": push.subscription.name,
                    "message_id": push.message.message_id,
                    "attempt": push.attempt,
                    "outcome": outcome.detail,
                    "state": state.value,
                    "took_ms": took_ms,
                    "trace_id": push.message.trace.trace_id,
                },
            )
        self._came_to(push.message, push.subscription, state, push.attempt)

    def record_end(self, message: Message, subscription: Subscription, state: EntryState) -> None:
        """Log a delivery that ended without a push; an acknowledgement only at DEBUG.

        If *state* has a metric, count it.
        """
        log = self._logger.debug if state is EntryState.DELIVERED else self._logger.info
        log(
            "ended",
            extra={
                "topic": message.topic,
                "subscription": subscription.name,
                "message_id": message.message_id,
                "state": state.value,
            },
        )
        if state in _METRIC_NAMES:
            self._came_to(message, subscription, state)

    def record_filter_failures(self, topic: str, subscriptions: Iterable[str], count: int = 1) -> None:
        """Log the *subscriptions* whose filters failed; add *count* to the metric ``FilterErrors``."""
        self._logger.warning("filter failed", extra={"topic": topic, "subscriptions": list(subscriptions)})
        self.count("FilterErrors", count)

    def record_failure(self, what: str, error: Exception) -> None:
        """Log *error* with its traceback, and count it; *what* names the failed work."""
        self._logger.error(f"{what} failed", exc_info=error)
        self.count("Failed")

    def count(self, name: str, value: int = 1) -> None:
        """Add *value* to the metric *name*; each invocation writes one sum."""
        counted = self._metrics.provider.metric_set.get(name)
        if counted is None:
            self._metrics.add_metric(name=name, unit="Count", value=value)
        else:
            counted["Value"][0] += value

    def record_wait(self, name: str, milliseconds: float) -> None:
        """Add one value in milliseconds to the metric *name*."""
        self._metrics.add_metric(name=name, unit="Milliseconds", value=milliseconds)

    def watches(self, topic: str) -> bool:
        """Return whether the deployment selects *topic* for metrics per subscription."""
        return topic in self._watched

    def record_subscription(self, topic: str, ordinal: int, subscription: str, values: Mapping[str, float]) -> None:
        """Add metric values of a subscription, if its topic has metrics per subscription."""
        if topic in self._watched:
            self._by_subscription.add(topic, ordinal, subscription, values)

    def _came_to(self, message: Message, subscription: Subscription, state: EntryState, attempts: int = 0) -> None:
        """Count *state*, an end or a failed attempt. *attempts* is the number of pushes so far, or 0."""
        self.count(_METRIC_NAMES[state])
        values: dict[str, float] = {_METRIC_NAMES[state]: 1}
        if state is EntryState.DELIVERED:
            values["DeliveryMs"] = self._clock.now() - message.accepted_at
        if attempts and state.is_terminal:
            values["Attempts"] = attempts
        self.record_subscription(message.topic, subscription.ordinal, subscription.name, values)


Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


@cache
def logger() -> Logger:
    """Return the process's logger. The event of an invocation is never logged.

    The logger's level is the template's ``LogLevel``. Powertools would use Lambda's own level, but that level must let
    metric lines through. Lines have RFC 3339 instants, because Lambda reads the level only of such lines. Lambda gives
    its level to the root logger: at DEBUG, botocore would log all requests and answers, with bodies and secrets.
    """
    logging.getLogger().setLevel(logging.WARNING)
    made = Logger(log_uncaught_exceptions=False, use_rfc3339=True)
    logging.getLogger(made.name).setLevel(os.environ.get("LOG_LEVEL", "INFO"))
    return made


@cache
def metrics() -> Metrics:
    """Return the process's metrics, which each handler flushes. An invocation without metrics logs no warning."""
    warnings.filterwarnings("ignore", message="No application metrics to publish", category=UserWarning)
    return Metrics()


@cache
def by_subscription() -> SubscriptionMetrics:
    """Return the process's metrics per subscription."""
    return SubscriptionMetrics()


def telemetry(clock: Clock, watched: Collection[str] = ()) -> PowertoolsTelemetry:
    """Return the port ``Telemetry`` for log and metrics; *watched* are the topics with metrics per subscription."""
    return PowertoolsTelemetry(logger(), metrics(), clock, by_subscription(), watched)


def flush_after(handler: Handler) -> Handler:
    """Return *handler*, extended to write all metrics at the end of each invocation."""
    counting: Handler = metrics().log_metrics(handler)

    @wraps(handler)
    def invoke(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return _flush_counts(counting, event, context)

    return invoke


def _flush_counts(counting: Handler, event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Call *counting*, and then write the metrics per subscription, even after an error."""
    try:
        return counting(event, context)
    finally:
        by_subscription().flush()


METERED_MAX = 50
"""The first 50 subscriptions of a topic have metrics of their own; all other subscriptions share one set of metrics."""
OTHERS = "*"
UNITS = {
    "DeliveryMs": "Milliseconds",
    "OldestPendingSeconds": "Seconds",
    "Attempts": "Count",
    "Delivered": "Count",
    "AttemptFailed": "Count",
    "Discarded": "Count",
    "Expired": "Count",
    "Backlog": "Count",
    "ExpiringWithinHour": "Count",
}
"""All metrics of a subscription, with their units."""


class SubscriptionMetrics:
    """Collects the metrics of one invocation and writes them as one EMF line per subscription."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[tuple[str, float]]] = {}

    def add(self, topic: str, ordinal: int, subscription: str, values: Mapping[str, float]) -> None:
        """Add metric values of a subscription."""
        name = subscription if ordinal < METERED_MAX else OTHERS
        self._values.setdefault((topic, name), []).extend(values.items())

    def flush(self) -> None:
        """Write all collected metrics, and forget them."""
        from aws_lambda_powertools.metrics import EphemeralMetrics

        kept, self._values = self._values, {}
        for (topic, subscription), values in kept.items():
            line = EphemeralMetrics()
            line.add_dimension("topic", topic)
            line.add_dimension("subscription", subscription)
            for name, value in values:
                line.add_metric(name, UNITS[name], value)
            if line.metric_set:
                line.flush_metrics()
