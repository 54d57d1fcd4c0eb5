"""Publish, message and explain say why a delivery waits: behind what, until when, and which command helps."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tagcast_cli import screen

from tests.unit.cli.conftest import FakeApi, Run

ID, BEFORE = "01747000000000000002", "01747000000000000001"
SOON = (datetime.now(UTC) + timedelta(days=2, hours=1)).isoformat()
HEAD = {
    "message_id": BEFORE,
    "state": "blocked",
    "attempts": 3,
    "next_attempt_at": SOON,
    "expires_at": SOON,
    "last_outcome": "http 500",
}
BEHIND = f"shop: waits behind message {BEFORE}, which failed (http 500, attempt 3); its next attempt: "


def subscription(name: str, **more: Any) -> dict[str, Any]:
    return {"topic": "fruit", "name": name, "endpoint": {"protocol": "http", "url": "http://x/"}, **more}


def teach(api: FakeApi, entries: dict[str, dict[str, Any]], *subscriptions: dict[str, Any]) -> None:
    message = {"message_id": ID, "topic": "fruit", "state": "retained", "body": "x", "subscribers": entries}
    api.teach("POST /topics/fruit/messages", {"message_id": ID, "matched": len(entries)}, 201)
    api.teach(f"GET /topics/fruit/messages/{ID}", message)
    api.teach("GET /topics/fruit/subscriptions?limit=100", {"subscriptions": subscriptions})
    for each in subscriptions:
        api.teach(f"GET /topics/fruit/subscriptions/{each['name']}", each)
        lane = {"lane": each.get("lane", {}).get("state")}
        api.teach(f"GET /topics/fruit/messages/{ID}/explain?subscription={each['name']}", {"delivery": lane})
        api.teach(f"GET /topics/fruit/subscriptions/{each['name']}/backlog?limit=1", {"deliveries": [HEAD]})


def entry(state: str, attempts: int = 0) -> dict[str, Any]:
    return {"state": state, "attempts": attempts, "last_attempt_at": None, "last_outcome": None}


def test_a_message_says_behind_what_it_waits_until_when_and_what_helps(api: FakeApi, run: Run) -> None:
    teach(api, {"shop": entry("blocked")}, subscription("shop", lane={"state": "lost_contact"}))

    shown = run("message", "fruit", ID).output

    assert BEHIND in shown
    assert shown.count("(in 2 d") == 2  # Its next attempt, and its end.
    skip = f"tagcast skip fruit shop --message {BEFORE} --reason TEXT"
    assert f"Retry now: tagcast retry fruit shop; Skip that one: {skip}" in shown
    assert "waits behind" not in run("--json", "message", "fruit", ID).output


def test_each_reason_names_its_command(api: FakeApi, run: Run) -> None:
    for more, why, helps in (
        ({"lane": {"state": "paused"}}, "the subscription is paused", "tagcast resume fruit shop"),
        ({"lane": {"state": "suspended"}}, "410 Gone", "tagcast resume fruit shop"),
        (
            {"state": "unverified", "state_reason": "http 404", "lane": {"state": "active"}},
            "until its endpoint is verified; its response: http 404",
            "tagcast verify fruit shop",
        ),
        (
            {"endpoint": {"protocol": "pull"}, "lane": {"state": "active"}},
            "until a consumer pulls it",
            "tagcast consume fruit shop",
        ),
        ({"lane": {"state": "active"}}, "its attempt is in progress", "tagcast lane fruit shop"),
    ):
        teach(api, {"shop": entry("pending")}, subscription("shop", **more))
        shown = run("message", "fruit", ID).output
        assert why in shown
        assert helps in shown


def test_a_delivery_to_a_deleted_subscription_waits_for_nothing_at_the_later_one_of_its_name(
    api: FakeApi, run: Run
) -> None:
    teach(api, {"shop": entry("pending")}, subscription("shop", endpoint={"protocol": "pull"}))
    api.teach(f"GET /topics/fruit/messages/{ID}/explain?subscription=shop", {"delivery": {"lane": "removed"}})

    shown = run("message", "fruit", ID).output

    assert "shop: its subscription was deleted" in shown
    assert "tagcast consume" not in shown


def test_what_ended_waits_for_nothing(api: FakeApi, run: Run) -> None:
    teach(api, {"shop": entry("delivered", 1)}, subscription("shop", lane={"state": "blocked"}))

    assert "waits" not in run("message", "fruit", ID).output
    assert not [request for request in api.requests if "/subscriptions" in request.path]


def test_of_many_that_wait_a_few_are_explained_and_the_others_counted(api: FakeApi, run: Run) -> None:
    names = [f"s{number}" for number in range(9)]
    lane = {"state": "lost_contact"}
    teach(api, {name: entry("blocked") for name in names}, *(subscription(name, lane=lane) for name in names))

    shown = run("message", "fruit", ID).output

    assert shown.count("waits behind") == 3
    assert "6 more wait: tagcast lane fruit NAME says why." in shown


def test_an_explanation_says_behind_what_the_delivery_waits(api: FakeApi, run: Run) -> None:
    teach(api, {}, subscription("shop", lane={"state": "blocked"}))
    answer = {"received": False, "reason": "its filter matched", "delivery": {"state": "blocked", "attempts": 0}}
    api.teach(f"GET /topics/fruit/messages/{ID}/explain?subscription=shop", answer)

    shown = run("explain", "fruit", ID, "--subscription", "shop").output

    assert BEHIND in shown
    assert "tagcast retry fruit shop" in shown


def test_publish_says_who_gets_the_message_late_and_how_to_follow_it(api: FakeApi, run: Run) -> None:
    lanes = {"shop": "blocked", "crm": "active", "other": "paused"}
    entries = {"shop": entry("pending"), "crm": entry("pending")}
    teach(api, entries, *(subscription(name, lane={"state": state}) for name, state in lanes.items()))

    shown = run("publish", "fruit", "x").output

    assert BEHIND in shown
    assert "crm" not in shown
    assert "other" not in shown
    assert f"Follow it with: tagcast message fruit {ID}" in shown


def test_no_line_break_cuts_a_command_that_publish_prints(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "PIPE_WIDTH", 40)
    api.teach("POST /topics/fruit/messages", {"message_id": ID, "matched": 1}, 201)
    api.teach(f"GET /topics/fruit/messages/{ID}", {"message_id": ID, "subscribers": {"shop": {"state": "blocked"}}})
    held = {"topic": "fruit", "name": "shop", "lane": {"state": "blocked"}}
    api.teach("GET /topics/fruit/subscriptions?limit=100", {"subscriptions": [held]})
    api.teach("GET /topics/fruit/subscriptions/shop/backlog?limit=1", {"deliveries": [{"message_id": "1"}]})
    output = run("publish", "fruit", "x").output
    retry = "  Retry now: tagcast retry fruit shop; Skip that one: tagcast skip fruit shop --message 1 --reason TEXT"
    assert output.splitlines()[-2:] == [retry, f"Follow it with: tagcast message fruit {ID}"]


def test_who_may_only_publish_is_told_how_to_follow_it(api: FakeApi, run: Run) -> None:
    api.teach("POST /topics/fruit/messages", {"message_id": ID, "matched": 1}, 201)
    api.teach(f"GET /topics/fruit/messages/{ID}", {"title": "Forbidden", "status": 403}, 403)

    result = run("publish", "fruit", "x")

    assert result.exit_code == 0
    assert f"Follow it with: tagcast message fruit {ID}" in result.output


def test_a_topic_that_retains_nothing_says_what_is_listed_and_where_the_others_are(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/fruit/messages?limit=50", {"messages": [], "next_cursor": None})

    shown = run("messages", "fruit").output

    assert "No messages: no delivery of fruit is in a backlog." in shown
    assert "tagcast message fruit ID" in shown
    assert "tagcast report" in shown
