"""`tagcast dead-letters replay`: letters go back to the subscriptions that gave them up, and what cannot stays."""

from typing import Any

import pytest
from tagcast_cli.dead_letters import _Replaying
from tagcast_client import Client

from tests.clients.in_memory_api import InMemoryApi
from tests.unit.cli.conftest import SUBSCRIPTION, FakeApi, Run

GROUP = "/topics/dead/subscriptions/keepers"
REPLAY = "POST /topics/orders/subscriptions/crm/replay"
ACCEPTED = {"accepted_at": "2026-11-26T10:00:00Z", "expires_at": "2026-11-27T10:00:00Z"}


Letters = list[list[dict[str, Any]]]
"""What each pull brings, in turn; then nothing."""


def letter(number: int, *, of: str = "", gave_up: str = "orders/crm", **changes: Any) -> dict[str, Any]:
    properties = {"customer": "42", "dead_letter_of": of or f"o{number}", "dead_letter_from": gave_up}
    properties |= {"dead_letter_state": "discarded", "dead_letter_attempts": "3"}
    return {
        "message_id": f"l{number}",
        "receipt_handle": f"r{number}",
        "topic": "dead",
        "subscription": "keepers",
        "attempt": 1,
        "tags": ["paid"],
        "content_type": None,
        "routing_key": None,
        "ordering_key": None,
        "properties": properties,
        "body": "poison",
        **ACCEPTED,
        **changes,
    }


def replayed(matched: int = 1) -> dict[str, Any]:
    return {"results": [{"message_id": "n", "matched": matched, **ACCEPTED}], "accepted": 1, "rejected": 0}


@pytest.fixture
def letters(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Letters:
    pulls: Letters = []
    answer_to = api.answer_to

    def answer(method: str, path: str) -> tuple[int, str, str]:
        if path == f"{GROUP}/pull":
            api.teach(f"POST {path}", {"messages": pulls.pop(0) if pulls else []})
        return answer_to(method, path)

    monkeypatch.setattr(api, "answer_to", answer)
    for verb in ("ack", "nack"):
        api.teach(f"POST {GROUP}/{verb}", {"results": []})
    for topic in ("orders", "secret"):
        api.teach(f"GET /topics/{topic}/subscriptions/crm", SUBSCRIPTION)
    return pulls


def told(api: FakeApi, verb: str) -> list[str]:
    found = [request.body["receipt_handles"] for request in api.requests if request.path == f"{GROUP}/{verb}"]
    return [handle for handles in found for handle in handles]


def test_each_letter_is_published_as_it_was_to_the_subscription_that_gave_it_up(
    api: FakeApi, run: Run, letters: Letters
) -> None:
    letters += [[letter(1), letter(2)], [letter(3)]]
    api.teach(REPLAY, replayed())

    result = run("dead-letters", "replay", "dead", "keepers")

    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "3 replayed.")
    sent = [request for request in api.requests if request.path.endswith("/replay")]
    original = {"replay_of": "o1", "body": "poison", "tags": ["paid"], "properties": {"customer": "42"}}
    assert sent[0].body == {"messages": [original]}
    keys = [f"dead-letter-l{place}-1795176000.000" for place in (1, 2, 3)]
    assert [request.headers["idempotency-key"] for request in sent] == keys
    assert (told(api, "ack"), told(api, "nack")) == (["r1", "r2", "r3"], [])


def test_what_cannot_go_back_stays_in_the_group_and_is_named(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1), letter(2, gave_up="orders/gone"), letter(3, properties={})]]
    api.teach(REPLAY, replayed(matched=0))

    result = run("dead-letters", "replay", "dead", "keepers")

    assert result.exit_code == 1
    assert "l1  orders/crm  stays: the filter of crm does not match it any more" in result.output
    assert "l2  orders/gone  stays: 404 Not found" in result.output
    assert "l3  —  stays: it is not a dead letter" in result.output
    assert (told(api, "ack"), told(api, "nack")) == ([], ["r1", "r2", "r3"])


def test_a_letter_that_did_not_match_is_published_under_another_key_after_an_update(
    api: FakeApi, run: Run, letters: Letters
) -> None:
    for matched, updated_at in ((0, "2026-11-20T12:00:00.000Z"), (1, "2026-11-20T12:00:00.001Z")):
        letters += [[letter(1)]]
        api.teach("GET /topics/orders/subscriptions/crm", {**SUBSCRIPTION, "updated_at": updated_at})
        api.teach(REPLAY, replayed(matched))
        run("dead-letters", "replay", "dead", "keepers")

    keys = [each.headers["idempotency-key"] for each in api.requests if each.path.endswith("/replay")]
    assert len(set(keys)) == 2
    assert told(api, "ack") == ["r1"]


def test_a_limit_bounds_what_is_pulled(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1), letter(2)], [letter(3)]]
    api.teach(REPLAY, replayed())

    assert run("dead-letters", "replay", "dead", "keepers", "--limit", "2").exit_code == 0

    assert [request.body["max_messages"] for request in api.requests if request.path == f"{GROUP}/pull"] == [2]
    assert told(api, "ack") == ["r1", "r2"]


def test_a_failure_in_between_gives_back_what_was_not_replayed(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1, properties={}), letter(2)]]
    api.teach(REPLAY, {"title": "Unauthorized", "status": 401}, 401)

    assert run("dead-letters", "replay", "dead", "keepers").exit_code == 1

    assert (told(api, "ack"), told(api, "nack")) == ([], ["r1", "r2"])


def test_a_letter_whose_replay_is_refused_holds_up_no_other(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1, gave_up="secret/crm"), letter(2)]]
    api.teach("POST /topics/secret/subscriptions/crm/replay", {"title": "Forbidden", "status": 403}, 403)
    api.teach(REPLAY, replayed())

    result = run("dead-letters", "replay", "dead", "keepers")

    assert "l1  secret/crm  stays: 403 Forbidden" in result.output
    assert (result.exit_code, told(api, "ack"), told(api, "nack")) == (1, ["r2"], ["r1"])


def test_what_fails_again_is_not_replayed_again_by_the_same_command(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1)], [letter(2, of="n")]]
    api.teach(REPLAY, replayed())

    result = run("dead-letters", "replay", "dead", "keepers")

    assert "l2  orders/crm  stays: its replay failed again" in result.output
    assert (result.exit_code, told(api, "ack"), told(api, "nack")) == (1, ["r1"], ["r2"])


def test_a_replayed_letter_is_no_letter_because_anybody_may_write_one(api: FakeApi, run: Run, letters: Letters) -> None:
    letters += [[letter(1, replay_of="o0")]]

    assert run("dead-letters", "replay", "dead", "keepers").exit_code == 1
    assert told(api, "nack") == ["r1"]


def test_letters_that_stay_are_hidden_while_the_others_are_replayed() -> None:
    """Each pull is an attempt: letters that came again all the time would be discarded in the end."""
    fakes, seen = InMemoryApi(), list[int]()
    fakes.fakes.topic("dead")
    fakes.fakes.group("keepers", topic="dead")
    with Client("http://127.0.0.1:8080", transport=fakes) as client:
        fakes.fakes.publish(*map(str, range(30)), topic="dead")
        fakes.fakes.deliver()
        replaying = _Replaying(client, "dead", "keepers")
        while (letters := replaying.pull(None)) and len(seen) < 100:
            for each in letters:
                seen.append(each.attempt)
                replaying.send(each)
                fakes.fakes.clock.sleep(10)
        replaying.give_back()
        assert seen == [1] * 30
        assert [each.attempt for each in client.pull("dead", "keepers", max_messages=10)] == [2] * 10
