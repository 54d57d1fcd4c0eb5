"""Traces across tagcast for programs with OpenTelemetry. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from tagcast_client.received import Received

_FIELDS = ("traceparent", "tracestate")


def current_trace() -> Mapping[str, str]:
    """Return the headers that name the current span of OpenTelemetry; an empty mapping without a span.

    OpenTelemetry is used only if it is already imported.
    """
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers


def trace_context(message: Received) -> Context:
    """Return the OpenTelemetry context in which *message* was published. Use it as the parent of your spans.

    Needs ``opentelemetry-api``: ``tracer.start_as_current_span("work", context=trace_context(message))``.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    named = {field: value for field in _FIELDS if (value := getattr(message, field))}
    return TraceContextTextMapPropagator().extract(named, Context())
