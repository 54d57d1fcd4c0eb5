"""Headers that a subscriber adds to its pushes: which ones may be, that all arrive, and that nothing shows them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tagcast.model import ContentFormat, Draft, Message, Outcome, Push, PushBatch
from tagcast.pushing.batch_form import batch_request, shared_item
from tagcast.pushing.envelope import http_request
from tagcast.pushing.response_text import READ_BYTES_MAX, REDACTED, response_text
from tagcast.registry import subscriptions
from tagcast.subscription_settings import FormerSecret, Signature
from tagcast.trace_context import TraceContext
from tagcast_aws.api.subscriptions.headers import REFUSED, header_faults

from tests.fakes.world import FakeWorld
from tests.unit.api.test_http_api import Reply
from tests.unit.worlds import ask, known

S = "/topics/test1/subscriptions/A"
HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "token-4711-of-a-receiver"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Tenant": "tenant-4712"}
CHOSEN = {name.lower(): value for name, value in HEADERS.items()}
FULL = {f"x-{number}": "v" * (1_024 - 7) for number in range(2)}


def put(fake: FakeWorld, **settings: Any) -> Reply:
    return ask(fake, "PUT", S, HOOK | settings)


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Content-Type", "content-length", "Connection", "Transfer-Encoding", "TE", "Upgrade", "Keep-Alive"),
        *("Proxy-Authorization", "Trailer", "Expect", "Cookie", "User-Agent", "traceparent", "tracestate"),
        *("webhook-id", "Webhook-Signature", "ce-id", "X-Tagcast-Topic", "x-cmq-message-id", "X-Forwarded-For"),
        *("x-http-method-override", "X-Real-IP", "authorization2", "x-a b", "x-a:", "x-a\r\nx-b", "x-\u00e4", ""),
    ],
)
def test_a_header_that_is_not_a_subscriber_s_to_choose_is_refused(fake: FakeWorld, name: str) -> None:
    answer = put(fake, headers={name: "value-4713"})

    assert answer.status == 422
    assert all(each.startswith("#/headers/") for each in answer.pointers)
    assert "value-4713" not in json.dumps(answer.json)


OF_PROXIES = (
    *("X-Forwarded-Host", "X-Forward-For", "X-Forwarded", "X-Client-IP", "X-Cluster-Client-IP", "X-True-Client-IP"),
    *("X-Originating-IP", "X-Remote-IP", "X-Remote-Addr", "X-ProxyUser-Ip", "X-Host", "X-Url-Scheme", "X-Scheme"),
    *("X-HTTP-Method", "X-Method-Override", "X-Request-Method", "X-Original-URL", "X-Rewrite-URL", "X-Accel-Redirect"),
    *("X-Middleware-Subrequest", "X-Ssl-Client-Verify", "X-Client-Cert", "X-Amzn-Mtls-Clientcert", "X-Amz-Date"),
    *("X-Auth-Request-User", "X-Remote-User", "X-Authenticated-User", "X-WEBAUTH-USER", "X-User-Id", "X-Consumer-ID"),
    *("X-Envoy-External-Address", "X-Envoy-Original-Path", "X-Azure-ClientIP", "X-ARR-ClientCert", "X-Jwt-Assertion"),
    *("X-Appengine-User-Ip", "X-Amzn-Trace-Id", "X-Goog-Authenticated-User-Email", "X-MS-CLIENT-PRINCIPAL-NAME"),
    *("X-Nf-Client-Connection-Ip", "X-Vercel-Forwarded-For", "X-Apigateway-Api-Userinfo", "X-Proto", "X-Coming-From"),
)


@pytest.mark.parametrize("name", OF_PROXIES)
def test_a_header_that_proxies_set_and_receivers_believe_is_refused_however_it_is_written(
    fake: FakeWorld, name: str
) -> None:
    assert put(fake, headers={name: "a"}).pointers == [f"#/headers/{name}"]
    written_otherwise = name.replace("-", "_").upper()
    assert header_faults({"headers": {f"X-{written_otherwise[2:]}": "a"}}) != []
    assert put(fake, headers={written_otherwise: "a"}).status == 422


@pytest.mark.parametrize(
    ("headers", "pointer"),
    [
        ({"x-a": "4713\r\nx-b: c"}, "#/headers/x-a"),
        ({"x-a": "4713\n"}, "#/headers/x-a"),
        ({"x-a": "4713 "}, "#/headers/x-a"),
        ({"x-a": "4713\u00e4"}, "#/headers/x-a"),
        ({"x-a": ""}, "#/headers/x-a"),
        ({"x-a": 4713}, "#/headers/x-a"),
        ({"x-a": "4" * 1_025}, "#/headers/x-a"),
        ({"X-A": "4713", "x-a": "4713"}, "#/headers/x-a"),
        (FULL | {"x-1": "v" * 1_018}, "#/headers"),
        ({f"x-{number}": "4713" for number in range(11)}, "#/headers"),
        ({}, "#/headers"),
    ],
)
def test_headers_are_few_short_and_of_one_line(fake: FakeWorld, headers: Mapping[str, Any], pointer: str) -> None:
    answer = put(fake, headers=headers)

    assert (answer.status, answer.pointers) == (422, [pointer])
    assert "4713" not in json.dumps(answer.json)


def test_a_header_of_the_receivers_own_is_no_name_of_proxies(fake: FakeWorld) -> None:
    own = ("Authorization", "X-Api-Key", "X-Auth-Token", "X-Tenant", "X-Request-Id", "X-Hub-Secret", "X-Gitlab-Token")
    assert put(fake, headers=dict.fromkeys(own, "a")).status == 201


def test_headers_of_a_subscription_are_never_shown_and_stored_encrypted(fake: FakeWorld) -> None:
    answers = [put(fake, headers=HEADERS), ask(fake, "GET", S), ask(fake, "GET", "/topics/test1/subscriptions")]

    assert answers[0].status == 201
    stored = repr((fake.store.rows, subscriptions.get_subscription(fake.world, "test1", "A"), known(fake)))
    for secret in (TOKEN, "tenant-4712"):
        assert secret not in json.dumps([answer.json for answer in answers]) + stored
    assert known(fake).headers == CHOSEN


def test_headers_stay_when_the_secret_is_exchanged(fake: FakeWorld) -> None:
    put(fake, headers=HEADERS, secret=SECRET)
    subscriptions.rotate_secret(fake.world, "test1", "A", subscriptions.generated_secret(fake.world), 60)
    assert known(fake).headers == CHOSEN


def test_a_patch_removes_the_last_header(fake: FakeWorld) -> None:
    put(fake, headers={"x-tenant": "a"})

    assert ask(fake, "PATCH", S, {"headers": {"X-Tenant": None}}).status == 200
    assert known(fake).headers is None


def test_what_the_receiver_says_of_them_is_redacted_where_attempts_are_told(fake: FakeWorld) -> None:
    put(fake, headers=HEADERS)
    said = f"{TOKEN} is no token, {HEADERS} is no tenant".encode()
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 401", status=401, answer=said)
    [message_id] = fake.first_round("1")

    [delivery] = ask(fake, "GET", f"/topics/test1/messages/{message_id}/attempts").json["deliveries"]
    assert "is no tenant" in json.dumps(delivery)
    for secret in (TOKEN, "tenant-4712"):
        assert secret not in json.dumps(delivery) + repr(fake.store.rows)


def test_values_in_the_query_of_the_url_are_redacted_where_a_receiver_repeats_them(fake: FakeWorld) -> None:
    """Some hosts take a key in the query, and the pages of their errors repeat the whole path."""
    query = "code=k4711%2Bk4712%3D%3D&sig=s4713==&flag4714&env=dev"
    put(fake, endpoint={"protocol": "https", "url": f"https://a.test/hook?{query}"})
    said = f"Cannot POST /hook?{query}. The code k4711+k4712== is not for dev".encode()
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 404", status=404, answer=said)
    [message_id] = fake.first_round("1")

    [delivery] = ask(fake, "GET", f"/topics/test1/messages/{message_id}/attempts").json["deliveries"]
    shown = delivery["history"][0]["response"]
    assert shown.startswith("Cannot POST /hook?")
    assert shown.endswith(f"The code {REDACTED} is not for dev")
    for secret in ("k4711", "k4712", "s4713", "flag4714"):
        assert secret not in shown


def test_a_value_is_redacted_as_json_has_it_and_where_the_end_of_what_is_read_cuts_it_off() -> None:
    quoted = 'user="u4711", response="r4712"'
    assert response_text(json.dumps({"you": quoted}).encode(), (quoted,)) == f'{{"you": "{REDACTED}"}}'

    long = "abcdefgh" * 128
    shown = response_text((long * 5).encode()[: READ_BYTES_MAX - 1], (long,))
    cut = response_text((f"{long} " * 3 + long + long).encode()[:READ_BYTES_MAX], (long,))
    assert REDACTED in shown
    assert "abcdefgh" not in cut


def sign(subscription_id: str, content: bytes) -> tuple[bytes, bytes]:
    """Sign as while the seed of all keys is exchanged."""
    return b"s" * 64, b"t" * 64


def push_with(content_format: ContentFormat, headers: Mapping[str, str], fake: FakeWorld) -> Push:
    """A push whose every other header is as long as can be."""
    apple = "\U0001f34e"
    trace = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", ",".join(f"{key}={'%' * 120}" for key in "abcd"))
    draft = Draft(b"x", tags=(apple * 64,) * 10, ordering_key=apple * 128, content_type="a/" + "b" * 126, trace=trace)
    owner = fake.subscribe("A")
    settings = replace(
        owner.settings,
        content_format=content_format,
        secret=SECRET,
        formers=tuple(FormerSecret(SECRET, 9_000) for _ in range(3)),
        signature=Signature.V1A,
        headers=headers,
    )
    owner = replace(owner, topic="t" * 64, name="s" * 64, settings=settings)
    message = replace(Message("t" * 64, "07457000000000000042", draft, 0, 9_000), replay_of="07457000000000000007")
    return Push(owner, message, 176)


@pytest.mark.parametrize("content_format", list(ContentFormat))
def test_no_header_that_the_subscriber_chose_is_left_out(content_format: ContentFormat, fake: FakeWorld) -> None:
    push = push_with(content_format, FULL, fake)
    single = http_request(push, 1, "1.0.0", sign=sign).headers
    batch = PushBatch(push.subscription, (push,), "batch_1")
    several = batch_request(batch, 1, "1.0.0", [shared_item(push.message, content_format)], sign).headers

    for headers in (single, several):
        assert FULL.items() <= headers.items()
        assert sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items()) <= 4_096
        assert {"webhook-id", "webhook-signature", "x-tagcast-topic", "x-tagcast-attempt"} <= set(headers)


def test_the_names_that_are_refused_are_those_that_are_documented() -> None:
    section = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text().partition("| refused | meaning |")[2]
    documented = re.findall(r"`(x-[a-z-]+)…`", section.partition("\n\n")[0])
    assert sorted(documented) == sorted(REFUSED)
