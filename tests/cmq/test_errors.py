"""Every pair of numbers that the endpoint answers, brought about by a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError
from tagcast.errors import ConflictError, ContendedError
from tagcast.rows.keys import MESSAGE_PARTITION
from tagcast.tables import Write
from tagcast_aws.cmq.errors import CmqFault, error_of
from tagcast_aws.endpoints.guard import Guard

from tests.cmq.asking import KEY, Asking, event_of, pair_of
from tests.fakes.raced_store import throttled

URL = "http://example.test/"
S = {"topicName": "t", "subscriptionName": "s"}
HTTP = {**S, "protocol": "http", "endpoint": URL}
NEW = {**HTTP, "subscriptionName": "new"}


def numbered(name: str, *values: str) -> dict[str, str]:
    return {f"{name}.{place}": value for place, value in enumerate(values, 1)}


SIX = tuple("abcdef")
SIGNED: dict[CmqFault, tuple[str, dict[str, str]]] = {
    CmqFault.KEY_FORMAT: ("PublishMessage", {"topicName": "t", "msgBody": "x", "msgTag.x": "a"}),
    CmqFault.OUT_OF_RANGE: ("CreateTopic", {"topicName": "new", "maxMsgSize": "1023"}),
    CmqFault.TYPE: ("CreateTopic", {"topicName": "new", "maxMsgSize": "many"}),
    CmqFault.BATCH_SIZE: ("BatchPublishMessage", {"topicName": "t", **numbered("msgBody", *"abcdefghijklmnopq")}),
    CmqFault.NOT_CONSECUTIVE: ("BatchPublishMessage", {"topicName": "t", "msgBody.1": "a", "msgBody.3": "b"}),
    CmqFault.LACKS: ("CreateTopic", {}),
    CmqFault.UNKNOWN_PARAMETER: ("CreateTopic", {"topicName": "new", "zz": "1"}),
    CmqFault.UNKNOWN_ACTION: ("CreateQueue", {"queueName": "q"}),
    CmqFault.EMPTY_BODY: ("PublishMessage", {"topicName": "t", "msgBody": ""}),
    CmqFault.TAGS_OF_SUBSCRIBE: ("Subscribe", {**NEW, **numbered("filterTag", *SIX)}),
    CmqFault.ENDPOINT_FORMAT: ("Subscribe", {**NEW, "endpoint": "https://example.test/"}),
    CmqFault.PROTOCOL: ("Subscribe", {**NEW, "protocol": "smtp"}),
    CmqFault.STRATEGY: ("Subscribe", {**NEW, "notifyStrategy": "NEVER"}),
    CmqFault.CONTENT_FORMAT: ("Subscribe", {**NEW, "notifyContentFormat": "XML"}),
    CmqFault.HAS_SUBSCRIPTIONS: ("DeleteTopic", {"topicName": "t"}),
    CmqFault.SUBSCRIPTION_NAME: ("Subscribe", {**NEW, "subscriptionName": "1st"}),
    CmqFault.SUBSCRIPTION_NAME_LENGTH: ("Subscribe", {**NEW, "subscriptionName": "s" * 65}),
    CmqFault.TOPIC_NAME: ("CreateTopic", {"topicName": "a b"}),
    CmqFault.ILLEGAL_ENDPOINT: ("Subscribe", {**NEW, "endpoint": "http://169.254.169.254/"}),
    CmqFault.FILTER_TAGS: ("SetSubscriptionAttributes", {**S, **numbered("filterTag", *SIX)}),
    CmqFault.BINDING_KEYS: ("Subscribe", {**NEW, **numbered("bindingKey", *SIX)}),
    CmqFault.DOTS: ("PublishMessage", {"topicName": "t", "msgBody": "x", "routingKey": ".".join("a" * 17)}),
    CmqFault.NO_ROUTING_KEY: ("PublishMessage", {"topicName": "bound", "msgBody": "x", "routingKey": ""}),
    CmqFault.NO_BINDING_KEY: ("Subscribe", {**NEW, "topicName": "bound"}),
    CmqFault.MESSAGE_TAGS: ("PublishMessage", {"topicName": "t", "msgBody": "x", **numbered("msgTag", *SIX)}),
    CmqFault.BODY_SIZE: ("PublishMessage", {"topicName": "t", "msgBody": "x" * 65_537}),
    CmqFault.ABSENT: ("GetTopicAttributes", {"topicName": "other"}),
    CmqFault.TOPIC_EXISTS: ("CreateTopic", {"topicName": "t"}),
    CmqFault.BATCH_BYTES: ("BatchPublishMessage", {"topicName": "t", **numbered("msgBody", *["x" * 65_537] * 16)}),
    CmqFault.SUBSCRIPTION_EXISTS: ("Subscribe", HTTP),
    CmqFault.SUBSCRIPTIONS: ("Subscribe", {**NEW, "topicName": "full"}),
    CmqFault.BLANK_IN_URL: ("Subscribe", {**NEW, "endpoint": "http://example.test/a b"}),
    CmqFault.NO_SUBSCRIPTION: ("PublishMessage", {"topicName": "bare", "msgBody": "x"}),
    CmqFault.NO_MATCH: ("PublishMessage", {"topicName": "t", "msgBody": "x", "msgTag.1": "imac"}),
    CmqFault.FILTERS: ("Subscribe", {**NEW, **numbered("filterTag", *SIX), **numbered("bindingKey", *SIX)}),
    CmqFault.REPEATED: ("PublishMessage", {"topicName": "t", "msgBody": "x", "msgTag.1": "a", "MsgTag.1": "b"}),
    CmqFault.SECRET_ID: ("ListTopic", {"SecretId": "LTAI1"}),
    CmqFault.UNKNOWN_SECRET_ID: ("ListTopic", {"SecretId": "AKIDother"}),
}


def prepared() -> Asking:
    asking = Asking()
    asking.fake.world = replace(asking.fake.world, guard=Guard(lookup=lambda host: ["93.184.215.14"]))
    for name, filter_type in (("t", "1"), ("bare", "1"), ("bound", "2"), ("full", "1")):
        assert asking.pair("CreateTopic", topicName=name, filterType=filter_type) == (0, 0)
    assert asking.pair("Subscribe", **HTTP, **numbered("filterTag", "apple")) == (0, 0)
    [key] = [key for key in asking.fake.store.rows if (key.pk, key.sk) == ("TOPIC#full", "TOPIC")]
    asking.fake.store.rows[key] = {**asking.fake.store.rows[key], "subscription_count": 500}
    return asking


def unsigned(**parameters: str) -> Callable[[Asking], dict[str, Any]]:
    return lambda asking: asking.serve(event_of(urlencode(parameters)))


def _revoked(asking: Asking) -> dict[str, Any]:
    asking.secret.ring = asking.secret.ring.with_revoked(KEY.secret_id, 1)
    return asking.ask("ListTopic")


def _failing(error: Exception) -> Callable[[Asking], dict[str, Any]]:
    def ask(asking: Asking) -> dict[str, Any]:
        transact = asking.fake.store.transact

        def fail(writes: Sequence[Write]) -> None:
            if writes[0].key.sk == "TOPIC":
                raise error
            transact(writes)

        asking.fake.store.transact = fail  # type: ignore[method-assign]
        return asking.ask("CreateTopic", topicName="new")

    return ask


OTHERWISE: dict[CmqFault, Callable[[Asking], dict[str, Any]]] = {
    CmqFault.NOTHING_GIVEN: lambda asking: asking.serve(event_of("")),
    CmqFault.NOTHING_IN_URI: lambda asking: asking.serve(event_of("", method="GET")),
    CmqFault.METHOD: lambda asking: asking.serve(event_of("a=b", method="PUT")),
    CmqFault.UNREADABLE: lambda asking: asking.serve(event_of("a=%ff")),
    CmqFault.ACCOUNT: unsigned(appId="1", Action="ListTopic"),
    CmqFault.SIGNATURE: unsigned(SecretId=KEY.secret_id, Nonce="1", Timestamp="1", Signature="x"),
    CmqFault.NO_ACTION: lambda asking: asking.serve(event_of(asking.signed({"topicName": "t"}))),
    CmqFault.REVOKED: _revoked,
    CmqFault.BUSY: _failing(ContendedError()),
    CmqFault.THROTTLED: _failing(ClientError({"Error": {"Code": "ThrottlingException"}}, "TransactWriteItems")),
    CmqFault.INTERNAL: _failing(OSError()),
}


@pytest.mark.parametrize("fault", SIGNED, ids=lambda fault: fault.name)
def test_a_signed_request_is_answered_with_the_documented_pair_and_stores_nothing(fault: CmqFault) -> None:
    asking, (action, parameters) = prepared(), SIGNED[fault]
    before = asking.stored()

    answer = asking.serve(event_of(asking.signed({"Action": action, **parameters})))

    assert pair_of(answer) == fault.pair
    assert asking.stored() == before


@pytest.mark.parametrize("fault", OTHERWISE, ids=lambda fault: fault.name)
def test_what_no_signed_request_brings_about_has_its_pair_too(fault: CmqFault) -> None:
    assert pair_of(OTHERWISE[fault](prepared())) == fault.pair


def test_every_pair_is_brought_about_by_a_request_but_one() -> None:
    assert set(CmqFault) - set(SIGNED) - set(OTHERWISE) == {CmqFault.INVALID}


def test_what_a_use_case_refuses_without_a_pair_of_its_own_is_an_invalid_request() -> None:
    told = error_of(ConflictError("no"))

    assert told is not None
    assert told.fault is CmqFault.INVALID


def test_a_queue_that_does_not_take_a_message_lets_its_producer_try_again() -> None:
    asking = prepared()
    asking.ask("Subscribe", **{**NEW, "topicName": "bare", "notifyStrategy": "BACKOFF_RETRY"})
    asking.fake.queue.broken = True

    assert asking.pair("PublishMessage", topicName="bare", msgBody="x") == CmqFault.BUSY.pair


def test_after_a_fault_in_its_middle_a_batch_is_partly_accepted() -> None:
    asking, bodies, stored = prepared(), numbered("msgBody", "first", "second"), count()
    with throttled(asking.fake.store, lambda key: key.pk.startswith(MESSAGE_PARTITION) and next(stored) > 0):
        pair = asking.pair("BatchPublishMessage", topicName="t", **bodies, msgTag__1="apple")
    asking.fake.deliver()

    assert (pair, asking.fake.pusher.received["s"]) == (CmqFault.THROTTLED.pair, ["first"])


def test_no_pair_stands_for_two_faults() -> None:
    assert len({fault.pair for fault in CmqFault}) == len(CmqFault)


@pytest.mark.parametrize(
    ("action", "parameters", "pair"),
    [
        ("Subscribe", {**NEW, "endpoint": "http://"}, (4000, 10500)),
        ("Subscribe", {**NEW, "endpoint": "http://example.test/" + "x" * 500}, (4000, 10350)),
        ("Subscribe", {**NEW, "protocol": "queue", "endpoint": "http://example.test/"}, (4000, 10500)),
        ("Subscribe", {**NEW, "protocol": "https", "endpoint": "https://example.test/"}, (0, 0)),
        ("Subscribe", {**NEW, "filterTag.1": "x" * 17}, (4000, 10350)),
        ("Subscribe", {**NEW, "filterTag.1": ""}, (4000, 10350)),
        ("Subscribe", {**NEW, "topicName": "bound", "bindingKey.1": "x" * 65}, (4000, 10350)),
        ("Subscribe", {**NEW, "topicName": "bound", "bindingKey.1": "a..b"}, (4000, 10350)),
        ("Subscribe", {**NEW, "topicName": "bound", "bindingKey.1": "a." * 16 + "b"}, (4000, 10691)),
        ("Unsubscribe", {**S, "subscriptionName": "other"}, (4440, 10600)),
        ("PublishMessage", {"topicName": "t", "msgBody": "x", "msgTag.1": "a\r\nb"}, (4000, 10350)),
        ("PublishMessage", {"topicName": "t"}, (4000, 10390)),
        ("BatchPublishMessage", {"topicName": "t"}, (4000, 10390)),
        ("BatchPublishMessage", {"topicName": "t", "msgBody.2": "x"}, (4000, 10380)),
        ("BatchPublishMessage", {"topicName": "t", "msgBody.1": "x", "msgBody.2": ""}, (4000, 10120)),
        ("CreateTopic", {"topicName": "new", "filterType": "3"}, (4000, 10350)),
        ("CreateTopic", {"topicName": "new", "maxMsgSize": "1048577"}, (4000, 10350)),
        ("ListTopic", {"limit": "51"}, (4000, 10350)),
        ("ListTopic", {"offset": "-1"}, (4000, 10350)),
        ("ListTopic", {"clientRequestId": "x"}, (4000, 10360)),
        ("ListTopic", {"Nonce": "1" * 20}, (4000, 10360)),
        ("ListTopic", {"Nonce": ""}, (4000, 10390)),
        ("PublishMessage", {"topicName": "t", "msgBody": "x" * 1_048_576, "msgTag.1": "apple"}, (4000, 10420)),
    ],
)
def test_beside_the_examples_of_the_documents(action: str, parameters: dict[str, str], pair: tuple[int, int]) -> None:
    asking = prepared()

    assert pair_of(asking.serve(event_of(asking.signed({"Action": action, **parameters})))) == pair


def test_the_document_lists_every_pair_and_no_other() -> None:
    document = (Path(__file__).parents[2] / "docs" / "from-cmq.md").read_text()
    table = document.partition("| code | module codes |")[2].partition("\n\n")[0]
    rows = [re.findall(r"\d{4,5}", row) for row in table.splitlines() if re.match(r"\| \d", row)]

    assert {(int(row[0]), int(module)) for row in rows for module in row[1:]} == {fault.pair for fault in CmqFault}
