"""Log and metrics of this process, and their output."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Collection
from functools import cache, wraps
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from tagcast.ports import Clock

from tagcast_aws.runtime.subscription_metrics import SubscriptionMetrics
from tagcast_aws.runtime.telemetry import PowertoolsTelemetry

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


@cache
def logger() -> Logger:
    """Return the process's logger; it never logs an event.

    Its level is the template's ``LogLevel``. Lambda's own level, which powertools uses by default, would be wrong,
    because it must let metric lines through. Lines have RFC 3339 instants, because Lambda reads the level only of such
    lines.
    """
    made = Logger(log_uncaught_exceptions=False, use_rfc3339=True)
    logging.getLogger(made.name).setLevel(os.environ.get("LOG_LEVEL", "INFO"))
    return made


@cache
def metrics() -> Metrics:
    """Return the process's metrics, flushed by each handler. An invocation without metrics logs no warning."""
    warnings.filterwarnings("ignore", message="No application metrics to publish", category=UserWarning)
    return Metrics()


@cache
def by_subscription() -> SubscriptionMetrics:
    """Return the process's metrics per subscription."""
    return SubscriptionMetrics()


def telemetry(clock: Clock, watched: Collection[str] = ()) -> PowertoolsTelemetry:
    """Return the port over log and metrics; *watched* are the topics with metrics per subscription."""
    return PowertoolsTelemetry(logger(), metrics(), clock, by_subscription(), watched)


def flush_after(handler: Handler) -> Handler:
    """Wrap *handler* so that it writes all metrics at its end."""
    counting: Handler = metrics().log_metrics(handler)

    @wraps(handler)
    def invoked(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return _flush_counts(counting, event, context)

    return invoked


def _flush_counts(counting: Handler, event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer an event, and write the metrics per subscription, also after an error."""
    try:
        return counting(event, context)
    finally:
        by_subscription().flush()
