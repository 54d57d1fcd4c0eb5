"""What is particular to the requests of real clients, and that each is served once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tagcast_aws.cmq.keys import KeyRing
from tagcast_aws.store.cached_secret import CachedSecret

from tests.cmq.asking import HOST, KEY, Asking, event_of, pair_of
from tests.fakes.log import Log
from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeClock, FakeWorld
from tests.integration.scripted import ScriptedClient, refusal

TAKEN, LATE, REPLAY = (0, 0), (4100, 10030), (4100, 10030)
CLIENTS: dict[str, dict[str, Any]] = {
    "Python: no type": {"content_type": None, "is_base64": True},
    "Java: any type": {"content_type": "*/*;charset=utf-8", "is_base64": True},
    "Go, at the root": {"content_type": "application/x-www-form-urlencoded", "is_base64": True, "path": "/"},
    "Node and PHP": {"content_type": "application/x-www-form-urlencoded", "is_base64": True},
    "a type of text": {"content_type": "text/plain", "is_base64": False},
    "a query": {"method": "GET"},
}


def prepared() -> Asking:
    asking = Asking()
    asking.ask("CreateTopic", topicName="t")
    asking.ask("Subscribe", topicName="t", subscriptionName="s", protocol="http", endpoint="http://example.test/")
    return asking


def published(asking: Asking) -> list[str]:
    """The bodies that the queue has, in order."""
    asking.fake.deliver()
    return asking.fake.pusher.received["s"]


@pytest.mark.parametrize("how", CLIENTS.values(), ids=CLIENTS)
def test_a_form_is_read_whatever_its_type_says(how: dict[str, Any]) -> None:
    asking = prepared()
    signed_how = {name: how[name] for name in ("method", "path") if name in how}
    parameters = {"Action": "PublishMessage", "topicName": "t", "msgBody": "a & b=+%/ 世界", "routingKey": ""}

    answer = asking.serve(event_of(asking.signed(parameters, **signed_how), **how))

    assert pair_of(answer) == (0, 0)
    assert published(asking) == ["a & b=+%/ 世界"]


@pytest.mark.parametrize("first", [0, 1], ids=["Go and Node", "Python, Java, PHP"])
def test_arrays_begin_at_zero_or_one_and_keep_the_order_of_their_numbers(first: int) -> None:
    asking = prepared()
    bodies = {f"msgBody.{first + place}": f"b{place}" for place in range(16)}

    answer = asking.ask("BatchPublishMessage", topicName="t", **bodies)

    assert [len(each["msgId"]) for each in answer["msgList"]] == [20] * 16
    assert published(asking) == [f"b{place}" for place in range(16)]


@pytest.mark.parametrize("action", ["ClearSUbscriptionFIlterTags", "clearSubscriptionFilterTags"])
def test_the_name_of_an_action_is_read_without_its_case(action: str) -> None:
    assert prepared().pair(action, topicName="t", subscriptionName="s") == (0, 0)


def test_names_of_parameters_may_begin_with_a_capital() -> None:
    asking = prepared()

    assert asking.ask("GetTopicAttributes", TopicName="t")["filterType"] == 1


@pytest.mark.parametrize("nonce", ["0", "9223372036854775807"], ids=["Node", "Python"])
def test_a_nonce_has_up_to_nineteen_digits(nonce: str) -> None:
    assert prepared().pair("ListTopic", Nonce=nonce) == (0, 0)


def test_what_a_program_calls_its_request_is_echoed_as_an_integer_in_errors_too() -> None:
    asking = prepared()

    assert asking.ask("ListTopic", clientRequestId="1634059514")["clientRequestId"] == 1634059514
    refused = asking.ask("DeleteTopic", topicName="other", clientRequestId="7")
    assert (refused["code"], refused["clientRequestId"]) == (4440, 7)


def test_a_message_id_is_a_decimal_text_below_two_to_the_64th() -> None:
    answer = prepared().ask("PublishMessage", topicName="t", msgBody="x")

    assert answer["msgId"].isdecimal()
    assert int(answer["msgId"]) < 2**64


def test_a_request_is_served_once_also_by_a_second_process() -> None:
    first = prepared()
    event = event_of(first.signed({"Action": "PublishMessage", "topicName": "t", "msgBody": "once"}))
    second = Asking(FakeWorld(store=first.fake.store, clock=first.fake.clock))

    assert pair_of(first.serve(event)) == (0, 0)
    assert pair_of(second.serve(event)) == (4100, 10030)
    assert published(first) == ["once"]


def test_requests_with_one_nonce_in_one_second_are_each_served_once() -> None:
    """As Tencent's C++ client sends them: it seeds its random numbers with the second before each request."""
    asking = prepared()
    forms = [
        asking.signed({"Action": "PublishMessage", "topicName": "t", "msgBody": body, "Nonce": "5"})
        for body in ("first", "second")
    ]

    assert [pair_of(asking.serve(event_of(form))) for form in (*forms, *forms)] == [TAKEN, TAKEN, REPLAY, REPLAY]
    assert published(asking) == ["first", "second"]


def test_a_request_that_a_throttled_table_could_not_note_is_no_replay() -> None:
    asking = prepared()
    with throttled(asking.fake.store):
        assert asking.pair("ListTopic") == (4420, 10250)


def test_a_write_that_the_sdk_sent_twice_does_not_refuse_its_own_request() -> None:
    asking = prepared()
    write = asking.fake.store.write

    def twice(one: Any) -> None:
        write(one)
        if one.key.sk == "SIGNED":
            write(one)

    asking.fake.store.write = twice  # type: ignore[method-assign, assignment]

    assert asking.pair("ListTopic") == (0, 0)


@pytest.mark.parametrize(("late_s", "pair"), [(300, TAKEN), (301, LATE), (-300, TAKEN), (-301, LATE)])
def test_a_timestamp_is_at_most_five_minutes_from_now(late_s: int, pair: tuple[int, int]) -> None:
    asking = prepared()

    answer = asking.ask("ListTopic", Timestamp=str(asking.fake.clock.now() // 1000 - late_s))

    assert (pair_of(answer), "Timestamp is more than 5 minutes" in answer["message"]) == (pair, pair == LATE)


def test_what_remembers_a_request_stays_as_long_as_it_is_timely_for_any_clock() -> None:
    asking = prepared()
    form = asking.signed({"Action": "ListTopic"})
    asking.serve(event_of(form))

    [signature] = parse_qs(form)["Signature"]
    [row] = [row for key, row in asking.fake.store.rows.items() if key.pk.endswith(f"#{signature}")]
    assert row["ttl"] == asking.fake.clock.now() // 1000 + 600


def test_a_key_that_was_just_made_is_looked_for_once_more() -> None:
    asking = prepared()
    asking.secret.ages.clear()
    asking.ask("ListTopic")
    assert asking.secret.ages == [50.0]

    asking.secret.ring = KeyRing()
    assert asking.pair("ListTopic") == (4100, 10270)
    assert asking.secret.ages == [50.0, 50.0, 5.0]


def test_a_client_may_come_again_while_the_keys_cannot_be_read() -> None:
    asking = prepared()
    busy = ScriptedClient([refusal("ThrottlingException")])
    asking.secret = CachedSecret(busy, "n", asking.fake.clock, Log().logger)  # type: ignore[assignment]

    assert asking.pair("ListTopic") == (4480, 10460)


def test_an_unforeseen_fault_is_told_by_its_request_and_logs_no_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    asking = prepared()

    def broken(*_: object) -> None:
        raise OSError("the table cannot be reached")

    event = event_of(asking.signed({"Action": "PublishMessage", "topicName": "t", "msgBody": "private words"}))
    asking.fake.store.write = broken  # type: ignore[method-assign, assignment]
    answer = asking.serve(event)

    assert pair_of(answer) == (6000, 10050)
    assert "table" not in answer["message"]
    assert asking.fake.telemetry.counts["Failed"] == 1
    logged = capsys.readouterr()
    for secret in ("private words", KEY.secret_key or "", HOST):
        assert secret not in logged.out + logged.err


def test_the_sample_event_is_a_request_that_is_served() -> None:
    event = json.loads((Path(__file__).parents[2] / "events" / "cmq.json").read_text())
    asking = Asking(FakeWorld(clock=FakeClock(event["requestContext"]["timeEpoch"])))
    asking.ask("CreateTopic", topicName="orders")
    asking.ask("Subscribe", topicName="orders", subscriptionName="s", protocol="http", endpoint="http://example.test/")

    answer = asking.serve(event)

    assert pair_of(answer) == (0, 0)
    assert answer["requestId"] == event["requestContext"]["requestId"]
    assert published(asking) == ["hello"]
