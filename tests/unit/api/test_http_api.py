"""The HTTP API: what each request answers, with the real core over a world in memory."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tagcast.errors import ContendedError
from tagcast.registry.subscriptions import get_subscription
from tagcast.sealing import open_secrets
from tagcast.verification import Verification, VerificationResult
from tagcast_aws.api.routes import description
from tagcast_aws.api.subscriptions.settings import SubscriptionBody
from tagcast_aws.api.topics import TopicBody
from tagcast_aws.endpoints.guard import Guard
from tagcast_aws.runtime.settings import Reach

from functions.manage import app as manage
from tests.fakes.handlers import answered
from tests.fakes.raced_store import before_the_next_transaction, throttled
from tests.fakes.world import FakeWorld

ROOT = Path(__file__).parents[3]
SECRET = "whsec_" + "QUJD" * 8
HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
S = "/topics/orders/subscriptions/a"


class Client:
    """Sends API Gateway events to the function that serves them."""

    def __init__(self) -> None:
        self.fakes = FakeWorld()

    def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> "Reply":
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return Reply(answered(self.fakes.world, method, target, text, sent))


class Reply:
    def __init__(self, answer: dict[str, Any]) -> None:
        self.status: int = answer["statusCode"]
        self.headers: dict[str, str] = answer["headers"]
        self.json: Any = json.loads(answer["body"]) if answer.get("body") else None

    @property
    def pointers(self) -> list[str]:
        return [fault["pointer"] for fault in self.json["errors"]]


def test_a_subscription_says_that_its_endpoint_has_to_agree_until_it_did(api: Client) -> None:
    url = HOOK["endpoint"]["url"]
    api.fakes.verifier.consents[url] = VerificationResult("http 404")
    made = api("PUT", S, {**HOOK, "verification": "required"})
    assert (made.status, made.json["state"], made.json["state_reason"]) == (201, "unverified", "http 404")
    assert made.json["lane"]["state"] == "unverified"
    assert api("POST", f"{S}/verify", {}).json["state_reason"] == "http 404"
    sent = api("POST", "/topics/orders/messages", {"body": "x"}).json["message_id"]
    api.fakes.deliver()
    [entry] = api("GET", f"/topics/orders/messages/{sent}").json["subscribers"].values()
    assert (entry["state"], entry["last_outcome"]) == ("blocked", "unverified")
    [lane] = api("GET", "/lanes").json["lanes"]
    assert (lane["state"], lane["head"]["next_attempt_at"]) == ("unverified", None)
    assert api("POST", f"{S}/retry", {}).status == 409
    assert api("POST", f"{S}/pause", {}).json["state"] == "paused"
    assert api("POST", f"{S}/resume", {}).json["state"] == "unverified"
    api.fakes.verifier.consents[url] = VerificationResult(per_second=2.0)
    agreed = api("POST", f"{S}/verify", {}).json
    assert ("state" in agreed, agreed["allowed_per_second"]) == (False, 2.0)
    assert [asked for asked, _ in api.fakes.verifier.asked] == [url] * 3
    assert not any(token in json.dumps(agreed) + json.dumps(made.json) for _, token in api.fakes.verifier.asked)


def test_a_strict_deployment_asks_everybody_and_refuses_who_will_not_be_asked(api: Client) -> None:
    api.fakes.world = replace(api.fakes.world, verification=Verification(api.fakes.verifier))
    assert api("PUT", S, {**HOOK, "verification": "none"}).pointers == ["#/verification"]
    assert api("PUT", S, HOOK).status == 201
    assert len(api.fakes.verifier.asked) == 1


def test_a_subscription_never_shows_its_secret(api: Client) -> None:
    created = api("PUT", S, HOOK | {"secret": SECRET})
    assert (created.status, created.headers["ETag"]) == (201, '"1"')
    assert created.json["retry"]["strategy"] == "INDEPENDENT_RETRY"
    assert created.json["lane"] == {"state": "active", "backlog": 0, "head": None}
    assert "secret" not in created.json
    assert "whsec" not in json.dumps([api("GET", S).json, api("GET", "/topics/orders/subscriptions").json])
    assert api("DELETE", "/topics/orders").status == 409
    assert api("GET", S + "/versions").json["versions"][0]["version"] == 1


def test_a_subscription_is_warned_while_its_dead_letters_would_be_lost(api: Client) -> None:
    body = {"endpoint": {"protocol": "pull"}, "dead_letter_topic": "dead"}

    assert "does not exist" in api("PUT", S, body).json["warnings"][0]
    several = api("POST", "/topics/orders/subscriptions/batch", {"subscriptions": [{"name": "b", **body}]})
    assert "does not exist" in several.json["results"][0]["warnings"][0]
    api("PUT", "/topics/dead", {})
    assert "has no subscription" in api("GET", S).json["warnings"][0]
    api("PUT", "/topics/dead/subscriptions/keepers", {"endpoint": {"protocol": "pull"}})
    assert "warnings" not in api("GET", S).json
    doubtful = {"kind": "sql92", "dialect": "rocketmq", "expression": "a = b"}
    assert api("PUT", S + "/filter", {"filter": doubtful}).json["warnings"]
    listed = api("GET", "/topics/orders/subscriptions").json["subscriptions"]
    assert not [each for each in listed if "warnings" in each], "a list compiles no filters"


def test_a_topic_is_warned_while_its_events_would_be_lost(api: Client) -> None:
    api("PUT", "/topics/events", {})
    assert "has no subscription" in api("PATCH", "/topics/orders", {"events_topic": "events"}).json["warnings"][0]
    api("PUT", "/topics/events/subscriptions/keepers", {"endpoint": {"protocol": "pull"}})
    shown = api("GET", "/topics/orders").json
    assert (shown["events_topic"], "warnings" in shown) == ("events", False)
    api("DELETE", "/topics/events/subscriptions/keepers")
    api("DELETE", "/topics/events")
    assert "does not exist" in api("GET", "/topics/orders").json["warnings"][0]
    for method in ("PUT", "PATCH"):
        assert api(method, "/topics/orders", {"events_topic": "orders"}).pointers == ["#/events_topic"]
    assert "events_topic" not in api("PATCH", "/topics/orders", {"events_topic": None}).json


@pytest.mark.parametrize("tag", ['"1"', "*"])
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/topics/none", {}, 412),
        ("PATCH", "/topics/none", {}, 404),
        ("DELETE", "/topics/none", None, 404),
        ("PUT", "/topics/orders/subscriptions/none", HOOK, 412),
        ("PUT", "/topics/none/subscriptions/none", HOOK, 404),
        ("PATCH", "/topics/orders/subscriptions/none", {}, 404),
        ("DELETE", "/topics/orders/subscriptions/none", None, 404),
        ("PUT", "/topics/orders/subscriptions/none/filter", {"filter": None}, 404),
        ("POST", "/topics/orders/subscriptions/none/secret/rotate", {"secret": "generate"}, 404),
    ],
)
def test_what_does_not_exist_fails_if_match_only_where_a_put_would_create_it(
    api: Client, method: str, path: str, body: dict[str, Any] | None, status: int, tag: str
) -> None:
    assert api(method, path, body, if_match=tag).status == status


def test_if_match_makes_a_change_conditional(api: Client) -> None:
    assert api("PUT", S, HOOK, if_match="*").status == 412
    api("PUT", S, HOOK)
    assert api("PUT", S, HOOK, if_match='"1"').json["version"] == 2
    assert api("PUT", S, HOOK, if_match='"1"').status == 412
    assert api("PUT", S, HOOK, if_match='W/"2"').status == 412
    assert [api("PATCH", S, {}, if_match=tags).status for tags in ('W/"1","2"', '"1",W/"7","2"')] == [200, 200]
    assert api("PATCH", S, {}, if_match='"1",W/"2"').status == 412
    assert api("PUT", S, HOOK, if_match="2").status == 400
    assert api("DELETE", S, if_match='"1"').status == 412
    assert api("DELETE", S, if_match='"1", "2"').status == 204


def test_a_topic_is_changed_in_part_and_on_condition_of_its_version(api: Client) -> None:
    made = api("PUT", "/topics/t", {"ordering": "key", "retention_seconds": 60, "keep": "life"}, if_none_match="*")
    assert (made.status, made.headers["ETag"]) == (201, f'"{made.json["version"]}"')
    assert api("PUT", "/topics/t", {}, if_none_match="*").status == 412
    changed = api("PATCH", "/topics/t", {"max_message_bytes": 9}, if_match=made.headers["ETag"])
    kept = {name: changed.json[name] for name in ("ordering", "retention_seconds", "keep", "max_message_bytes")}
    assert kept == {"ordering": "key", "retention_seconds": 60, "keep": "life", "max_message_bytes": 9}
    assert changed.json["version"] > made.json["version"], "the clock stands still"
    assert api("GET", "/topics/t").headers["ETag"] == changed.headers["ETag"]
    for method in ("PATCH", "PUT", "DELETE"):
        assert api(method, "/topics/t", if_match=made.headers["ETag"]).status == 412
    assert api("PATCH", "/topics/t", {"retention_seconds": None}).json["retention_seconds"] == 86_400
    assert api("PATCH", "/topics/t", {"retention_seconds": 1, "size": None}).pointers == [
        "#/retention_seconds",
        "#/size",
    ]
    assert api("PATCH", "/topics/none", {}, if_match='"1"').status == 404
    assert api("DELETE", "/topics/t", if_match=api("GET", "/topics/t").headers["ETag"]).status == 204


@pytest.mark.parametrize("path", ["/topics/t", S])
def test_a_null_in_a_put_is_as_if_it_were_not_there(api: Client, path: str) -> None:
    kind = TopicBody if path == "/topics/t" else SubscriptionBody
    body = {} if kind is TopicBody else HOOK
    settings = [name for name in kind.model_fields if name not in body]
    plain = api("PUT", path, body).json

    nulls = api("PUT", path, body | dict.fromkeys(settings))

    assert (len(settings) > 4, nulls.status) == (True, 200), nulls.json
    changes = ("version", "updated_at")
    assert {**nulls.json, **dict.fromkeys(changes)} == {**plain, **dict.fromkeys(changes)}


def test_a_patch_of_a_topic_that_changes_nothing_leaves_its_version(api: Client) -> None:
    made = api("PUT", "/topics/t", {"retention_seconds": 3600}).json

    for patch in ({}, {"retention_seconds": 3600}, {"events_topic": None}):
        assert api("PATCH", "/topics/t", patch).json["version"] == made["version"]


def test_a_header_that_a_patch_gives_twice_is_refused(api: Client) -> None:
    api("PUT", S, HOOK)

    refused = api("PATCH", S, {"headers": {"X-C": "1", "x-c": "2"}})

    assert (refused.status, refused.pointers) == (422, ["#/headers/x-c"])
    assert "twice" in refused.json["errors"][0]["detail"]


def test_two_who_change_another_setting_of_a_topic_at_once_both_succeed(api: Client) -> None:
    before_the_next_transaction(api.fakes.store, lambda: api("PATCH", "/topics/orders", {"retention_seconds": 60}))
    shown = api("PATCH", "/topics/orders", {"max_message_bytes": 9}).json
    assert (shown["retention_seconds"], shown["max_message_bytes"]) == (60, 9)


def test_a_topic_that_changes_after_the_check_of_its_version_is_not_deleted(api: Client) -> None:
    tag = api("GET", "/topics/orders").headers["ETag"]
    before_the_next_transaction(api.fakes.store, lambda: api("PATCH", "/topics/orders", {"retention_seconds": 60}))
    assert api("DELETE", "/topics/orders", if_match=tag).status == 412
    assert api("DELETE", "/topics/orders").status == 204


SECRETS = {"secret": SECRET, "headers": {"Authorization": "Bearer 1", "X-Tenant": "a"}}


def hidden(api: Client) -> tuple[Any, ...]:
    settings = open_secrets(api.fakes.world, get_subscription(api.fakes.world, "orders", "a")).settings
    return settings.secret, settings.headers and dict(settings.headers), settings.client_certificate


def test_a_subscription_is_changed_in_part_and_its_secrets_stay(api: Client) -> None:
    headers = {"authorization": "Bearer 1", "x-tenant": "a"}
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 15}
    made = api("PUT", S, {**HOOK, **SECRETS, "retry": retry, "filter": {"kind": "tags", "tags": ["x"]}}).json
    assert made["signatures"] == ["v1"]
    changed = api("PATCH", S, {"timeout_seconds": 3, "retry": {"max_retries": 5}}, if_match='"1"')
    assert (changed.status, changed.headers["ETag"]) == (200, '"2"')
    times = {"updated_at": changed.json["updated_at"], "version": 2}
    assert changed.json == {**made, **times, "timeout_seconds": 3, "retry": {**retry, "max_retries": 5}}
    assert hidden(api) == (SECRET, headers, None)
    assert api("PATCH", S, {"headers": {"x-tenant": None, "X-More": "1"}}).json["signatures"] == ["v1"]
    assert hidden(api) == (SECRET, {"authorization": "Bearer 1", "x-more": "1"}, None)
    assert api("PATCH", S, {"secret": None, "signature": "v1a"}).json["signatures"] == ["v1a"]
    assert hidden(api)[:2] == (None, {"authorization": "Bearer 1", "x-more": "1"})
    told = api("PATCH", S, {"secret": "generate", "filter": None, "retry": None}).json
    assert (told["filter"], told["retry"]["max_retries"], told["signatures"]) == (None, "life", ["v1", "v1a"])
    assert hidden(api)[0] == told["secret"]
    assert api("PATCH", S, {}).json["version"] == told["version"]
    assert api("PATCH", S, {}, if_match='"1"').status == 412
    assert api("PATCH", "/topics/orders/subscriptions/none", {}).status == 404


@pytest.mark.parametrize("to_group", [True, False])
def test_a_patch_to_a_group_or_from_one_is_refused_as_a_put_is(api: Client, to_group: bool) -> None:
    pushed, group = {**HOOK, "secret": SECRET, "batch": None}, {"endpoint": {"protocol": "pull"}, "ordered": True}
    api("PUT", S, pushed if to_group else group)
    patch = {"endpoint": {"protocol": "pull", "url": None}} if to_group else HOOK

    for refused in (api("PATCH", S, patch), api("PUT", S, group if to_group else pushed)):
        assert (refused.status, refused.json["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("patch", "pointers"),
    [
        ({"timeout_seconds": 31, "colour": None}, ["#/timeout_seconds", "#/colour"]),
        ({"timeout_seconds": 31}, ["#/timeout_seconds"]),
        ({"retry": {"strategy": "EXPONENTIAL_DECAY_RETRY"}}, ["#/retry/interval_seconds"]),
        ({"filter": {"kind": "sql92", "expression": "a ="}}, ["#/filter/tags"]),
        ({"endpoint": None}, ["#/endpoint/url"]),
        ({"endpoint": {"url": "ftp://x"}}, ["#/endpoint/url"]),
        ({"endpoint": {"url": None, "protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"}}, ["#/headers"]),
        ({"batch": {"max_bytes": 2048}}, ["#/batch/max_messages"]),
        ({"headers": {"cookie": "a"}}, ["#/headers/cookie"]),
        ({"client_certificate": {"certificate": "x"}}, ["#/client_certificate/private_key"]),
    ],
)
def test_what_a_change_results_in_is_judged_as_a_put_is(api: Client, patch: Any, pointers: list[str]) -> None:
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 15}
    api("PUT", S, {**HOOK, **SECRETS, "retry": retry, "filter": {"kind": "tags", "tags": ["x"]}})
    refused = api("PATCH", S, patch)
    assert (refused.status, refused.pointers) == (422, pointers)
    assert api("GET", S).json["version"] == 1


def test_a_change_of_a_group_and_of_one_that_waits_for_consent_changes_nothing_else(api: Client) -> None:
    group = "/topics/orders/subscriptions/g"
    api("PUT", group, {"endpoint": {"protocol": "pull"}, "start_from": "earliest"})
    assert api("PATCH", group, {"filter": {"kind": "tags", "tags": ["x"]}}).json["start_from"] == "earliest"
    assert api("PATCH", group, {"secret": SECRET}).pointers == ["#/secret"]
    url, other = HOOK["endpoint"]["url"], "https://example.com/other"
    api.fakes.verifier.consents[url] = api.fakes.verifier.consents[other] = VerificationResult("http 404")
    api("PUT", S, {**HOOK, "verification": "required"})
    assert api("PATCH", S, {"timeout_seconds": 3}).json["state"] == "unverified"
    assert [asked for asked, _ in api.fakes.verifier.asked] == [url]
    assert api("PATCH", S, {"endpoint": {"url": other}}).json["state"] == "unverified"
    assert [asked for asked, _ in api.fakes.verifier.asked] == [url, other]
    assert "state" not in api("PATCH", S, {"verification": "none"}).json


def test_what_exists_is_not_replaced_where_that_is_said(api: Client) -> None:
    assert api("PUT", S, HOOK, if_none_match="*").status == 201
    assert api("PUT", S, {**HOOK, "timeout_seconds": 3}, if_none_match="*").status == 412
    assert api("PUT", S, HOOK, if_none_match='"1"').status == 400
    several = {"replace": False, "subscriptions": [{**HOOK, "name": "a"}, {**HOOK, "name": "b"}]}
    [refused, made] = api("POST", "/topics/orders/subscriptions/batch", several).json["results"]
    assert (refused["error"]["status"], made["name"], api("GET", S).json["version"]) == (412, "b", 1)


def test_every_fault_of_a_subscription_is_named_at_once(api: Client) -> None:
    body = {
        "endpoint": {"protocol": "https", "url": "http://x", "port": 1},
        "filter": {"kind": "tags", "tags": [""]},
        "retry": {"strategy": "BACKOFF_RETRY", "max_retries": 101},
        "timeout_seconds": True,
        "secret": "whsec_short",
    }
    refused = api("PUT", S, body)
    assert refused.status == 422
    assert sorted(refused.pointers) == [
        "#/endpoint/port",
        "#/endpoint/url",
        "#/filter/tags/0",
        "#/retry/max_retries",
        "#/secret",
        "#/timeout_seconds",
    ]
    assert "whsec_short" not in json.dumps(refused.json)
    assert api("GET", S).status == 404


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"endpoint": {"protocol": "ftp"}}, "#/endpoint/protocol"),
        ({"endpoint": {}}, "#/endpoint/protocol"),
        ({"retry": {"strategy": "LINEAR"}}, "#/retry/strategy"),
        ({"endpoint": {"protocol": "sqs"}}, "#/endpoint/queue_url"),
        ({"filter": "all"}, "#/filter"),
        ({"endpoint": {"protocol": "https", "url": "https://example.com:99999/"}}, "#/endpoint/url"),
        ({"endpoint": {"protocol": "https", "url": "https://user:pass@example.com/"}}, "#/endpoint/url"),
        ({"endpoint": {"protocol": "https", "url": "https://"}}, "#/endpoint/url"),
        ({"endpoint": {"protocol": "https", "url": "https:///x"}}, "#/endpoint/url"),
        ({"endpoint": {"protocol": "https", "url": "https://a b/"}}, "#/endpoint/url"),
    ],
)
def test_a_fault_in_a_choice_or_a_url_points_to_its_field(api: Client, change: dict[str, Any], pointer: str) -> None:
    assert api("PUT", S, HOOK | change).pointers == [pointer]


def test_a_message_is_published_shown_and_explained(api: Client) -> None:
    api("PUT", S, HOOK | {"filter": {"kind": "tags", "tags": ["apple"]}})
    sent = api("POST", "/topics/orders/messages", {"body": "hi", "tags": ["apple", "apple"]})
    assert (sent.status, sent.json["matched"]) == (201, 1)
    path = f"/topics/orders/messages/{sent.json['message_id']}"
    shown = api("GET", path).json
    assert (shown["body"], shown["tags"], shown["subscribers"]["a"]["state"]) == ("hi", ["apple"], "pending")
    assert api("GET", path + "/explain?subscription=a").status == 200
    assert api("GET", path + "/explain").pointers == ["#/subscription"]
    assert api("GET", "/topics/orders/messages").status == 200


def test_an_explanation_names_the_filter_function_that_gave_no_verdict(api: Client) -> None:
    api("PUT", S, HOOK | {"filter": {"kind": "function", "function": "rate"}})
    sent = api("POST", "/topics/orders/messages", {"body": "hi"}).json
    api.fakes.filter_functions.behaviours["a"] = lambda asked: None
    api.fakes.deliver()
    told = api("GET", f"/topics/orders/messages/{sent['message_id']}/explain?subscription=a").json
    assert told["delivery"]["state"] == "discarded"
    assert told["reason"].endswith(
        "(filter_error): the filter function rate gave no verdict. Check that it exists and may be invoked"
    )


def test_a_message_names_every_fault(api: Client) -> None:
    body = {"tags": ["a", "", 3, "b\n"], "properties": {"a b": "x", "c": 1}, "routing_key": "a..b", "size": 1}
    assert sorted(api("POST", "/topics/orders/messages", body).pointers) == [
        "#/body",
        "#/properties/a b",
        "#/properties/c",
        "#/routing_key",
        "#/size",
        "#/tags/1",
        "#/tags/2",
        "#/tags/3",
    ]
    assert api("POST", "/topics/orders/messages", {"body": "x", "body_base64": "AA=="}).pointers == ["#/body_base64"]
    assert api("POST", "/topics/orders/messages", {"body": "x" * 65_537}).status == 413


def test_nobody_but_the_service_makes_a_dead_letter(api: Client) -> None:
    forged = {"body": "x", "properties": {"dead_letter_of": "0" * 20, "dead_letters": "mine"}}
    answer = api("POST", "/topics/orders/messages", forged)
    assert (answer.status, answer.pointers) == (422, ["#/properties/dead_letter_of"])
    [result] = api("POST", "/topics/orders/messages/batch", {"messages": [forged]}).json["results"]
    assert result["error"]["errors"][0]["pointer"] == "#/properties/dead_letter_of"
    api("PUT", S, HOOK)
    archived = {"messages": [forged | {"replay_of": "0" * 20}]}
    assert api("POST", S + "/replay", archived).json["results"][0]["matched"] == 1


def test_each_message_of_a_batch_stands_on_its_own(api: Client) -> None:
    messages = [{"body": "one"}, {"tags": [1], "body": "x"}, {"body": "x" * 65_537}, {"body_base64": "AAEC"}]
    batch = api("POST", "/topics/orders/messages/batch", {"messages": messages})
    assert [result.get("error", {}).get("status", 201) for result in batch.json["results"]] == [201, 422, 413, 201]
    assert batch.json["results"][1]["error"]["errors"][0]["pointer"] == "#/tags/0"
    too_many = api("POST", "/topics/orders/messages/batch", {"messages": [{"body": "x"}] * 101})
    assert (too_many.status, too_many.pointers) == (422, ["#/messages"])
    assert api("POST", "/topics/orders/messages/batch", " " * (4 * 1024 * 1024 + 1)).status == 413


def test_a_batch_is_repeated_message_by_message_whatever_its_topic_allows_now(api: Client) -> None:
    send = ("POST", "/topics/orders/messages/batch", {"messages": [{"body": "x" * 1_100}, {"body": "small"}]})

    def limited(max_message_bytes: int) -> list[str]:
        api("PATCH", "/topics/orders", {"max_message_bytes": max_message_bytes})
        results = api(*send, idempotency_key="k").json["results"]
        return [result.get("message_id") or result["error"]["code"] for result in results]

    [refused, small] = limited(1_024)
    [big, again] = limited(2_048)
    assert (refused, again, big == small) == ("too_large", small, False)
    assert limited(1_024) == [big, small]


def test_a_corrected_batch_under_the_key_of_the_first_one_publishes_nothing(api: Client) -> None:
    send = ("POST", "/topics/orders/messages/batch")
    first = api(*send, {"messages": [{"bdy": "a"}, {"body": "b"}]}, idempotency_key="k")
    assert [result.get("message_id") is None for result in first.json["results"]] == [True, False]

    corrected = {"messages": [{"body": "a"}, {"body": "b"}]}
    assert api(*send, corrected, idempotency_key="k").status == 409
    assert sum(key.pk.startswith("MSG#") for key in api.fakes.store.rows) == 1
    assert api(*send, corrected, idempotency_key="k2").status == 200


def test_an_idempotency_key_repeats_the_first_answer(api: Client) -> None:
    send = ("POST", "/topics/orders/messages")
    first = api(*send, {"body": "hi"}, idempotency_key="k")
    assert api(*send, {"body": "hi"}, idempotency_key="k").json == first.json
    assert api(*send, {"body": "other"}, idempotency_key="k").status == 409
    assert api(*send, {"body": "hi"}, idempotency_key="k" * 129).status == 400


def test_a_message_is_accepted_again_under_its_key_if_its_topic_allows_less_now(api: Client) -> None:
    api("PUT", S, HOOK)
    one, many = ("POST", "/topics/orders/messages"), ("POST", S + "/replay")
    big = {"body": "x" * 1_100}
    archived = {"messages": [big | {"replay_of": "0" * 20}]}
    first, replayed = api(*one, big, idempotency_key="k").json, api(*many, archived, idempotency_key="r").json
    api("PATCH", "/topics/orders", {"max_message_bytes": 1_024})

    assert api(*one, big, idempotency_key="k").json == first
    assert api(*many, archived, idempotency_key="r").json == replayed
    assert api(*one, big, idempotency_key="other").status == api(*one, big).status == 413


def test_an_archived_message_is_published_again_for_one_subscription(api: Client) -> None:
    api("PUT", S, HOOK | {"filter": {"kind": "tags", "tags": ["apple"]}})
    api("PUT", "/topics/orders/subscriptions/b", HOOK)
    old = "0" * 19 + "7"
    again = {"body": "hi", "tags": ["apple"], "replay_of": old}
    messages = [again, {"body": "no", "replay_of": old}, {"body": "x"}, again | {"body": "x" * 65_537}]
    results = api("POST", S + "/replay", {"messages": messages}).json["results"]
    assert [result.get("matched") for result in results] == [1, 0, None, None]
    assert [result["error"]["status"] for result in results[2:]] == [422, 413]
    assert results[2]["error"]["errors"][0]["pointer"] == "#/replay_of"
    path = f"/topics/orders/messages/{results[0]['message_id']}"
    shown = api("GET", path).json
    assert (shown["replay_of"], list(shown["subscribers"])) == (old, ["a"])
    told = api("GET", path + "/explain?subscription=b").json
    assert (told["received"], told["reason"]) == (False, f"a replay of {old} for another subscription")
    api.fakes.deliver()
    [push] = api.fakes.pusher.pushes
    assert (push.subscription.name, push.message.replay_of) == ("a", old)
    assert api("POST", "/topics/orders/subscriptions/nobody/replay", {"messages": []}).status == 404


def test_a_repeated_replay_is_one_and_its_key_is_for_one_subscription_only(api: Client) -> None:
    api("PUT", S, HOOK)
    api("PUT", "/topics/orders/subscriptions/b", HOOK)
    body = {"messages": [{"body": "hi", "replay_of": "0" * 20}]}
    first = api("POST", S + "/replay", body, idempotency_key="k")
    assert api("POST", S + "/replay", body, idempotency_key="k").json == first.json
    assert api("POST", "/topics/orders/subscriptions/b/replay", body, idempotency_key="k").status == 409


@pytest.mark.parametrize(
    "body",
    ["{", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1e999}', "[" * 100_000, "9" * 5_000, "\ufeff{}"],
)
def test_what_is_not_json_is_malformed(api: Client, body: str) -> None:
    assert api("PUT", "/topics/orders", body).status == 400


def test_a_body_that_says_it_is_something_else_than_json_is_an_unsupported_media_type(api: Client) -> None:
    refused = api("PUT", "/topics/orders", {}, content_type="text/plain")
    assert (refused.status, refused.json["code"]) == (415, "unsupported_media_type")
    assert api("PUT", "/topics/orders", {}, content_type="application/json; charset=latin-1").status == 415
    assert api("PUT", "/topics/orders", {}, content_encoding="gzip").status == 415
    assert api("PUT", "/topics/orders", {}, content_type="application/json; charset=UTF-8").status == 200


def test_a_bad_name_is_a_fault_beside_those_of_the_body(api: Client) -> None:
    assert api("PUT", "/topics/9lives", {"size": 1}).pointers == ["#/topic", "#/size"]
    assert api("GET", "/topics/%41bc").status == 404


def test_an_unknown_path_is_404_and_a_known_one_says_which_methods_it_has(api: Client) -> None:
    for path in ("/nowhere", "/topics/"):
        refused = api("GET", path)
        assert refused.status == 404
        assert refused.json["detail"] == "the path does not exist; GET /openapi.json lists the paths"
    refused = api("PATCH", "/topics/orders/messages")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("name", ['a"b', "a#b", "a\\b", "a b", "a\n"])
def test_a_name_is_refused_for_what_it_is_whatever_stands_in_it(api: Client, name: str) -> None:
    refused = api("GET", f"/topics/{name}")
    assert (refused.status, refused.pointers) == (422, ["#/topic"])


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/topics/orders", 200), ("/v1/topics/none", 404), ("/topics/orders", 200)]
)
def test_the_stage_before_a_path_is_left_out(api: Client, path: str, status: int) -> None:
    context = {"stage": "v1", "requestId": "r-1", "http": {"method": "GET", "path": path}}
    event = {"version": "2.0", "rawPath": path, "rawQueryString": "", "requestContext": context}
    assert manage.handle(event, api.fakes.world)["statusCode"] == status


def test_a_filter_is_tried_without_a_trace(api: Client) -> None:
    body = {"filter": {"kind": "tags", "tags": ["apple"]}, "message": {"tags": ["apple"]}}
    assert api("POST", "/filters/test", body).json["verdict"] == "matched"
    doubtful = {**body, "filter": {"kind": "sql92", "expression": "region = eu"}}
    assert "is a text, write" in api("POST", "/filters/test", doubtful).json["warnings"][0]
    assert "warnings" not in api("POST", "/filters/test", body).json
    tried = api("POST", "/filters/test", {"filter": {"kind": "function", "function": "rate"}, "message": {}}).json
    assert tried["warnings"] == ["the function rate was not called: it decides before the first push"]
    refused = api("POST", "/filters/test", {"filter": {"kind": "x"}, "message": {"tags": [1]}})
    assert sorted(refused.pointers) == ["#/filter/kind", "#/message/tags/0"]


def test_a_faulty_shadow_is_refused_with_pointers(api: Client) -> None:
    api("PUT", S, HOOK)
    assert api("PUT", S + "/shadow", {}).pointers == ["#/filter"]
    assert api("PUT", S + "/shadow", {"filter": {"kind": "tags", "tags": [""]}}).pointers == ["#/filter/tags/0"]
    function = {"kind": "function", "function": "f"}
    assert api("PUT", S + "/shadow", {"filter": function}).pointers == ["#/filter/kind"]
    assert api("POST", S + "/shadow/promote", {"shadow_version": 0}).pointers == ["#/shadow_version"]
    api("PUT", S, HOOK | {"filter": function})
    assert api("PUT", S + "/shadow", {"filter": None}).status == 409


@pytest.mark.parametrize(
    ("endpoint", "pointer"),
    [
        ({"protocol": "https", "url": "https://10.0.0.1/"}, "#/endpoint/url"),
        ({"protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:123456789012:orders"}, "#/endpoint/arn"),
        ({"protocol": "sqs", "queue_url": "https://sqs.test/1/orders"}, "#/endpoint/queue_url"),
        ({"protocol": "lambda", "function": "bill"}, "#/endpoint/function"),
    ],
)
def test_a_refused_endpoint_points_to_the_field_that_it_has(api: Client, endpoint: Any, pointer: str) -> None:
    closed = SimpleNamespace(refusal=lambda endpoint: "is not allowed")
    lambdas, webhook = {"protocol": "lambda", "function": "f"}, {"protocol": "https", "url": "https://example.com/"}
    other = lambdas if "url" in endpoint else webhook
    api("PUT", S, {"endpoint": other})
    api.fakes.world = replace(api.fakes.world, guard=closed)
    assert api("PUT", S, {"endpoint": endpoint}).pointers == [pointer]
    assert api("PATCH", S, {"endpoint": dict.fromkeys(other) | endpoint}).pointers == [pointer]


def test_every_answer_about_one_group_has_its_queue_and_its_warnings(api: Client) -> None:
    api.fakes.world = replace(api.fakes.world, dead_letter_topics=(("*", "*"),))
    group = {"endpoint": {"protocol": "pull"}, "dead_letter_topic": "letters"}
    api("PUT", S, group)
    api("PUT", S + "/shadow", {"filter": None})

    for method, path, body in (
        ("POST", "/shadow/promote", {}),
        ("PUT", "/filter", {"filter": None}),
        ("PATCH", "", {"filter": None}),
        ("PUT", "", group),
        ("GET", "", None),
    ):
        shown = api(method, S + path, body).json
        assert (shown["lane"]["queued"], len(shown["warnings"])) == (0, 1), path


class BrokenStore:
    """A table of which nothing can be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get(self, key: object) -> None:
        raise self.error


def aws_error(code: str, *reasons: str) -> ClientError:
    cancelled = {"CancellationReasons": [{"Code": reason} for reason in reasons]}
    return ClientError({"Error": {"Code": code}, **cancelled}, "GetItem")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (aws_error("ProvisionedThroughputExceededException"), 429),
        (aws_error("ThrottlingException"), 429),
        (aws_error("RequestLimitExceeded"), 429),
        (aws_error("TransactionCanceledException", "None", "ThrottlingError"), 429),
        (ContendedError(), 503),
    ],
)
def test_a_throttled_table_and_rows_that_others_hold_are_a_reason_to_come_again_soon(
    api: Client, error: Exception, status: int
) -> None:
    api.fakes.world = replace(api.fakes.world, store=BrokenStore(error))  # type: ignore[arg-type]
    refused = api("POST", "/topics/orders/messages", {"body": "x"})
    assert (refused.status, refused.headers["Retry-After"]) == (status, "1")


@pytest.mark.parametrize("target", ["/topics/t", S])
def test_a_throttled_write_asks_to_come_again(api: Client, target: str) -> None:
    with throttled(api.fakes.store):
        refused = api("PUT", target, {} if target == "/topics/t" else HOOK)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")


def test_a_message_in_order_that_the_queue_does_not_take_is_asked_for_again(api: Client) -> None:
    api("PUT", S, HOOK | {"retry": {"strategy": "BACKOFF_RETRY"}})
    api.fakes.queue.broken = True
    refused = api("POST", "/topics/orders/messages", {"body": "x"})

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert refused.json["code"] == "unavailable"


@pytest.mark.parametrize("function", ["tagcast-manage", "arn:aws:lambda:eu-west-1:123456789012:function:Tagcast-x:7"])
def test_a_function_of_the_service_is_no_filter(api: Client, function: str) -> None:
    api.fakes.world = replace(api.fakes.world, guard=Guard(Reach.ANY, own_functions="tagcast-"))
    own = {"filter": {"kind": "function", "function": function}}
    api("PUT", S, HOOK)

    together = {"subscriptions": [HOOK | {"name": "other"} | own]}
    [refused] = api("POST", "/topics/orders/subscriptions/batch", together).json["results"]
    answers = [api("PUT", S, HOOK | own), api("PATCH", S, own), api("PUT", S + "/filter", own)]

    assert [answer.status for answer in answers] == [422, 422, 422]
    told = [*(answer.json["errors"][0] for answer in answers), refused["error"]["errors"][0]]
    assert {(fault["code"], fault["detail"]) for fault in told} == {
        ("refused", "begins with the stack's name and -, like the functions of the service")
    }
    assert {fault["pointer"] for fault in told} == {"#/filter/function"}
    assert api("GET", S).json["filter"] is None


def test_the_unforeseen_answers_nothing_but_an_id(api: Client, capsys: pytest.CaptureFixture[str]) -> None:
    api.fakes.world = replace(api.fakes.world, store=BrokenStore(ValueError("table on fire")))  # type: ignore[arg-type]
    answer = api("PUT", S, HOOK | {"secret": SECRET})
    assert (answer.status, answer.json["request_id"]) == (500, "r-1")
    assert "fire" not in json.dumps(answer.json)
    assert "whsec" not in capsys.readouterr().out
    assert api.fakes.telemetry.counts["Failed"] == 1


def test_a_filter_is_replaced_alone_and_only_in_the_version_that_was_meant(api: Client) -> None:
    made = api("PUT", S, {**HOOK, "timeout_seconds": 7, "secret": SECRET}).json
    changed = api("PUT", S + "/filter", {"filter": {"kind": "tags", "tags": ["a"]}}, **{"if-match": '"1"'})

    assert (changed.status, changed.headers["ETag"]) == (200, '"2"')
    told = changed.json["filter"], changed.json["version"], changed.json["timeout_seconds"]
    assert told == ({"kind": "tags", "tags": ["a"]}, 2, made["timeout_seconds"])
    assert open_secrets(api.fakes.world, get_subscription(api.fakes.world, "orders", "a")).settings.secret == SECRET
    assert api("PUT", S + "/filter", {"filter": None}, **{"if-match": '"1"'}).status == 412
    assert api("PUT", S + "/filter", {"filter": {"kind": "tags"}}).status == 422
    assert api("PUT", S + "/filter", {}).pointers == ["#/filter"]
    assert api("PUT", S + "/filter", {"filter": None}).json["filter"] is None
    assert api("PUT", S + "x/filter", {"filter": None}).status == 404
    assert [each["version"] for each in api("GET", S + "/versions").json["versions"]] == [3, 2, 1]


def test_the_document_is_current() -> None:
    assert json.loads((ROOT / "docs" / "openapi.json").read_text()) == description()
    assert Client()("GET", "/openapi.json").json == description()
    assert Client()("GET", "/health").json["status"] == "ok"


def test_a_group_shows_from_when_on_it_gets_messages_and_only_a_group_has_that(api: Client) -> None:
    group = {"endpoint": {"protocol": "pull"}}
    assert api("PUT", S, group).json["start_from"] == "latest"
    for name, asked, shown in (
        ("b", "earliest", "earliest"),
        ("c", "2026-11-22T09:00:00+01:00", "2026-11-22T08:00:00.000Z"),
    ):
        made = api("PUT", f"/topics/orders/subscriptions/{name}", {**group, "start_from": asked})
        assert (made.status, made.json["start_from"]) == (201, shown)
        assert api("GET", f"/topics/orders/subscriptions/{name}").json["lane"]["filling"] is True
    client = api("PUT", f"{S}/members/1", {"filter": None, "start_from": "earliest"})
    assert client.status == 200
    assert api("GET", S).json["start_from"] == "latest"
    for wrong in ("yesterday", "2026-11-22T09:00:00", "2026-13-22T09:00:00Z", "9999-12-31T23:59:59-14:00", 0):
        assert api("PUT", S, {**group, "start_from": wrong}).pointers == ["#/start_from"]
        assert api("PUT", f"{S}/members/1", {"filter": None, "start_from": wrong}).pointers == ["#/start_from"]
    assert api("PUT", "/topics/orders/subscriptions/d", {**HOOK, "start_from": "latest"}).pointers == ["#/start_from"]


def test_a_topic_says_how_long_bodies_are_kept_and_a_message_that_it_is(api: Client) -> None:
    assert api("GET", "/topics/orders").json["keep"] == "pending"
    assert api("PUT", "/topics/orders", {"keep": "life"}).json["keep"] == "life"
    sent = api("POST", "/topics/orders/messages", {"body": "x"}).json["message_id"]
    kept = api("GET", f"/topics/orders/messages/{sent}").json
    assert (kept["state"], kept["body"]) == ("kept", "x")
    assert api("PUT", "/topics/orders", {}).json["keep"] == "pending"
    assert api("GET", f"/topics/orders/messages/{sent}").json["state"] == "kept"
