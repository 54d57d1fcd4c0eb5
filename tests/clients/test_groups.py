"""Members of groups over HTTP: heartbeats, disagreement, leaving."""

import pytest
from tagcast_client import Client, DisagreementError, Filter, InvalidError, NotFoundError

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


def test_who_leaves_is_gone_also_when_the_answer_is_lost(client: Client, api: InMemoryApi) -> None:
    client.heartbeat("orders", "workers", "one", filter=TAG_A)
    api.accidents = [lost]
    client.leave("orders", "workers", "one")
    assert client.list_members("orders", "workers") == ()
    with pytest.raises(NotFoundError):
        client.leave("orders", "workers", "nobody")


@pytest.mark.parametrize("member_id", ["a/b", "", "a b", "x" * 129, "é"])
def test_a_member_id_has_few_characters(client: Client, member_id: str) -> None:
    with pytest.raises((InvalidError, NotFoundError)):
        client.heartbeat("orders", "workers", member_id, None)
