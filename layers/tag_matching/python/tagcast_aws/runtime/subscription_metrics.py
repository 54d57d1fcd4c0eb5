"""Metrics by topic and subscription. A deployment selects the topics, because each such metric is billed."""

from __future__ import annotations

from collections.abc import Mapping

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
        """Write everything, and start empty."""
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
