"""Members of groups over HTTP: heartbeats, disagreement, leaving."""

from __future__ import annotations

import pytest
from tagcast_client import Client, ConflictError, DisagreementError, Filter, InvalidError, NotFoundError

from tests.clients.in_memory_api import InMemoryApi, lost

URL = "http://127.0.0.1:8080/"
TAG_A = Filter.tag_expression("TagA")
SQL = Filter.sql("price > 5")


@pytest.fixture
def client(api: InMemoryApi) -> Client:
    made = Client(URL, transport=api, sleep=lambda seconds: None)
    made.create_topic("orders")
    return made


def test_a_heartbeat_makes_the_group_and_tells_who_is_there(client: Client, api: InMemoryApi) -> None:
    made = client.heartbeat("orders", "workers", "10.0.0.1@7:a#b", filter=TAG_A, member_version="1.4")
    assert (made.subscription, made.group_version, made.filter, made.mode) == ("workers", 1, TAG_A, "clustering")
    found = client.heartbeat("orders", "workers", "other", filter=TAG_A)
    assert [(each.member_id, each.member_version, each.agrees) for each in found.members] == [
        ("10.0.0.1@7:a#b", "1.4", True),
        ("other", "", True),
    ]
    assert client.get_subscription("orders", "workers").endpoint == {"protocol": "pull"}
    assert api.requests[1].url.raw_path.endswith(b"/members/10.0.0.1%407%3Aa%23b")


def test_who_disagrees_is_told_what_differs(client: Client) -> None:
    client.heartbeat("orders", "workers", "one", filter=TAG_A, member_version="1.4")
    with pytest.raises(DisagreementError, match="set by member one of version") as refused:
        client.heartbeat("orders", "workers", "two", filter=SQL)
    assert (refused.value.group, refused.value.yours) == (TAG_A, SQL)
    assert refused.value.difference == ("kind: the group's filter is tag_expression, yours is sql92",)
    assert [(each.member_id, each.agrees) for each in client.list_members("orders", "workers")] == [
        ("one", True),
        ("two", False),
    ]


def test_who_disagrees_is_given_nothing_and_loses_nothing_for_the_group(client: Client, api: InMemoryApi) -> None:
    client.heartbeat("orders", "workers", "one", filter=TAG_A)
    with pytest.raises(DisagreementError):
        client.heartbeat("orders", "workers", "two", filter=SQL)
    client.publish("orders", "x", tags=["TagA"])
    api.fakes.deliver()
    with pytest.raises(DisagreementError, match="member two has another filter than version 1"):
        client.pull("orders", "workers", member_id="two")
    assert [each.body for each in client.pull("orders", "workers", member_id="one")] == [b"x"]


def test_a_rolling_change_of_the_filter_loses_nothing(client: Client, api: InMemoryApi) -> None:
    """In the original it is the state in which members of both releases lose what the other one wants."""
    client.heartbeat("orders", "workers", "old", filter=TAG_A)
    client.publish("orders", "for both", tags=["TagA"])
    new = Filter.tag_expression("TagA || TagB")
    client.update_subscription("orders", "workers", filter=new, if_version=1)
    client.publish("orders", "for the new one", tags=["TagB"])
    api.fakes.deliver()
    with pytest.raises(DisagreementError):
        client.pull("orders", "workers", member_id="old")
    client.heartbeat("orders", "workers", "new", filter=new)
    assert [each.body for each in client.pull("orders", "workers", member_id="new")] == [
        b"for both",
        b"for the new one",
    ]


def test_who_leaves_is_gone_also_when_the_answer_is_lost(client: Client, api: InMemoryApi) -> None:
    client.heartbeat("orders", "workers", "one", filter=TAG_A)
    api.accidents = [lost]
    client.leave("orders", "workers", "one")
    assert client.list_members("orders", "workers") == ()
    with pytest.raises(NotFoundError):
        client.leave("orders", "workers", "nobody")


def test_a_broadcasting_member_is_told_the_name_of_its_own_subscription(client: Client) -> None:
    one = client.heartbeat("orders", "fans", "one", None, mode="broadcasting", silence_seconds=600)
    two = client.heartbeat("orders", "fans", "two", None, mode="broadcasting")
    names = [each.name for each in client.list_subscriptions("orders")]
    assert sorted((one.subscription, two.subscription)) == names
    assert [each.agrees for each in client.list_members("orders", "fans")] == [True, True]


@pytest.mark.parametrize("member_id", ["a/b", "", "a b", "x" * 129, "é"])
def test_a_member_id_has_few_characters(client: Client, member_id: str) -> None:
    with pytest.raises((InvalidError, NotFoundError)):
        client.heartbeat("orders", "workers", member_id, None)


def test_what_is_pushed_to_is_no_group(client: Client) -> None:
    client.create_subscription("orders", "billing", "https://example.com/hook")
    with pytest.raises(ConflictError):
        client.heartbeat("orders", "billing", "one", None)
