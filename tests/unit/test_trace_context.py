"""Traces: what W3C's Trace Context asks of who takes part in one, from the request to the push."""

import json
from typing import Any

import pytest
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from tagcast.model import ContentFormat, Draft, Message, Push
from tagcast.pushing.envelope import function_event, http_request, queue_message
from tagcast.trace_context import STATE_LENGTH_MAX, TraceContext, make_trace, read_trace

from tests.fakes.world import FakeWorld
from tests.unit.test_envelope import push_of
from tests.unit.worlds import ask

ID, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{ID}-{SPAN}-01"
TRACE = TraceContext(PARENT, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")
INVALID = [
    "",
    "00",
    PARENT.upper(),
    PARENT + "-",
    PARENT + "-more",
    PARENT + "," + PARENT,
    PARENT[:-1],
    f"ff-{ID}-{SPAN}-01",
    f"0g-{ID}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{ID}-{'0' * 16}-01",
    f"01-{ID}-{SPAN}-01more",
]


@pytest.mark.parametrize("parent", [None, *INVALID])
def test_an_invalid_parent_is_none_and_its_state_is_not_looked_at(parent: str | None) -> None:
    assert read_trace(parent, TRACE.state) is None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (PARENT, PARENT),
        (f"\t{PARENT} ", PARENT),
        (f"00-{ID}-{SPAN}-00", f"00-{ID}-{SPAN}-00"),
        (f"00-{ID}-{SPAN}-ff", f"00-{ID}-{SPAN}-03"),
        (f"01-{ID}-{SPAN}-01", PARENT),
        (f"fe-{ID}-{SPAN}-01-what-will-be", PARENT),
    ],
)
def test_a_valid_parent_is_sent_on_in_the_version_that_is_known_here(sent: str, kept: str) -> None:
    assert read_trace(sent) == TraceContext(kept)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("", ""),
        ("a=1", "a=1"),
        (" a=1 ,\t, b=2,", "a=1,b=2"),
        ("tenant@vendor=x y", "tenant@vendor=x y"),
        ("0a-_*/=!~", "0a-_*/=!~"),
        (",".join(f"k{n}=v" for n in range(32)), ",".join(f"k{n}=v" for n in range(32))),
        (",".join(f"k{n}=v" for n in range(33)), ""),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("a=", ""),
        ("a=1=2", ""),
        ("a=\u00e4", ""),
        ("a=\x00", ""),
        (f"{'k' * 257}=v", ""),
        (f"{'k' * 256}=v", f"{'k' * 256}=v"),
        (f"a={'v' * 257}", ""),
    ],
)
def test_a_state_is_valid_as_a_whole_or_dropped_and_its_parent_stays(sent: str, kept: str) -> None:
    assert read_trace(PARENT, sent) == TraceContext(PARENT, kept)


def test_of_a_state_that_is_too_long_long_members_go_first_then_the_last_ones() -> None:
    members = [f"m{n}={'v' * 90}" for n in range(8)]
    long = f"long={'v' * 200}"

    trace = read_trace(PARENT, ",".join((members[0], long, *members[1:])))

    assert trace is not None
    assert trace.state == ",".join(members[:5])
    assert len(trace.state) <= STATE_LENGTH_MAX < len(",".join(members[:6]))


def test_a_message_without_a_trace_has_one_of_its_own_and_always_the_same() -> None:
    messages = [Message("t", message_id, Draft(b""), 0, 1) for message_id in ("1", "2", "1")]
    first, other, again = (message.trace for message in messages)
    assert read_trace(first.parent) == first == again == make_trace("t", "1")
    assert len({first.trace_id, other.trace_id, make_trace("u", "1").trace_id}) == 3


def named(headers: dict[str, str]) -> str:
    """The trace that OpenTelemetry reads in headers."""
    return f"{get_current_span(TraceContextTextMapPropagator().extract(headers)).get_span_context().trace_id:032x}"


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_every_push_says_where_in_the_trace_it_stands_and_every_attempt_says_the_same(
    content_format: ContentFormat,
) -> None:
    pushed = push_of(content_format, Draft(b"x", trace=TRACE))
    for push in (pushed, Push(pushed.subscription, pushed.message, 7)):
        request, queued = http_request(push, 0, "1"), queue_message(push)
        assert TRACE.fields.items() <= request.headers.items()
        assert TRACE.fields.items() <= queued.attributes.items()
        assert named(dict(request.headers)) == TRACE.trace_id
        if content_format is ContentFormat.CLOUDEVENTS:
            assert request.headers["ce-traceparent"] == PARENT
            assert request.headers["ce-tracestate"] == TRACE.state
        assert TRACE.fields.items() <= json.loads(function_event(push)).items()
        if content_format in (ContentFormat.JSON, ContentFormat.CLOUDEVENTS):
            assert TRACE.fields.items() <= json.loads(queued.body).items()


def published(fake: FakeWorld, body: dict[str, Any], headers: dict[str, str], *, batch: bool = False) -> str:
    answer = ask(fake, "POST", "/topics/test1/messages/batch" if batch else "/topics/test1/messages", body, **headers)
    assert answer.status == (200 if batch else 201), answer.json
    accepted = answer.json["results"][-1] if batch else answer.json
    return str(accepted["message_id"])


def looked_at(fake: FakeWorld, message_id: str, more: str = "") -> Any:
    return ask(fake, "GET", f"/topics/test1/messages/{message_id}{more}").json


OTHER = PARENT.replace("4bf9", "5bf9")


@pytest.mark.parametrize(
    ("fields", "headers", "expected"),
    [
        ({}, TRACE.fields, TRACE.fields),
        (TRACE.fields, {}, TRACE.fields),
        (TRACE.fields, {"traceparent": OTHER, "tracestate": "x=y"}, TRACE.fields),
        ({"traceparent": "broken", "tracestate": "q=r"}, {"traceparent": OTHER}, {"traceparent": OTHER}),
        ({}, {"traceparent": OTHER, "tracestate": "A=b"}, {"traceparent": OTHER}),
        ({}, {"traceparent": "broken", "tracestate": "a=b"}, None),
        ({"traceparent": None}, {}, None),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_message_goes_out_in_the_trace_that_it_or_its_request_names(
    fake: FakeWorld, fields: dict[str, str], headers: dict[str, str], expected: dict[str, str] | None, batch: bool
) -> None:
    fake.subscribe("a")
    body = {"body": "x", **fields}

    sent = {"messages": [{"body": "y", "tags": 7}, body]} if batch else body
    message_id = published(fake, sent, headers, batch=batch)
    fake.deliver()

    wanted = expected or make_trace("test1", message_id).fields
    (push,) = fake.pusher.pushes
    assert push.message.trace.fields == wanted
    for shown in (looked_at(fake, message_id), looked_at(fake, message_id, "/explain?subscription=a")):
        assert {name: shown[name] for name in ("traceparent", "tracestate") if name in shown} == wanted


def test_a_repetition_within_another_trace_is_the_same_request(fake: FakeWorld) -> None:
    key = {"idempotency-key": "k"}
    first, again = (published(fake, {"body": "x"}, key | {"traceparent": parent}) for parent in (PARENT, OTHER))
    assert first == again
    assert looked_at(fake, first)["traceparent"] == PARENT
