"""One request acts on a part of many lanes: what a filter takes or a preview named, and nothing else."""

import json
import re
from typing import Any

import pytest
from tagcast.errors import UnavailableError
from tagcast.operating import lane_changes, lanes
from tagcast.ports import World
from tagcast_aws.api.http.paging import decode_cursor

from tests.fakes.calls import Before
from tests.fakes.handlers import answered
from tests.fakes.world import FAIL, FakeWorld

COUNT = 5
MANAGE = {"scope": "manage"}


@pytest.fixture
def fakes() -> FakeWorld:
    """Five topics, each with a blocked subscription: s0 of test0 to s4 of test4."""
    fakes = FakeWorld()
    for number in range(COUNT):
        fakes.topic(f"test{number}")
        fakes.subscribe(f"s{number}", topic=f"test{number}")
        fakes.pusher.behaviours[f"s{number}"] = lambda push: FAIL
        fakes.publish("first", topic=f"test{number}")
        fakes.publish("second", topic=f"test{number}")
        fakes.deliver()
    fakes.clock.sleep(1)
    return fakes


def act(fakes: FakeWorld, verb: str, /, claims: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    answer = answered(fakes.world, "POST", f"/lanes/{verb}", json.dumps(body), claims=claims)
    assert answer["statusCode"] == 200, answer
    return dict(json.loads(answer["body"]))


def faults(fakes: FakeWorld, verb: str, /, **body: Any) -> list[str]:
    answer = answered(fakes.world, "POST", f"/lanes/{verb}", json.dumps(body))
    assert answer["statusCode"] == 422, answer
    return [each["pointer"] for each in json.loads(answer["body"])["errors"]]


def states(fakes: FakeWorld) -> list[str]:
    return [state_of(fakes, number) for number in range(COUNT)]


def state_of(fakes: FakeWorld, number: int) -> str:
    answer = answered(fakes.world, "GET", f"/topics/test{number}/subscriptions/s{number}")
    return str(json.loads(answer["body"])["lane"]["state"])


def names(answer: dict[str, Any]) -> list[str]:
    return sorted(lane["subscription"] for lane in answer["lanes"])


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"topic": "test1"}, ["s1"]),
        ({"state": "paused"}, ["s0"]),
        ({"text": "TEST2 / s"}, ["s2"]),
        ({"outcome": "http 500", "state": "blocked"}, ["s1", "s2", "s3", "s4"]),
        ({"outcome": "http 501"}, []),
        ({"host": "http://s3.test/"}, ["s3"]),
        ({"host": "https://example.net"}, []),
    ],
)
def test_a_filter_chooses_lanes_by_what_the_list_shows(
    fakes: FakeWorld, chosen: dict[str, Any], expected: list[str]
) -> None:
    lanes.pause(fakes.world, "test0", "s0")
    assert names(act(fakes, "retry", dry_run=True, **chosen)) == expected


@pytest.mark.parametrize(("read", "limit"), [(25, 2), (1, 2), (1, 100)])
def test_the_parts_of_an_act_hold_each_lane_once_although_it_moves_them_in_the_list(
    fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch, read: int, limit: int
) -> None:
    monkeypatch.setattr(lane_changes, "READ_MAX", read)
    fakes.clock.sleep(600)
    for verb in ("retry", "pause", "resume"):
        fakes.clock.sleep(1)
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        for _ in range(2 * COUNT):
            answer = act(fakes, verb, limit=limit, **cursor)
            assert answer["matched"] <= limit
            assert answer["changed"] == answer["matched"]
            seen += names(answer)
            fakes.clock.sleep(0.1)
            if answer["next_cursor"] is None:
                break
            cursor = {"cursor": answer["next_cursor"]}
        assert sorted(seen) == ["s0", "s1", "s2", "s3", "s4"], verb


def test_a_skip_by_one_lane_names_its_head_too(fakes: FakeWorld) -> None:
    path = "/topics/test0/subscriptions/s0/skip"
    head = lanes.backlog(fakes.world, "test0", "s0", 1, None).items[0].message_id
    body = json.dumps({"reason": "wrong", "message_id": head})
    assert [answered(fakes.world, "POST", path, body)["statusCode"] for _ in range(2)] == [200, 409]


def test_a_skip_without_heads_is_refused(fakes: FakeWorld) -> None:
    assert faults(fakes, "skip", reason="wrong") == ["#/lanes"]
    assert faults(fakes, "skip", reason="wrong", lanes=[]) == ["#/lanes"]
    assert faults(fakes, "skip", reason="wrong", lanes=[{"topic": "t", "subscription": "s"}]) == [
        "#/lanes/0/message_id"
    ]
    assert faults(fakes, "retry", lanes=[]) == ["#/lanes"]
    assert faults(fakes, "retry", cursor="bm9uZQ") == ["#/cursor"]


def test_a_token_reaches_the_lanes_of_its_topics_and_learns_no_others(fakes: FakeWorld) -> None:
    mine = MANAGE | {"tagcast_topics": "test1 test2"}

    answer = act(fakes, "pause", mine)
    named = [{"topic": f"test{n}", "subscription": f"s{n}"} for n in (1, 4)]
    by_name = act(fakes, "resume", mine, lanes=[*named, {"topic": "unknown", "subscription": "s"}])

    assert names(answer) == ["s1", "s2"]
    assert states(fakes) == ["blocked", "blocked", "paused", "blocked", "blocked"]
    assert [(lane["topic"], lane["result"]) for lane in by_name["lanes"]] == [
        ("test1", "changed"),
        ("test4", "failed"),
        ("unknown", "failed"),
    ]
    refused = [lane["error"] for lane in by_name["lanes"][1:]]
    assert refused[0] == refused[1]
    assert refused[0]["code"] == "forbidden"
    assert act(fakes, "pause", MANAGE)["matched"] == 0
    fakes.clock.sleep(1)
    page, found = act(fakes, "retry", mine, dry_run=True, limit=1), list[str]()
    while cursor := page["next_cursor"]:
        assert not re.search("test[034]", decode_cursor(cursor) or "")
        found += names(page)
        page = act(fakes, "retry", mine, dry_run=True, limit=1, cursor=cursor)
    assert sorted(found + names(page)) == ["s1", "s2"]
    reader = answered(fakes.world, "POST", "/lanes/pause", "{}", claims={"scope": "read", "tagcast_topics": "*"})
    assert reader["statusCode"] == 403


def test_a_lane_that_fails_in_the_middle_stops_no_other(fakes: FakeWorld, before: Before) -> None:
    def contended(world: World, topic: str, name: str) -> None:
        if name == "s2":
            raise UnavailableError("the lane of s2 is being changed by too many requests; try again")

    before.each(lane_changes, "pause", contended)
    answer = act(fakes, "pause")

    assert (answer["changed"], answer["failed"]) == (COUNT - 1, 1)
    [failed] = [lane for lane in answer["lanes"] if lane["result"] == "failed"]
    assert (failed["subscription"], failed["error"]["status"]) == ("s2", 503)


def test_a_request_whose_time_is_over_begins_no_further_lane(
    fakes: FakeWorld, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    before.each(lane_changes, "pause", lambda *_: fakes.clock.sleep(lanes.CHANGED_WITHIN_S / 2))
    by_filter = act(fakes, "pause")
    assert (by_filter["changed"], by_filter["failed"]) == (2, COUNT - 2)
    assert {lane["error"]["status"] for lane in by_filter["lanes"] if lane["result"] == "failed"} == {503}

    monkeypatch.setattr(lane_changes, "READ_MAX", 1)
    for number in range(COUNT):
        lanes.resume(fakes.world, f"test{number}", f"s{number}")
    fakes.clock.sleep(1)
    first = act(fakes, "pause")
    rest = act(fakes, "pause", cursor=first["next_cursor"])
    assert (first["changed"], first["failed"], rest["changed"]) == (2, 0, 2)


def test_what_is_gone_is_unchanged_and_an_active_lane_may_be_paused(fakes: FakeWorld) -> None:
    fakes.subscribe("idle", topic="test0")
    named = [{"topic": "test0", "subscription": name} for name in ("idle", "gone")]

    paused, retried = act(fakes, "pause", lanes=named), act(fakes, "retry", lanes=named[:1])

    assert [(lane["result"], lane.get("state")) for lane in paused["lanes"]] == [
        ("changed", "paused"),
        ("unchanged", None),
    ]
    assert retried["unchanged"] == 1
