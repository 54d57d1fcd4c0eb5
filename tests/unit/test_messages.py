"""Lists of what is retained, at sizes where an answer of everything would be refused."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from tagcast.operating import messages, subscription_names
from tagcast.operating.messages import FOUND_AT_ONCE
from tagcast.ports import Memory
from tagcast.rows import stored
from tagcast_aws.api.limits import PAGE_BYTES_MAX

from tests.fakes.calls import Before
from tests.fakes.handlers import answered
from tests.fakes.pages import pages
from tests.fakes.world import FakeWorld
from tests.unit.worlds import blocked, failing

ANSWER_BYTES_MAX = 6_000_000
CONTROL = "\x01" * (64 * 1024)


def get(fake: FakeWorld, path: str, query: dict[str, str]) -> tuple[dict[str, Any], int]:
    answer = answered(fake.world, "GET", f"{path}?{urlencode(query)}")
    return json.loads(answer["body"]), len(json.dumps(answer))


@pytest.fixture
def retained(fake: FakeWorld) -> list[str]:
    """The ids of 100 messages that are retained, whose bodies take six times their size as JSON."""
    return blocked(fake, *[CONTROL] * 100)


def test_pages_with_bodies_end_before_an_answer_is_too_large_and_lead_through_all(
    fake: FakeWorld,
    retained: list[str],
) -> None:
    whole = {"bodies": "true", "limit": "100"}
    found = pages(
        lambda cursor: get(fake, "/topics/test1/messages", whole | ({"cursor": cursor} if cursor else {})),
        lambda got: got[0]["next_cursor"],
    )

    assert all(size < ANSWER_BYTES_MAX for _, size in found)
    assert all(size > PAGE_BYTES_MAX / 2 for _, size in found[:-1])
    shown = [message for page, _ in found for message in page["messages"]]
    assert {message["body"] for message in shown} == {CONTROL}
    assert [message["message_id"] for message in shown] == retained


def test_a_page_ends_when_its_time_is_over_and_leads_through_all_the_same(
    fake: FakeWorld, retained: list[str], before: Before
) -> None:
    before.each(fake.store, "query", lambda *_, **__: fake.clock.sleep(messages.PAGE_WITHIN_S / 3))
    found = pages(
        lambda cursor: get(fake, "/topics/test1/messages", {"cursor": cursor} if cursor else {})[0],
        lambda got: got["next_cursor"],
    )

    shown = [[message["message_id"] for message in page["messages"]] for page in found]
    assert [message_id for page in shown for message_id in page] == retained
    assert max(map(len, shown)) < 10


def test_a_message_is_found_by_its_id_among_the_topics_that_one_may_read(fake_topics: FakeWorld) -> None:
    fake = fake_topics
    [message_id] = fake.publish("x", topic="t150")

    found, _ = get(fake, f"/messages/{message_id}", {})
    assert (found["topic"], found["message_id"], found["counts"]) == ("t150", message_id, {})
    assert get(fake, f"/messages/{'9' * 20}", {})[0]["status"] == 404
    scope = {"scope": "read"}
    for topics, status in (("t15*", 200), ("t1 t2", 404)):
        claims = {**scope, "tagcast_topics": topics}
        assert answered(fake.world, "GET", f"/messages/{message_id}", claims=claims)["statusCode"] == status


def test_a_message_is_found_in_the_last_topic_of_a_page_and_in_the_first_of_the_next(fake_topics: FakeWorld) -> None:
    names = [name for name, _ in stored.topic_ids(fake_topics.store)]
    for topic in (names[FOUND_AT_ONCE - 1], names[FOUND_AT_ONCE], names[-1]):
        [message_id] = fake_topics.publish("x", topic=topic)

        assert get(fake_topics, f"/messages/{message_id}", {})[0]["topic"] == topic


@pytest.fixture
def fake_topics() -> FakeWorld:
    fake = FakeWorld()
    for number in range(151):
        assert answered(fake.world, "PUT", f"/topics/t{number}", "{}")["statusCode"] == 201
    return fake


def test_entries_in_one_state_are_shown_alone_with_the_counts_of_all(fake: FakeWorld, retained: list[str]) -> None:
    fake.subscribe("B")
    [message_id] = fake.first_round("x")
    whole, _ = get(fake, f"/topics/test1/messages/{message_id}", {})
    assert (list(whole["subscribers"]), whole["counts"]) == (["A", "B"], {"blocked": 1, "delivered": 1})
    some, _ = get(fake, f"/topics/test1/messages/{message_id}", {"only": "delivered"})
    assert (list(some["subscribers"]), some["counts"]) == (["B"], whole["counts"])
    assert get(fake, f"/topics/test1/messages/{message_id}", {"only": "well"})[0]["errors"][0]["pointer"] == "#/only"


def test_a_list_tells_how_large_bodies_are_unless_they_are_asked_for(fake: FakeWorld, retained: list[str]) -> None:
    page, size = get(fake, "/topics/test1/messages", {"limit": "100"})
    assert [message["message_id"] for message in page["messages"]] == retained
    assert all(message["body_bytes"] == 65_536 and "body" not in message for message in page["messages"])
    assert size < 100_000


def test_a_parameter_that_is_neither_true_nor_false_is_refused(fake: FakeWorld) -> None:
    answer, _ = get(fake, "/topics/test1/messages", {"bodies": "yes"})
    assert (answer["status"], answer["errors"]) == (
        422,
        [{"code": "not_allowed", "detail": "must be true or false", "pointer": "#/bodies"}],
    )


def test_what_stands_far_behind_the_head_is_blocked_without_attempts(fake: FakeWorld, retained: list[str]) -> None:
    fake.first_round(*["x"] * 300)
    page, _ = get(fake, "/topics/test1/messages", {"limit": "1"})
    assert page["messages"][0]["subscribers"]["A"]["attempts"] == 1
    last, _ = get(fake, f"/topics/test1/messages/{fake.publish('last')[0]}", {})
    assert last["subscribers"]["A"]["state"] == "pending"
    fake.deliver()
    last, _ = get(fake, f"/topics/test1/messages/{last['message_id']}", {})
    assert last["subscribers"]["A"] == {"state": "blocked", "attempts": 0, "filter_version": 1}


def test_a_view_reads_only_the_first_rows_of_many_long_backlogs(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "ALL_ROWS_MAX", 150)
    failing(fake, *(f"S{number}" for number in range(20)))
    first, *_ = fake.first_round(*["x"] * 100)
    fake.store.rows_read = 0

    told = messages.message_view(fake.world, "test1", first).subscribers

    assert [entry.attempts for entry in told.values()] == [1] * 20
    assert fake.store.rows_read < 2 * 100 + 18 * messages.HEAD_ROWS + 50


@pytest.mark.parametrize("one_by_one", [100, 0])
def test_names_are_right_however_many_subscriptions_a_topic_has(
    fake: FakeWorld, retained: list[str], one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = retained[::20]
    whole = [get(fake, f"/topics/test1/messages/{each}", {})[0]["subscribers"] for each in some]
    listed = get(fake, "/topics/test1/messages", {})[0]["messages"]
    monkeypatch.setattr(subscription_names, "ONE_BY_ONE_MAX", one_by_one)
    for number in range(30):
        fake.subscribe(f"other{number}", "nothing")
    fake.world = replace(fake.world, memory=Memory())
    assert [get(fake, f"/topics/test1/messages/{each}", {})[0]["subscribers"] for each in some] == whole
    assert get(fake, "/topics/test1/messages", {})[0]["messages"] == listed
