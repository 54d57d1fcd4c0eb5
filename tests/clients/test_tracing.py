"""Publisher and receiver in one trace, each with an SDK of OpenTelemetry of its own."""

import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from tagcast.pushing.envelope import http_request
from tagcast_client import Client, NewMessage, Pulled, Received, Receiver, trace_context

from tests.clients.pulling_api import PullingApi

SECRET = "whsec_" + "QUJD" * 8


class Side:
    """A program with OpenTelemetry, whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    def handles(self, *messages: Received | Pulled) -> None:
        for message in messages:
            with self.tracer.start_as_current_span("handle", context=trace_context(message)):
                pass

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


def place(context: SpanContext | None) -> tuple[int, int]:
    """A trace and a span in it."""
    assert context is not None
    return context.trace_id, context.span_id


@pytest.fixture
def api() -> PullingApi:
    return PullingApi()


@pytest.fixture
def client(api: PullingApi) -> Client:
    api.client.create_topic("orders")
    api.client.create_subscription("orders", "pushed", "https://example.com/hook", secret=SECRET)
    api.client.create_subscription("orders", "pulled", {"protocol": "pull"})
    return api.client


def received(api: PullingApi, client: Client) -> tuple[list[Received], list[Pulled]]:
    """What was published, as it was pushed to one subscription and as members of the other pulled it."""
    api.fakes.deliver()
    requests = [http_request(push, round(time.time() * 1000), "1") for push in api.fakes.pusher.pushes]
    pushed = [Receiver(SECRET).verify(request.headers, request.body) for request in requests]
    return pushed, list(client.pull("orders", "pulled"))


def test_publisher_and_receivers_are_in_one_trace_and_the_receivers_are_children(
    api: PullingApi, client: Client
) -> None:
    publisher, receiver = Side(), Side()
    with publisher.tracer.start_as_current_span("order"):
        client.publish("orders", "1")
    with publisher.tracer.start_as_current_span("import"):
        client.publish_batch("orders", [NewMessage("2"), NewMessage("3")])

    pushed, pulled = received(api, client)
    receiver.handles(*pushed, *pulled)

    order, batch = (place(span.get_span_context()) for span in publisher.spans)
    assert [place(span.parent) for span in receiver.spans] == [order, batch, batch] * 2
    assert [place(span.get_span_context())[0] for span in receiver.spans] == [order[0], batch[0], batch[0]] * 2


def test_a_message_may_name_its_own_trace(api: PullingApi, client: Client) -> None:
    own = f"00-{'a' * 32}-{'b' * 16}-01"
    with Side().tracer.start_as_current_span("relay"):
        client.publish_batch("orders", [NewMessage("1", traceparent=own, tracestate="v=1")])

    (pushed,), (pulled,) = received(api, client)

    assert {(each.traceparent, each.tracestate) for each in (pushed, pulled)} == {(own, "v=1")}


def test_what_was_published_outside_of_a_trace_is_one_trace_for_all_its_receivers(
    api: PullingApi, client: Client
) -> None:
    accepted = client.publish("orders", "1")
    receiver = Side()

    pushed, pulled = received(api, client)
    receiver.handles(*pushed, *pulled)

    (trace_id,) = {place(span.get_span_context())[0] for span in receiver.spans}
    assert len(receiver.spans) == 2
    assert f"{trace_id:032x}" in str(client.get_message("orders", accepted.message_id).traceparent)


def test_a_program_without_opentelemetry_does_not_import_it() -> None:
    code = (
        "import sys, tagcast_client.tracing as t; found = t.current_trace();"
        "print(found, [n for n in sys.modules if 'telemetry' in n])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "{} []"
