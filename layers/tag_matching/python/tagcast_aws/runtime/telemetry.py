"""What operators read: one log line per attempt and EMF metrics, never a body or a secret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tagcast.model import EntryState, Message, Outcome, Push, Subscription

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger, Metrics

_METRIC_NAMES = {
    EntryState.DELIVERED: "Delivered",
    EntryState.BLOCKED: "AttemptFailed",
    EntryState.DISCARDED: "Discarded",
    EntryState.EXPIRED: "Expired",
}


class PowertoolsTelemetry:
    """The port ``Telemetry``."""

    def __init__(self, logger: Logger, metrics: Metrics) -> None:
        self._logger = logger
        self._metrics = metrics

    def attempted(self, push: Push, outcome: Outcome, state: EntryState, took_ms: int) -> None:
        """Log one push and count its result."""
        self._logger.info(
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
        self.count(_METRIC_NAMES[state])

    def settled(self, message: Message, subscription: Subscription, state: EntryState) -> None:
        """Log an entry that became terminal without a push."""
        self._logger.info(
            "settled",
            extra={
                "topic": message.topic,
                "subscription": subscription.name,
                "message_id": message.message_id,
                "state": state.value,
            },
        )

    def filter_failed(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Log the filters that failed and count each under the names of its topic and subscription."""
        from aws_lambda_powertools.metrics import MetricUnit, single_metric

        names = list(subscriptions)
        self._logger.warning("filter failed", extra={"topic": topic, "subscriptions": names})
        self.count("FilterErrors", len(names))
        for name in names:
            with single_metric(name="FilterErrors", unit=MetricUnit.Count, value=1) as metric:
                metric.add_dimension(name="topic", value=topic)
                metric.add_dimension(name="subscription", value=name)

    def failed(self, what: str, error: Exception) -> None:
        """Log the fault with its traceback, and count it."""
        self._logger.error(f"{what} failed", exc_info=error)
        self.count("Failed")

    def count(self, name: str, value: int = 1) -> None:
        """Add to a metric."""
        self._metrics.add_metric(name=name, unit="Count", value=value)
