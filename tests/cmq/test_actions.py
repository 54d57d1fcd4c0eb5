"""The thirteen actions: what they answer, and what is stored of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tagcast.model import Batching, ContentFormat, Endpoint, FilterType, Ordering, Protocol, Strategy, TopicSettings
from tagcast.registry import subscriptions, topics
from tagcast.registry.directory import read_topic
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.keys import topic_key
from tagcast.rows.stored import ROWS_AT_ONCE
from tagcast.verification import VerificationResult
from tagcast_aws.cmq.endpoint import _ACTIONS
from tagcast_aws.cmq.errors import CmqFault

from tests.cmq.asking import Asking
from tests.fakes.raced_store import before_the_next_transaction
from tests.fakes.wide_topic import topic_with
from tests.fakes.world import FAIL

SUBSCRIBED = {"subscriptionName": "s", "protocol": "http", "endpoint": "http://example.test/push?a=1"}
ATTRIBUTES = ("msgCount", "maxMsgSize", "msgRetentionSeconds", "createTime", "lastModifyTime", "filterType")


def with_topic(**created: str) -> Asking:
    asking = Asking()
    assert asking.pair("CreateTopic", topicName="t", **created) == (0, 0)
    return asking


def subscribed(asking: Asking, **given: str) -> Asking:
    assert asking.pair("Subscribe", topicName="t", **{**SUBSCRIBED, **given}) == (0, 0)
    return asking


def attributes(asking: Asking) -> dict[str, Any]:
    return asking.ask("GetSubscriptionAttributes", topicName="t", subscriptionName="s")


def test_receivers_of_cmq_are_asked_only_where_the_deployment_says_so() -> None:
    asking = subscribed(with_topic())
    assert asking.fake.verifier.asked == []

    asked = replace(asking.fake.world.verification, of_cmq=True)
    asking.fake.world = replace(asking.fake.world, verification=asked)
    asking.fake.verifier.consents["http://example.test/other"] = VerificationResult("http 404")
    subscribed(asking, subscriptionName="other", endpoint="http://example.test/other")
    assert get_subscription(asking.fake.world, "t", "other").settings.unverified == "http 404"


def test_a_subscription_of_a_full_topic_still_exists() -> None:
    asking = subscribed(with_topic())
    asking.fake.store.rows[topic_key("t")]["subscription_count"] = 500
    again = {"topicName": "t", "protocol": "http", "endpoint": "http://example.test/s"}

    assert asking.pair("Subscribe", subscriptionName="s", **again) == CmqFault.SUBSCRIPTION_EXISTS.pair
    assert asking.pair("Subscribe", subscriptionName="new", **again) == CmqFault.SUBSCRIPTIONS.pair


def test_there_are_thirteen_of_them() -> None:
    assert len(_ACTIONS) == 13


def test_a_topic_is_made_with_its_type_of_filters_which_nothing_changes() -> None:
    asking = with_topic(filterType="2", maxMsgSize="2048")
    topics.put_topic(asking.fake.world, "t", TopicSettings(60, body_bytes_max=4096, ordering=Ordering.NONE))
    asking.ask("SetTopicAttributes", topicName="t", maxMsgSize="8192")

    topic = read_topic(asking.fake.world, "t")
    assert topic.filter_type is FilterType.ROUTING_KEY
    assert (topic.settings.body_bytes_max, topic.settings.retention_s) == (8192, 60)


def test_a_topic_shows_six_integers() -> None:
    asking = subscribed(with_topic(filterType="1"))
    asking.fake.pusher.behaviours["s"] = lambda push: FAIL
    asking.ask("PublishMessage", topicName="t", msgBody="x")
    asking.fake.deliver()
    asking.fake.clock.sleep(5)
    asking.ask("SetTopicAttributes", topicName="t", maxMsgSize="4096")

    found = asking.ask("GetTopicAttributes", topicName="t")

    assert all(type(found[name]) is int for name in ATTRIBUTES)
    assert (found["msgCount"], found["maxMsgSize"], found["msgRetentionSeconds"]) == (1, 4096, 86_400)
    assert (found["createTime"], found["lastModifyTime"], found["filterType"]) == (1_800_000_000, 1_800_000_005, 1)


@pytest.mark.parametrize("size", [9, 262_144])
def test_a_size_that_is_sent_as_it_was_shown_stays_also_beyond_the_bounds_of_cmq(size: int) -> None:
    asking = with_topic()
    topics.put_topic(asking.fake.world, "t", TopicSettings(body_bytes_max=size))
    shown = asking.ask("GetTopicAttributes", topicName="t")["maxMsgSize"]

    assert asking.pair("SetTopicAttributes", topicName="t", maxMsgSize=str(shown)) == (0, 0)
    assert read_topic(asking.fake.world, "t").settings.body_bytes_max == size


@pytest.mark.parametrize(("asked", "in_force"), [("65536", 65_536), ("1048576", 65_536), ("1024", 1024)])
def test_a_size_beyond_the_limit_that_java_asks_for_gets_the_limit(asked: str, in_force: int) -> None:
    asking = with_topic(maxMsgSize=asked)

    assert asking.ask("GetTopicAttributes", topicName="t")["maxMsgSize"] == in_force


def test_topics_are_listed_by_a_part_of_their_names_from_a_place_on() -> None:
    asking = Asking()
    for number in range(25):
        asking.ask("CreateTopic", topicName=f"Orders-{number:02d}")
    asking.ask("CreateTopic", topicName="bills")

    page = asking.ask("ListTopic", searchWord="orders", offset="20", limit="50")

    assert page["totalCount"] == 25
    assert [each["topicName"] for each in page["topicList"]] == [f"Orders-{number}" for number in range(20, 25)]
    assert all(each["topicId"].startswith("topic-") for each in page["topicList"])
    assert len(asking.ask("ListTopic")["topicList"]) == 20
    assert asking.ask("ListTopic", limit="0")["topicList"] == []


def test_a_subscription_has_cmqs_defaults() -> None:
    asking = subscribed(with_topic())

    settings = get_subscription(asking.fake.world, "t", "s").settings

    assert settings.endpoint == Endpoint(Protocol.HTTP, "http://example.test/push?a=1")
    assert (settings.retry.strategy, settings.retry.max_retries) == (Strategy.EXPONENTIAL_DECAY_RETRY, 176)
    assert (settings.content_format, settings.timeout_s, settings.filter) == (ContentFormat.CMQ_JSON, 15, None)


def test_a_subscription_shows_its_tags_under_both_names_and_its_binding_keys_as_a_list() -> None:
    asking = subscribed(with_topic(), filterTag__1="apple", filterTag__2="imac", notifyStrategy="BACKOFF_RETRY",
                        notifyContentFormat="SIMPLIFIED", bindingKey__1="ignored.#")  # fmt: skip

    found = attributes(asking)

    assert found["filterTag"] == found["filterTags"] == ["apple", "imac"]
    assert (found["bindingKey"], found["topicOwner"], found["msgCount"]) == ([], "123456789012", 0)
    assert (found["protocol"], found["endpoint"]) == ("http", "http://example.test/push?a=1")
    assert (found["notifyStrategy"], found["notifyContentFormat"]) == ("BACKOFF_RETRY", "SIMPLIFIED")
    assert (found["createTime"], found["lastModifyTime"]) == (1_800_000_000, 1_800_000_000)


def test_a_topic_of_binding_keys_reads_routing_keys_and_no_tags() -> None:
    asking = subscribed(with_topic(filterType="2"), bindingKey__0="1.*.0", bindingKey__1="1.#", filterTag__1="no")

    assert attributes(asking)["bindingKey"] == ["1.*.0", "1.#"]
    assert asking.pair("PublishMessage", topicName="t", msgBody="x", routingKey="2.1", msgTag__1="no") == (6030, 10730)
    assert asking.pair("PublishMessage", topicName="t", msgBody="x", routingKey="1.2.0") == (0, 0)


def test_a_queue_of_the_account_is_named_alone_and_gets_bare_bodies_whatever_is_asked() -> None:
    asking = subscribed(with_topic(), protocol="queue", endpoint="orders", notifyContentFormat="JSON")

    settings = get_subscription(asking.fake.world, "t", "s").settings

    assert settings.endpoint == Endpoint(Protocol.SQS, "arn:aws:sqs:us-east-1:123456789012:orders")
    assert settings.content_format is ContentFormat.CMQ_SIMPLIFIED
    found = attributes(asking)
    assert (found["protocol"], found["endpoint"], found["notifyContentFormat"]) == ("queue", "orders", "SIMPLIFIED")


def test_only_what_is_given_of_a_subscription_changes() -> None:
    asking = subscribed(with_topic(), filterTag__1="apple", notifyStrategy="BACKOFF_RETRY")

    asking.ask("SetSubscriptionAttributes", topicName="t", subscriptionName="s", notifyContentFormat="SIMPLIFIED")
    found = attributes(asking)
    assert (found["filterTag"], found["notifyStrategy"]) == (["apple"], "BACKOFF_RETRY")

    asking.ask("SetSubscriptionAttributes", topicName="t", subscriptionName="s", filterTag__1="imac", notifyStrategy="")
    found = attributes(asking)
    assert (found["filterTag"], found["notifyContentFormat"]) == (["imac"], "SIMPLIFIED")

    asking.ask("SetSubscriptionAttributes", topicName="t", subscriptionName="s", endpoint="http://elsewhere.test/",
               notifyStrategy="EXPONENTIAL_DECAY_RETRY")  # fmt: skip
    found = attributes(asking)
    assert (found["endpoint"], found["notifyStrategy"]) == ("http://example.test/push?a=1", "EXPONENTIAL_DECAY_RETRY")


def test_what_the_native_api_made_keeps_what_cmq_has_no_word_for() -> None:
    asking = with_topic()
    made = asking.fake.subscribe("s", topic="t", filter={"kind": "sql92", "expression": "price > 5"}, max_retries=7)

    asking.ask("SetSubscriptionAttributes", topicName="t", subscriptionName="s", notifyStrategy="BACKOFF_RETRY")

    settings = get_subscription(asking.fake.world, "t", "s").settings
    assert (settings.filter, settings.retry) == (made.settings.filter, made.settings.retry)
    assert (attributes(asking)["filterTag"], attributes(asking)["bindingKey"]) == ([], [])


@pytest.mark.parametrize("known", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS, ContentFormat.SIMPLIFIED])
def test_a_format_that_is_sent_as_it_was_shown_does_not_change(known: ContentFormat) -> None:
    asking = with_topic()
    made = asking.fake.subscribe("s", topic="t")
    subscriptions.put_subscription(asking.fake.world, "t", "s", replace(made.settings, content_format=known))
    shown = attributes(asking)["notifyContentFormat"]

    words = {"notifyContentFormat": shown, "filterTag__1": "imac"}
    assert asking.pair("SetSubscriptionAttributes", topicName="t", subscriptionName="s", **words) == (0, 0)

    assert get_subscription(asking.fake.world, "t", "s").settings.content_format is known


@pytest.mark.parametrize("tags", [["a", "b", "c", "d", "e", "f"], ["t" * 64]])
def test_tags_that_are_sent_as_they_were_shown_stay_even_beyond_the_limits_of_cmq(tags: list[str]) -> None:
    asking = with_topic()
    asking.fake.subscribe("s", topic="t", filter={"kind": "tags", "tags": tags}, max_retries=7)
    shown = {f"filterTag__{place}": tag for place, tag in enumerate(attributes(asking)["filterTag"])}
    changed = {"topicName": "t", "subscriptionName": "s", "notifyStrategy": "EXPONENTIAL_DECAY_RETRY"}

    assert asking.pair("SetSubscriptionAttributes", **changed, **shown) == (0, 0)
    settings = get_subscription(asking.fake.world, "t", "s").settings
    assert (settings.filter, settings.retry.strategy) == (
        {"kind": "tags", "tags": tags},
        Strategy.EXPONENTIAL_DECAY_RETRY,
    )
    shown["filterTag__0"] = "t" * 63
    refused = CmqFault.FILTER_TAGS if len(tags) > 5 else CmqFault.OUT_OF_RANGE
    assert asking.pair("SetSubscriptionAttributes", **changed, **shown) == refused.pair


def test_tags_that_are_sent_as_they_were_shown_still_must_all_match() -> None:
    asking = with_topic()
    made = asking.fake.subscribe("s", topic="t", filter={"kind": "tags", "tags": ["a", "b"], "match": "all"})
    shown = attributes(asking)["filterTag"]

    words = {f"filterTag__{place}": tag for place, tag in enumerate(shown)}
    assert asking.pair("SetSubscriptionAttributes", topicName="t", subscriptionName="s", **words) == (0, 0)

    assert get_subscription(asking.fake.world, "t", "s").settings.filter == made.settings.filter


def test_cleared_tags_let_everything_through_and_binding_keys_stay() -> None:
    tagged = subscribed(with_topic(), filterTag__1="apple")
    bound = subscribed(with_topic(filterType="2"), bindingKey__1="a.#")

    for asking in (tagged, bound):
        assert asking.pair("ClearSubscriptionFilterTags", topicName="t", subscriptionName="s") == (0, 0)

    assert attributes(tagged)["filterTag"] == []
    assert tagged.pair("PublishMessage", topicName="t", msgBody="x", msgTag__1="imac") == (0, 0)
    assert attributes(bound)["bindingKey"] == ["a.#"]


def test_a_filter_that_cmq_has_no_word_for_stays_when_tags_are_cleared() -> None:
    asking = with_topic()
    made = asking.fake.subscribe("s", topic="t", filter={"kind": "sql92", "expression": "price > 5"})

    assert asking.pair("ClearSubscriptionFilterTags", topicName="t", subscriptionName="s") == (0, 0)
    assert get_subscription(asking.fake.world, "t", "s") == made


def test_subscriptions_are_listed_by_a_part_of_their_names_from_a_place_on() -> None:
    asking = with_topic()
    for number in range(3):
        subscribed(asking, subscriptionName=f"s{number}")
    subscribed(asking, subscriptionName="other")

    page = asking.ask("ListSubscriptionByTopic", topicName="t", searchWord="S", offset="1", limit="100")

    assert page["totalCount"] == 3
    assert [each["subscriptionName"] for each in page["subscriptionList"]] == ["s1", "s2"]
    assert set(page["subscriptionList"][0]) == {"subscriptionId", "subscriptionName", "protocol", "endpoint"}


def test_the_list_of_a_large_topic_is_read_without_all_rows_in_memory() -> None:
    asking = Asking(topic_with(ROWS_AT_ONCE + 5))
    page = asking.ask("ListSubscriptionByTopic", topicName="wide", offset=str(ROWS_AT_ONCE))

    assert (page["totalCount"], len(page["subscriptionList"])) == (ROWS_AT_ONCE + 5, 5)
    assert asking.fake.store.most_rows_at_once == ROWS_AT_ONCE


def test_what_a_subscription_is_owed_is_its_count_of_messages() -> None:
    asking = subscribed(with_topic())
    asking.fake.pusher.behaviours["s"] = lambda push: FAIL
    asking.ask("BatchPublishMessage", topicName="t", msgBody__1="a", msgBody__2="b")
    asking.fake.deliver()

    assert attributes(asking)["msgCount"] == 2


def test_what_nobody_would_receive_is_refused_and_not_stored() -> None:
    asking = with_topic()
    assert asking.pair("PublishMessage", topicName="t", msgBody="x") == (6030, 10650)
    subscribed(asking, filterTag__1="apple")
    before = asking.stored()

    assert asking.pair("PublishMessage", topicName="t", msgBody="x", msgTag__1="imac") == (6030, 10730)
    assert asking.pair("BatchPublishMessage", topicName="t", msgBody__1="x", msgTag__1="imac") == (6030, 10730)
    assert asking.stored() == before


def test_a_change_that_others_overtake_is_made_of_what_they_left() -> None:
    asking = subscribed(with_topic(), filterTag__1="apple")

    def overtake() -> None:
        known = get_subscription(asking.fake.world, "t", "s").settings
        subscriptions.put_subscription(asking.fake.world, "t", "s", type(known)(**{**_fields(known), "timeout_s": 3}))

    before_the_next_transaction(asking.fake.store, overtake)
    assert asking.pair("SetSubscriptionAttributes", topicName="t", subscriptionName="s", filterTag__1="imac") == (0, 0)

    settings = get_subscription(asking.fake.world, "t", "s").settings
    assert (settings.timeout_s, settings.filter) == (3, {"kind": "tags", "tags": ["imac"]})


def _fields(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}


def test_what_cmq_does_not_have_is_not_changed_by_its_words() -> None:
    asking = subscribed(with_topic())
    batched = replace(get_subscription(asking.fake.world, "t", "s").settings, batching=Batching(5, 262_144))
    subscriptions.put_subscription(asking.fake.world, "t", "b", replace(batched, content_format=ContentFormat.JSON))
    asking.fake.group("g", topic="t")

    for name, words in (
        ("b", {"notifyContentFormat": "SIMPLIFIED"}),
        ("b", {"notifyStrategy": "BACKOFF_RETRY"}),
        ("g", {"notifyStrategy": "BACKOFF_RETRY"}),
    ):
        refused = asking.ask("SetSubscriptionAttributes", topicName="t", subscriptionName=name, **words)
        assert (refused["code"], "native API" in refused["message"]) == (4000, True)
    assert asking.pair("ClearSubscriptionFilterTags", topicName="t", subscriptionName="g") == (4000, 10000)
    only_tags = {"topicName": "t", "subscriptionName": "b", "filterTag__1": "imac"}
    assert asking.pair("SetSubscriptionAttributes", **only_tags) == (0, 0)
