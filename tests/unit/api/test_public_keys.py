"""The public keys of a subscription stand in its answers, and in no others'."""

import base64
from typing import Any

import pytest
from nacl.signing import VerifyKey
from tagcast.pushing.envelope import http_request

from tests.unit.api.test_http_api import Client, Reply

S = "/topics/test1/subscriptions"
HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
SIGNED = HOOK | {"signature": "v1a"}


@pytest.fixture
def ask() -> Client:
    client = Client()
    client("PUT", "/topics/test1", {})
    return client


def key_of(reply: Reply) -> Any:
    [key] = reply.json["public_keys"]
    return key


def test_every_answer_about_a_subscription_that_is_signed_tells_its_public_key(ask: Client) -> None:
    key = key_of(ask("PUT", f"{S}/A", SIGNED))

    assert key.startswith("whpk_")
    answers = [
        ask("GET", f"{S}/A"),
        ask("PUT", f"{S}/A", SIGNED | {"timeout_seconds": 3}),
        ask("PUT", f"{S}/A/filter", {"filter": None}),
        ask("POST", f"{S}/A/verify", {}),
        ask("POST", f"{S}/A/secret/rotate", {}),
    ]
    ask("PUT", f"{S}/A/shadow", {"filter": {"kind": "tags", "tags": ["a"]}})
    answers.append(ask("POST", f"{S}/A/shadow/promote", {}))
    assert [key_of(each) for each in answers] == [key] * 6
    [listed] = ask("GET", S).json["subscriptions"]
    assert listed["public_keys"] == [key]


def test_each_subscription_has_a_key_of_its_own_and_one_that_is_made_anew_another(ask: Client) -> None:
    named = [SIGNED | {"name": "A"}, HOOK | {"name": "B"}, {"name": "C"}, SIGNED | {"name": "D"}]
    first, unsigned, refused, other = ask("POST", f"{S}/batch", {"subscriptions": named}).json["results"]
    ask("DELETE", f"{S}/A")
    again = key_of(ask("PUT", f"{S}/A", SIGNED))

    assert len({*first["public_keys"], *other["public_keys"], again}) == 3
    assert "public_keys" not in unsigned
    assert "public_keys" not in ask("GET", f"{S}/B").json
    assert "error" in refused


def test_while_the_seeds_cannot_be_read_all_else_is_answered(ask: Client) -> None:
    key = key_of(ask("PUT", f"{S}/A", SIGNED))
    ask.fakes.signer.broken = True

    answers = [ask("PUT", f"{S}/A", SIGNED), ask("GET", f"{S}/A"), ask("GET", S)]

    assert [each.status for each in answers] == [200, 200, 200]
    assert all(key not in str(each.json) for each in answers)
    assert (answers[1].json["signature"], answers[1].json["public_keys"]) == ("v1a", [])


def test_a_push_verifies_by_the_key_that_is_told(ask: Client) -> None:
    key = VerifyKey(base64.b64decode(key_of(ask("PUT", f"{S}/A", SIGNED)).removeprefix("whpk_")))
    [message_id] = ask.fakes.publish("1")
    ask.fakes.deliver()

    [push] = [push for push in ask.fakes.pusher.pushes if push.message.message_id == message_id]
    request = http_request(push, 1_700_000_000_000, "1", sign=ask.fakes.signer.sign)
    signature = base64.b64decode(request.headers["webhook-signature"].removeprefix("v1a,"))
    key.verify(f"{message_id}.1700000000.".encode() + request.body, signature)
