"""What the shipped code tells operators goes nowhere while the box plays: log lines, metrics, warnings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase

from tagcast_aws import wiring

VARIABLES = {"POWERTOOLS_METRICS_DISABLED": "true", "POWERTOOLS_METRICS_NAMESPACE": "tagcast"}


class _Nowhere(TextIOBase):
    def write(self, text: str, /) -> int:
        return len(text)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logger and the metrics of this interpreter."""
    logger, metrics = wiring.logger(), wiring.metrics()
    level, namespace = logger.log_level, metrics.namespace
    before = {name: os.environ.get(name) for name in VARIABLES}
    logger.setLevel("CRITICAL")
    os.environ.update(VARIABLES)
    metrics.namespace = "tagcast"
    try:
        with redirect_stdout(_Nowhere()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No application metrics to publish", category=UserWarning)
            yield
    finally:
        metrics.clear_metrics()
        metrics.namespace = namespace
        logger.setLevel(level)
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
