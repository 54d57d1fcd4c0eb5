"""The wire forms of a push, against the libraries that receivers use."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook
from tagcast.model import ContentFormat, Draft, Push
from tagcast.pushing.content_formats import AGENT, cloudevent_header, envelope, structured_cloudevent
from tagcast.pushing.envelope import content, function_event, http_request, queue_message
from tagcast.pushing.webhook_signature import SecretError, signature
from tagcast.trace_context import TraceContext, make_trace

from tests.fakes.pushes import push_to

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes or so.").decode()
DRAFT = Draft(
    "Grüße".encode(), tags=("apple", "naïve"), routing_key="a.b", properties={"color": "red"}, ordering_key='k "1%" €'
)


def push_of(
    content_format: ContentFormat = ContentFormat.JSON, draft: Draft = DRAFT, secret: str | None = None
) -> Push:
    push = push_to("https://example.com/hook", draft=draft, content_format=content_format, secret=secret)
    message = replace(push.message, accepted_at=1_700_000_000_007, expires_at=1_700_086_400_007)
    return replace(push, message=message, attempt=2)


def test_the_envelope_has_exactly_the_documented_fields() -> None:
    assert envelope(push_of()) == {
        "topic": "fruit",
        "subscription": "A",
        "message_id": "07457000000000000042",
        "body": "Grüße",
        "tags": ["apple", "naïve"],
        "routing_key": "a.b",
        "properties": {"color": "red"},
        "ordering_key": 'k "1%" €',
        "content_type": None,
        "accepted_at": "2023-11-14T22:13:20.007Z",
        "expires_at": "2023-11-15T22:13:20.007Z",
        "traceparent": make_trace("fruit", "07457000000000000042").parent,
        "attempt": 2,
    }


def test_a_binary_body_travels_as_base64_in_both_envelopes() -> None:
    binary = Draft(b"\x00\xff", is_text=False)
    fields = envelope(push_of(draft=binary))
    assert (fields["body_base64"], "body" in fields) == ("AP8=", False)
    assert json.loads(http_request(push_of(ContentFormat.CMQ_JSON, binary), 0, "1").body)["msgBody"] == "AP8="


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_every_format_carries_the_push_headers(content_format: ContentFormat) -> None:
    headers = http_request(push_of(content_format, secret=SECRET), 1_700_000_001_999, "9.8").headers
    assert headers["webhook-id"] == "07457000000000000042"
    assert headers["webhook-timestamp"] == "1700000001"
    assert headers["x-tagcast-topic"] == "fruit"
    assert headers["x-tagcast-subscription"] == "A"
    assert headers["x-tagcast-attempt"] == "2"
    assert headers["x-tagcast-tags"] == r'["apple", "na\u00efve"]'
    assert headers["user-agent"] == (AGENT if content_format.startswith("cmq") else "tagcast/9.8")
    assert headers["webhook-signature"].startswith("v1,")
    assert "webhook-signature" not in http_request(push_of(content_format), 0, "1").headers


def test_the_body_is_the_envelope_whether_its_content_is_shared_or_not() -> None:
    for draft in (DRAFT, Draft(b"\x01\xf0\x9f\x8d\x8e\x00"), Draft(b"\xff", is_text=False)):
        replayed = push_of(draft=draft)
        for push in (replayed, replace(replayed, message=replace(replayed.message, replay_of="07457"))):
            shared = content(push.message, ContentFormat.JSON)
            first, second = (http_request(replace(push, attempt=n), 0, "1.0", shared) for n in (1, 2))
            assert first.parts[1] is second.parts[1]
            assert json.loads(second.body) == envelope(replace(push, attempt=2))
            assert second.body == http_request(replace(push, attempt=2), 0, "1.0").body
            assert list(json.loads(second.body)) == list(envelope(push))


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_headers_take_at_most_4_kib_and_the_tags_are_left_out_first(content_format: ContentFormat) -> None:
    apple = "\U0001f34e"
    for tags in ((apple * 64,) * 10, (apple * 64,) * 2, ("a" * 64,) * 10):
        draft = Draft(b"x", tags=tags, ordering_key=apple * 128, content_type="a/" + "b" * 126)
        headers = http_request(push_of(content_format, draft, SECRET), 1, "1.0.0").headers
        assert sum(len(f"{name}: {value}\r\n") for name, value in headers.items()) <= 4096
        assert ("x-tagcast-tags" in headers) == (tags[1:2] != (apple * 64,) or len(tags) == 2)


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_a_push_whose_headers_are_full_keeps_its_place_in_the_trace(content_format: ContentFormat) -> None:
    trace = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", ",".join(f"{key}={'%' * 120}" for key in "abcd"))
    draft = Draft(b"x", tags=("a" * 64,), ordering_key="\U0001f34e" * 128, content_type="a/" + "b" * 126, trace=trace)

    headers = http_request(push_of(content_format, draft, SECRET), 1, "1.0.0").headers

    assert sum(len(f"{name}: {value}\r\n") for name, value in headers.items()) <= 4096
    assert headers["traceparent"] == trace.parent
    assert headers["tracestate"] == trace.state
    assert "ce-tracestate" not in headers


def test_every_format_says_that_it_is_a_replay() -> None:
    old = "07457000000000000007"
    pushes = [push_of(content_format) for content_format in ContentFormat]
    replays = [replace(push, message=replace(push.message, replay_of=old)) for push in pushes]
    for replayed in replays:
        assert http_request(replayed, 0, "1.0").headers["x-tagcast-replay-of"] == old
        queued = queue_message(replayed)
        assert old in queued.body or queued.attributes["replay_of"] == old
        assert old in function_event(replayed).decode()
    assert envelope(replays[-1])["replay_of"] == old
    assert json.loads(structured_cloudevent(replays[-1].message))["replayof"] == old


CMQ = json.loads((Path(__file__).parents[1] / "vectors" / "cmq_signing.json").read_text())["http_push"]


@pytest.mark.parametrize("recorded", CMQ, ids=lambda each: each["name"])
def test_a_push_has_cmqs_form(recorded: dict[str, Any]) -> None:
    of_json = recorded["body"].startswith("{")
    content_format = ContentFormat.CMQ_JSON if of_json else ContentFormat.CMQ_SIMPLIFIED
    draft = Draft(b"test message", tags=("a", "b"))

    request = http_request(push_of(content_format, draft), 2_394_928_734, "1", account="100015036")

    told = {name.lower(): value for name, value in recorded["headers"].items() if name != "Host"}
    told["x-cmq-message-id"] = "07457000000000000042"
    assert {name: value for name, value in request.headers.items() if name in told} == told
    if of_json:
        ours = {"topicName": "fruit", "subscriptionName": "A", "msgId": "07457000000000000042"}
        expected = json.loads(recorded["body"]) | ours | {"publishTime": 1_700_000_000}
        assert json.loads(request.body) == expected
        assert list(json.loads(request.body)) == list(expected)
    else:
        assert request.body.decode() == recorded["body"]


@given(st.binary(min_size=1), st.text())
def test_signatures_equal_those_of_the_standard_library(key: bytes, body: str) -> None:
    from datetime import UTC, datetime

    secret = "whsec_" + base64.b64encode(key).decode()
    at = datetime.fromtimestamp(1_700_000_000, UTC)
    body = body.encode(errors="replace").decode()
    assert signature(secret, "m1", 1_700_000_000, body.encode()) == Webhook(secret).sign("m1", at, body)


def test_a_secret_without_padding_is_read_like_one_with_it() -> None:
    assert signature("whsec_YWI=", "m", 1, b"") == signature("whsec_YWI", "m", 1, b"")


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_====", "plain", "whsec_not base64!", "whsec_a"])
def test_a_malformed_secret_is_refused(secret: str) -> None:
    with pytest.raises(SecretError):
        signature(secret, "m", 1, b"")


def test_cloudevents_over_http_are_read_by_the_cloudevents_library() -> None:
    request = http_request(push_of(ContentFormat.CLOUDEVENTS), 0, "1")
    assert request.headers["ce-partitionkey"] == "k%20%221%25%22%20%E2%82%AC"
    event = from_http_event(HTTPMessage(dict(request.headers), request.body))
    assert event.get_data() == "Grüße"
    assert event.get_type() == "tagcast.message"
    assert event.get_source() == "/topics/fruit"
    assert event.get_id() == "07457000000000000042"
    assert event.get_extension("partitionkey") == 'k "1%" €'
    assert (at := event.get_time()) is not None
    assert at.isoformat() == "2023-11-14T22:13:20.007000+00:00"
    structured = JSONFormat().read(None, structured_cloudevent(push_of().message))
    assert structured.get_data() == "Grüße"
    assert structured.get_extension("partitionkey") == 'k "1%" €'


NO_TYPES = (None, "", "text/\n", "a/b\r\nx-evil: 1", "text/plän", " text/plain", "a\x00b")


@pytest.mark.parametrize(
    ("draft", "media_type"),
    [
        *((Draft(b"x", content_type=declared), "text/plain; charset=utf-8") for declared in NO_TYPES),
        (Draft(b"\xff", is_text=False), "application/octet-stream"),
        (Draft(b"\xff", is_text=False, content_type="image/png"), "image/png"),
        (Draft(b"<a/>", content_type="application/xml"), "application/xml"),
    ],
)
@pytest.mark.parametrize("content_format", [ContentFormat.SIMPLIFIED, ContentFormat.CLOUDEVENTS])
def test_a_body_alone_has_its_producers_type_or_one_for_text_or_bytes(
    content_format: ContentFormat, draft: Draft, media_type: str
) -> None:
    request = http_request(push_of(content_format, draft), 0, "1")
    assert (request.headers["content-type"], request.body) == (media_type, draft.body)


@pytest.mark.parametrize(
    ("written", "pushed"),
    [
        ("application/cloudevents+json", "application/json"),
        ("Application/CloudEvents-Batch+JSON; charset=utf-8", "application/json"),
        ("application/cloudevents+avro", "application/octet-stream"),
        ("application/x-cloudevents+json", "application/x-cloudevents+json"),
    ],
)
def test_a_producer_cannot_make_its_body_the_cloudevent_of_a_push(written: str, pushed: str) -> None:
    draft = Draft(b'{"specversion": "1.0", "source": "/topics/another"}', content_type=written)
    headers = http_request(push_of(ContentFormat.CLOUDEVENTS, draft), 0, "1").headers
    assert (headers["content-type"], headers["ce-source"]) == (pushed, "/topics/fruit")


@given(st.text())
def test_cloudevent_headers_are_printable_ascii_without_quotes_and_spaces(value: str) -> None:
    assert all("!" <= char <= "~" and char != '"' for char in cloudevent_header(value))


@pytest.mark.parametrize(
    ("draft", "field", "value"),
    [
        (Draft(b"plain"), "data", "plain"),
        (Draft(b"\xff", is_text=False), "data_base64", "/w=="),
        (Draft(b'{"n": 1.10}', content_type="application/json"), "data", {"n": 1.1}),
        (Draft(b'{"n": 1}', content_type="application/vnd.x+json; a=b"), "data", {"n": 1}),
        (Draft('"€\ufffe"'.encode(), content_type="application/json"), "data", "€\ufffe"),
        (Draft(b"{broken", content_type="application/json"), "data_base64", "e2Jyb2tlbg=="),
        (Draft(b"NaN", content_type="application/json"), "data_base64", "TmFO"),
        (Draft(b"[" * 100_000, content_type="application/json"), "data_base64", None),
    ],
)
def test_structured_cloudevents_keep_the_meaning_of_the_body(draft: Draft, field: str, value: object) -> None:
    text = structured_cloudevent(push_of(draft=draft).message)
    event = json.loads(text)
    assert text.isascii()
    assert event["specversion"] == "1.0"
    assert field in event
    assert value is None or event[field] == value


def test_structured_json_is_embedded_as_it_was_written() -> None:
    draft = Draft(b'{"a": 1.10, "a": 2}', content_type="application/json")
    assert structured_cloudevent(push_of(draft=draft).message).endswith(',"data":{"a": 1.10, "a": 2}}')


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_a_queue_and_a_function_can_drop_repetitions_by_topic_and_message_id(content_format: ContentFormat) -> None:
    push = push_of(content_format)
    queued = queue_message(push)
    of_queue = queued.attributes if "message_id" in queued.attributes else json.loads(queued.body)
    for told in (of_queue, json.loads(function_event(push))):
        topic, message_id = (told["source"], told["id"]) if "source" in told else (told["topic"], told["message_id"])
        assert (topic.removeprefix("/topics/"), message_id) == (push.message.topic, push.message.message_id)


def test_a_queue_gets_the_facts_about_a_bare_body_as_attributes_and_at_most_ten() -> None:
    trace = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "a=1")
    push = push_of(ContentFormat.SIMPLIFIED, Draft(b"", tags=("apple", "naïve"), trace=trace))
    sent = queue_message(replace(push, message=replace(push.message, replay_of="07457000000000000007")))
    names = {"topic", "message_id", "tags", "traceparent", "tracestate", "replay_of", "body_encoding"}
    assert json.loads(sent.attributes["tags"]) == ["apple", "naïve"]
    assert sent.attributes.keys() == names
    assert queue_message(push_of(ContentFormat.SIMPLIFIED)).body == "Grüße"


@pytest.mark.parametrize("draft", [Draft(b"\xff", is_text=False), Draft(b"a\x00b"), Draft("\uffff".encode())])
def test_a_bare_body_that_sqs_cannot_carry_travels_as_base64(draft: Draft) -> None:
    sent = queue_message(push_of(ContentFormat.SIMPLIFIED, draft))
    assert base64.b64decode(sent.body) == draft.body
    assert sent.attributes["body_encoding"] == "base64"


def test_an_empty_bare_body_is_a_blank_because_sqs_takes_no_empty_message() -> None:
    sent = queue_message(push_of(ContentFormat.SIMPLIFIED, Draft(b"")))
    assert (sent.body, sent.attributes["body_encoding"]) == (" ", "empty")


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
def test_control_characters_never_exceed_what_sqs_takes(content_format: ContentFormat) -> None:
    body = b"\x01" * 256 * 1024
    sent = json.loads(made := queue_message(push_of(content_format, Draft(body))).body)
    assert len(made) < 2**20
    assert base64.b64decode(sent.get("body_base64") or sent["data_base64"]) == body


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
@given(body=st.text())
def test_queue_bodies_in_json_are_ascii(content_format: ContentFormat, body: str) -> None:
    draft = Draft(body.encode(errors="replace"))
    assert queue_message(push_of(content_format, draft)).body.isascii()


def test_a_function_gets_the_envelope_the_body_or_a_cloudevent() -> None:
    assert json.loads(function_event(push_of())) == envelope(push_of())
    simplified = json.loads(function_event(push_of(ContentFormat.SIMPLIFIED)))
    assert (simplified["body"], simplified["tags"]) == ("Grüße", ["apple", "naïve"])
    assert simplified.keys() == {"topic", "message_id", "tags", "traceparent", "body"}
    assert json.loads(function_event(push_of(ContentFormat.CLOUDEVENTS)))["data"] == "Grüße"


def test_a_lone_surrogate_in_a_tag_does_not_stop_the_push() -> None:
    push = push_of(draft=Draft(b"a", tags=("\ud800",)))
    assert json.loads(http_request(push, 0, "1").body)["tags"] == ["\ud800"]
