"""What one signature stands for, and which topics a key is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from urllib.parse import parse_qsl, urlencode

import pytest
from tagcast_aws.cmq.authentication import string_to_sign
from tagcast_aws.cmq.form import Form
from tagcast_aws.cmq.keys import KeyRing

from tests.cmq.asking import HOST, KEY, Asking, event_of, pair_of

NOT_FOR_IT = (4100, 10030)
PUSHED = {"subscriptionName": "s", "protocol": "http", "endpoint": "http://example.test/"}


COMMON = "&Nonce=77&SecretId=AKIDexampleSecretId0001&SignatureMethod=HmacSHA256&Timestamp=1800000000"
"""What every request has, in the value of another one."""


def with_topics(*topics: str) -> Asking:
    asking = Asking()
    for topic in topics:
        assert asking.pair("CreateTopic", topicName=topic) == (0, 0)
        assert asking.pair("Subscribe", topicName=topic, **PUSHED) == (0, 0)
    return asking


def readings(signed: str) -> Iterator[dict[str, str]]:
    """Everything that a signed form could be read as under the signature that it has."""
    parameters = dict(parse_qsl(signed, keep_blank_values=True))
    signature = {"Signature": parameters["Signature"]}
    text = string_to_sign(Form("POST", HOST, "/v2/index.php", parameters, 0))
    first, *others = text.partition("?")[2].split("&")
    for cuts in range(2 ** len(others)):
        pairs = [first]
        for place, part in enumerate(others):
            if cuts >> place & 1:
                pairs.append(part)
            else:
                pairs[-1] += f"&{part}"
        if not all("=" in pair for pair in pairs):
            continue
        read = {name: value for name, _, value in (pair.partition("=") for pair in pairs)} | signature
        if string_to_sign(Form("POST", HOST, "/v2/index.php", read, 0)) == text and read != parameters:
            yield read


@pytest.mark.parametrize(
    "injected",
    [
        "&topicName=payments&zz=1",
        "&topicName=payments&topicName=orders",
        "&routingKey=a&topicName=payments",
        "&TopicName=payments&msgBody=b",
        f"{COMMON}&TopicName=payments&msgBody=b",
        f"{COMMON}&TopicName=payments&appId=b",
        f"{COMMON}&TopicName=payments&routingKey=b",
        "&msgTag.1=a&topicName=payments&topicname=b",
        f"{COMMON}&TopicName=payments&region=b",
        "&searchWord=b&topicName=payments",
    ],
)
@pytest.mark.parametrize("spelled", [("msgBody", "topicName"), ("MsgBody", "TopicName"), ("MsgBody", "topicName")])
def test_no_reading_of_a_signed_request_publishes_to_another_topic(injected: str, spelled: tuple[str, str]) -> None:
    body, topic = spelled
    signed = Asking(nonces=count(1_000)).signed({"Action": "PublishMessage", body: f"hi{injected}", topic: "orders"})
    asking = with_topics("orders", "payments")
    before = {key: row for key, row in asking.stored().items() if "payments" in key.pk}
    tried = 0
    for reading in readings(signed):
        assert "already accepted" not in asking.serve(event_of(urlencode(reading)))["message"]
        asking.forget_requests()
        tried += 1
        assert {key: row for key, row in asking.stored().items() if "payments" in key.pk} == before, reading
    assert tried > 0


def test_a_signed_body_may_be_read_as_a_shorter_one_with_tags_which_cmq_cannot_tell_apart() -> None:
    asking = with_topics("orders")
    signed = Asking(nonces=count(1_000)).signed(
        {"Action": "PublishMessage", "msgBody": "hi&msgTag.1=a", "topicName": "orders"}
    )
    [reading] = [each for each in readings(signed) if each.get("msgBody") == "hi" and len(each) == 9]

    assert pair_of(asking.serve(event_of(urlencode(reading)))) == (0, 0)


@pytest.mark.parametrize(
    "name", ["zz", "queueName", "appId", "secretId", "msgTag", "msgBody.1", "topicName.1", "msgTag_1", "", "."]
)
def test_a_parameter_that_its_action_does_not_know_is_refused_and_nothing_is_stored(name: str) -> None:
    asking = with_topics("orders")
    before = asking.stored()
    form = asking.signed({"Action": "PublishMessage", "topicName": "orders", "msgBody": "x", name: "1"})

    assert pair_of(asking.serve(event_of(form))) == (4000, 10320)
    assert asking.stored() == before


@pytest.mark.parametrize("twice", ["TopicName", "MsgBody", "action"])
def test_a_parameter_in_two_spellings_is_given_twice(twice: str) -> None:
    asking = with_topics("orders")
    form = asking.signed({"Action": "PublishMessage", "topicName": "orders", "msgBody": "x", twice: "PublishMessage"})

    assert pair_of(asking.serve(event_of(form))) == (4000, 10330)


def test_a_key_is_for_its_topics_and_no_others() -> None:
    asking = with_topics("orders", "payments")
    asking.secret.ring = KeyRing((replace(KEY, topics=("orders", "new-?")),))
    before = asking.stored()
    one = {"subscriptionName": "s"}
    others: dict[str, dict[str, str]] = {
        "PublishMessage": {"msgBody": "x"},
        "BatchPublishMessage": {"msgBody.1": "x"},
        "Subscribe": {**PUSHED, "subscriptionName": "mine"},
        "Unsubscribe": one,
        "SetSubscriptionAttributes": {**one, "notifyStrategy": "BACKOFF_RETRY"},
        "GetSubscriptionAttributes": one,
        "ClearSubscriptionFilterTags": one,
        "ListSubscriptionByTopic": {},
        "GetTopicAttributes": {},
        "SetTopicAttributes": {"maxMsgSize": "2048"},
        "DeleteTopic": {},
    }
    for action, fields in others.items():
        for topic in ("topicName", "TopicName"):
            form = asking.signed({"Action": action, topic: "payments", **fields})
            assert pair_of(asking.serve(event_of(form))) == NOT_FOR_IT, action
    assert asking.pair("CreateTopic", topicName="order") == NOT_FOR_IT
    assert asking.pair("ListTopic") == NOT_FOR_IT
    assert asking.stored() == before

    assert asking.pair("PublishMessage", topicName="orders", msgBody="x") == (0, 0)
    assert asking.pair("CreateTopic", topicName="new-1") == (0, 0)
    assert asking.pair("CreateTopic", topicName="new-10") == NOT_FOR_IT


def test_a_key_for_all_topics_lists_them() -> None:
    asking = with_topics("orders")
    asking.secret.ring = KeyRing((replace(KEY, topics=("new", "*")),))

    assert asking.ask("ListTopic")["totalCount"] == 1
