"""Computes the functions' metrics for Prometheus from EMF lines in their logs, as CloudWatch does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from local.functions.quick_json import decode
from local.stack.delivery_log import OF_METRICS

LEVELS = (
    "Backlog",
    "ExpiringWithinHour",
    "OldestPendingSeconds",
    "OldestBlockedHeadSeconds",
    "OldestOverdueLaneSeconds",
)
"""The metrics that are gauges. Gauges are replaced by every sweep; counters are added."""
SWEPT = "OldestBlockedHeadSeconds"
"""The metric that marks the start of a sweep: each sweep writes it before the metrics of subscriptions."""
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400)
ATTEMPTS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200)
LABELS = ("topic", "subscription")


@dataclass(frozen=True)
class PrometheusMetric:
    """A metric of Prometheus: a histogram with the bounds *buckets*, a gauge (*is_level*), or else a counter."""

    name: str
    buckets: tuple[float, ...] = ()
    is_level: bool = False

    @property
    def sample(self) -> str:
        """The name of the metric's samples. It ends with `_total` for counters, and with `_bucket` for histograms."""
        return self.name + ("_bucket" if self.buckets else "" if self.is_level else "_total")


def describe_metric(metric: str, labels: Sequence[str] = ()) -> PrometheusMetric:
    """Return how Prometheus shows a metric of CloudWatch. Histograms of milliseconds are shown in seconds.

    If *labels* is not empty, the metric is that of a subscription.

    >>> metrics = ("DeliveryMs", LABELS), ("Delivered",), ("Backlog", LABELS)
    >>> tuple(describe_metric(*each).sample for each in metrics)
    ('tagcast_subscription_delivery_seconds_bucket', 'tagcast_delivered_total', 'tagcast_subscription_backlog')
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()
    name = f"tagcast_subscription_{words}" if labels else f"tagcast_{words}"
    if metric == "Attempts":
        return PrometheusMetric(name, ATTEMPTS)
    if metric in LEVELS:
        return PrometheusMetric(name, is_level=True)
    if metric == "SlotWaitMs":
        return PrometheusMetric(name.removesuffix("_ms") + "_milliseconds")
    if words.endswith("_ms"):
        return PrometheusMetric(name.removesuffix("_ms") + "_seconds", SECONDS)
    return PrometheusMetric(name)


class Exposition:
    """The functions' metrics, counted since the start of the stack."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._families: dict[str, Counter | Gauge | Histogram] = {}

    def hear(self, line: str) -> None:
        """Add the metrics in a log line. Ignore the line if it is not EMF, CloudWatch's format of metrics in logs."""
        if OF_METRICS not in line or not line.startswith("{"):
            return
        entry = decode(line)
        for directive in entry["_aws"]["CloudWatchMetrics"]:
            names = {each["Name"] for each in directive["Metrics"]}
            if SWEPT in names:
                # The new sweep reports no gauges for lanes that have become active.
                for family in self._families.values():
                    if isinstance(family, Gauge):
                        family.clear()
            for dimensions in directive["Dimensions"]:
                labels = {label: str(entry[label]) for label in LABELS if label in dimensions}
                for name in names:
                    self._add(name, labels, entry[name])

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _add(self, metric: str, labels: Mapping[str, str], values: Sequence[float]) -> None:
        kind = describe_metric(metric, tuple(labels))
        family = self._family(metric, kind, tuple(labels))
        match family.labels(**labels) if labels else family:
            case Histogram() as histogram:
                for value in values:
                    histogram.observe(value / 1000 if metric.endswith("Ms") else value)
            case Gauge() as gauge:
                gauge.set(values[-1])
            case Counter() as counter:
                counter.inc(sum(values))

    def _family(self, metric: str, kind: PrometheusMetric, labels: tuple[str, ...]) -> Counter | Gauge | Histogram:
        if kind.name not in self._families:
            make = partial(Histogram, buckets=kind.buckets) if kind.buckets else Gauge if kind.is_level else Counter
            self._families[kind.name] = make(kind.name, f"{metric} of docs/metrics.md", labels, registry=self._registry)
        return self._families[kind.name]
