"""Whose dead letters may be published where: who names a topic for them has to have the right to publish there."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tagcast.ports import World
from tagcast.rows import stored

from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

ORDERS, BOTH = ["orders"], ["orders", "pay*"]


@pytest.fixture
def world() -> World:
    fakes = FakeWorld()
    for name in ("orders", "payments", "orders-dead"):
        fakes.topic(name)
    return fakes.world


def single(world: World, topic: str, named: str, claims: dict[str, Any] | None = None) -> tuple[int, str]:
    body = {"endpoint": {"protocol": "pull"}, "dead_letter_topic": named}
    answer = answered(world, "PUT", f"/topics/{topic}/subscriptions/m", json.dumps(body), claims=claims)
    return answer["statusCode"], answer["body"]


def batch(world: World, topic: str, named: str, claims: dict[str, Any] | None = None) -> tuple[int, str]:
    """The status of one group, between two that name no topic and are made."""
    group = {"endpoint": {"protocol": "pull"}}
    items = [
        {"name": "before", **group},
        {"name": "m", **group, "dead_letter_topic": named},
        {"name": "behind", **group},
    ]
    body = json.dumps({"subscriptions": items})
    answer = answered(world, "POST", f"/topics/{topic}/subscriptions/batch", body, claims=claims)
    assert answer["statusCode"] == 200
    before, result, behind = json.loads(answer["body"])["results"]
    assert "error" not in before | behind
    return result["error"]["status"] if "error" in result else 201, json.dumps(result)


@pytest.mark.parametrize("put", [single, batch])
@pytest.mark.parametrize("path", ["orders", "%6frders"])
@pytest.mark.parametrize(
    ("scope", "topics", "named", "status"),
    [
        ("manage publish", ORDERS, "payments", 403),
        ("manage publish", BOTH, "payments", 201),
        ("manage publish", BOTH, "orders-dead", 403),
        ("manage publish", ["*"], "payments", 201),
        ("manage", BOTH, "payments", 403),
        ("manage read", ["*"], "payments", 403),
        ("manage publish", ["orders", "pay *"], "payments", 403),
        ("manage publish", BOTH, "absent", 403),
        ("manage publish", ["*"], "absent", 201),
    ],
)
def test_a_token_names_a_dead_letter_topic_only_where_it_may_publish(
    world: World, put: Any, path: str, scope: str, topics: list[str], named: str, status: int
) -> None:
    world = replace(world, dead_letter_topics=(("*", "*"),))
    found, body = put(world, path, named, {"scope": scope, "tagcast_topics": topics})

    assert found == status, body
    known = stored.subscription(world.store, "orders", "m")
    assert (known is not None) is (status == 201)
    if status == 403:
        assert "dead_letter_topic" in body


@pytest.mark.parametrize("put", [single, batch])
def test_under_signatures_the_deployment_says_whose_dead_letters_go_where(world: World, put: Any) -> None:
    assert put(replace(world, dead_letter_topics=()), "orders", "orders-dead")[0] == 403

    world = replace(world, dead_letter_topics=(("orders", "*-dead"), ("pay*", "orders")))
    assert put(world, "orders", "payments")[0] == 403
    assert put(world, "payments", "orders-dead")[0] == 403
    assert put(world, "orders", "orders-dead")[0] == 201
    assert put(world, "payments", "orders")[0] == 201


@pytest.mark.parametrize("put", [single, batch])
def test_a_topic_is_not_its_own_dead_letter_topic(world: World, put: Any) -> None:
    claims = {"scope": "manage publish", "tagcast_topics": "*"}
    for topic in ("orders", "payments"):
        status, body = put(world, topic, topic, claims)
        assert (status, "#/dead_letter_topic" in body) == (422, True)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_events_topic_asks_for_the_right_to_publish_there(world: World, method: str) -> None:
    def asked(world: World, named: str, claims: dict[str, Any] | None = None) -> int:
        answer = answered(world, method, "/topics/orders", json.dumps({"events_topic": named}), claims=claims)
        assert answer["statusCode"] != 403 or "events_topic" in answer["body"] or "DeadLetterTopics" in answer["body"]
        return int(answer["statusCode"])

    claims = {"scope": "manage publish", "tagcast_topics": BOTH}
    assert asked(world, "payments", claims) == 200
    assert asked(world, "orders-dead", claims) == 403
    assert asked(world, "payments", {**claims, "scope": "manage"}) == 403
    assert asked(replace(world, dead_letter_topics=()), "payments") == 403
    assert asked(replace(world, dead_letter_topics=(("orders", "pay*"),)), "payments") == 200
