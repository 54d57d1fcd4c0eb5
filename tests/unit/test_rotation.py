"""The exchange of a secret: both sign for a while, then the former one is nowhere any more."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook
from tagcast.ports import Table
from tagcast.pushing.envelope import http_request
from tagcast.registry.subscriptions import FORMERS_MAX
from tagcast.rows.keys import secrets_key

from tests.fakes.handlers import answered
from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeWorld
from tests.unit.worlds import known

FIRST, SECOND, THIRD, FOURTH, FIFTH = SECRETS = [f"whsec_{letter * 32}" for letter in "ABCDE"]
HOOK = "/topics/test1/subscriptions/A"
HTTP = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
GRACE_S = 3_600


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    ask(fake, "PUT", HOOK, {**HTTP, "secret": FIRST})
    return fake


def ask(fake: FakeWorld, method: str, path: str, body: Any = None, wanted: int | None = None) -> dict[str, Any]:
    reply = answered(fake.world, method, path, None if body is None else json.dumps(body))
    assert reply["statusCode"] == wanted or (wanted is None and reply["statusCode"] < 300), reply["body"]
    return dict(json.loads(reply["body"]))


def rotate(fake: FakeWorld, secret: str = SECOND, grace_s: int = GRACE_S) -> dict[str, Any]:
    return ask(fake, "POST", f"{HOOK}/secret/rotate", {"secret": secret, "grace_seconds": grace_s})


def signers(fake: FakeWorld) -> list[str]:
    """Those of all secrets by which the next push verifies."""
    fake.first_round("x")
    push, now = fake.pusher.pushes[-1], fake.clock.now()
    request = http_request(push, now, "1")
    made = request.headers["webhook-signature"].split(" ")
    at = datetime.fromtimestamp(now // 1000, UTC)
    return [each for each in SECRETS if Webhook(each).sign(push.message.message_id, at, request.body.decode()) in made]


def sealed_row(fake: FakeWorld) -> dict[str, Any]:
    return dict(fake.store.rows[secrets_key("test1", "A")])


def listed(fake: FakeWorld) -> int:
    return len(fake.store.query(Table.REGISTRY, "EXCHANGED"))


def test_for_the_grace_both_secrets_sign_and_then_the_new_one_alone(fake: FakeWorld) -> None:
    rotate(fake)
    assert signers(fake) == [FIRST, SECOND]
    fake.clock.sleep(GRACE_S - 1)
    assert signers(fake) == [FIRST, SECOND]

    fake.clock.sleep(1)

    assert signers(fake) == [SECOND]


def test_after_the_grace_the_sweep_removes_the_former_secret_from_storage(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tagcast.repairing.removals.AT_ONCE", 2)
    for secret in (THIRD, FIRST, SECOND):
        rotate(fake, secret)
        fake.clock.sleep(1)
    assert listed(fake) > 2
    fake.sweep()
    assert "formers" in sealed_row(fake)
    fake.clock.sleep(GRACE_S + 1)

    fake.sweep()

    assert sealed_row(fake).keys() == {"pk", "sk", "token", "content"}
    assert listed(fake) == 0
    assert known(fake).formers == ()
    assert signers(fake) == [SECOND]


def test_a_former_secret_that_could_not_be_removed_is_removed_by_the_next_sweep(fake: FakeWorld) -> None:
    rotate(fake)
    fake.clock.sleep(GRACE_S + 1)
    with throttled(fake.store, lambda key: key == secrets_key("test1", "A")):
        fake.sweep()
    assert "formers" in sealed_row(fake)
    fake.sweep()
    assert "formers" not in sealed_row(fake)
    assert listed(fake) == 0


@pytest.mark.parametrize("is_removed", [True, False])
def test_the_end_of_an_exchanged_secret_touches_nothing_newer(fake: FakeWorld, is_removed: bool) -> None:
    rotate(fake)
    if is_removed:
        answered(fake.world, "DELETE", HOOK, None)
    ask(fake, "PUT", HOOK, {**HTTP, "secret": THIRD})
    before = sealed_row(fake)
    fake.clock.sleep(GRACE_S + 1)

    fake.sweep()

    assert (sealed_row(fake), listed(fake)) == (before, 0)
    assert signers(fake) == [THIRD]
    assert fake.telemetry.faults == []


def test_who_exchanges_again_within_the_grace_breaks_nobody_who_knows_an_earlier_secret(fake: FakeWorld) -> None:
    for secret in (SECOND, THIRD, FOURTH):
        rotate(fake, secret)
    assert signers(fake) == [FIRST, SECOND, THIRD, FOURTH]

    rotate(fake, FIFTH)

    assert signers(fake) == [SECOND, THIRD, FOURTH, FIFTH]
    assert len(known(fake).formers) == FORMERS_MAX


@pytest.mark.parametrize(
    ("change", "signing"),
    [
        ({"secret": SECOND}, [FIRST, SECOND]),
        ({"secret": SECOND, "headers": {"x-a": "b"}}, [FIRST, SECOND]),
        ({"secret": SECOND, "headers": None, "client_certificate": None}, [FIRST, SECOND]),
        ({"secret": THIRD}, [THIRD]),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "batch"])
def test_a_change_ends_the_former_secret_at_once_unless_it_repeats_the_present_one(
    fake: FakeWorld, method: str, change: dict[str, Any], signing: list[str]
) -> None:
    rotate(fake)
    body = HTTP | change

    if method == "batch":
        ask(fake, "POST", "/topics/test1/subscriptions/batch", {"subscriptions": [{"name": "A", **body}]})
    else:
        ask(fake, method, HOOK, body)

    assert signers(fake) == signing


def test_the_last_three_sign_on_however_long_each_does(fake: FakeWorld) -> None:
    for secret in (SECOND, THIRD, FOURTH):
        rotate(fake, secret, 2 * GRACE_S)

    for _ in range(2):
        assert rotate(fake, FIFTH)["former_secret_ends_at"] == "2027-01-15T09:00:00.000Z"

    assert signers(fake) == [SECOND, THIRD, FOURTH, FIFTH]
    fake.clock.sleep(GRACE_S)
    assert signers(fake) == [SECOND, THIRD, FIFTH]


def test_without_a_grace_the_former_secret_signs_nothing_more_and_an_earlier_one_until_its_own_end(
    fake: FakeWorld,
) -> None:
    assert "former_secret_ends_at" not in rotate(fake, grace_s=0)
    assert (signers(fake), "formers" in sealed_row(fake)) == ([SECOND], False)
    rotate(fake, THIRD)

    assert "former_secret_ends_at" not in rotate(fake, FOURTH, 0)

    assert signers(fake) == [SECOND, FOURTH]


def test_each_exchanged_secret_signs_until_its_own_end(fake: FakeWorld) -> None:
    rotate(fake)
    rotate(fake, THIRD, 2 * GRACE_S)
    fake.clock.sleep(GRACE_S + 1)

    fake.sweep()

    assert signers(fake) == [SECOND, THIRD]
    assert (listed(fake), "formers" in sealed_row(fake)) == (1, True)


def test_the_same_secret_again_changes_nothing_and_tells_no_end_that_is_over(fake: FakeWorld) -> None:
    first = rotate(fake)
    fake.clock.sleep(60)

    assert rotate(fake) == first
    assert first["former_secret_ends_at"] == "2027-01-15T09:00:00.000Z"
    fake.clock.sleep(GRACE_S - 60)
    assert "former_secret_ends_at" not in rotate(fake)


def test_a_secret_that_the_service_makes_is_told_in_that_answer_alone(fake: FakeWorld) -> None:
    made = ask(fake, "PUT", HOOK, {**HTTP, "secret": "generate"})["secret"]
    rotated = rotate(fake, "generate")["secret"]

    assert len({made, rotated, FIRST}) == 3
    assert (known(fake).secret, [former.secret for former in known(fake).formers]) == (rotated, [made])
    Webhook(rotated)
    later = [ask(fake, "GET", HOOK), ask(fake, "GET", "/topics/test1/subscriptions"), ask(fake, "PUT", HOOK, HTTP)]
    assert "whsec_" not in json.dumps(later)
    assert "whsec_" not in repr(fake.store.rows)


def test_what_is_not_signed_has_no_secret_to_exchange(fake: FakeWorld) -> None:
    fake.group("g")
    queue = {"protocol": "sqs", "arn": "arn:aws:sqs:us-east-1:123456789012:q"}
    ask(fake, "PUT", "/topics/test1/subscriptions/q", {"endpoint": queue})

    for name in ("g", "q"):
        ask(fake, "POST", f"/topics/test1/subscriptions/{name}/secret/rotate", {}, wanted=409)
    ask(fake, "POST", "/topics/test1/subscriptions/absent/secret/rotate", {}, wanted=404)


def test_an_exchange_may_name_the_version_that_it_is_about(fake: FakeWorld) -> None:
    path, body = f"{HOOK}/secret/rotate", json.dumps({"secret": SECOND})

    assert answered(fake.world, "POST", path, body, {"if-match": '"2"'})["statusCode"] == 412
    assert answered(fake.world, "POST", path, body, {"if-match": '"1"'})["statusCode"] == 200


@pytest.mark.parametrize("body", [{"grace_seconds": 604_801}, {"grace_seconds": -1}, {"secret": "make one"}])
def test_what_is_no_exchange_is_refused(fake: FakeWorld, body: dict[str, Any]) -> None:
    faults = ask(fake, "POST", f"{HOOK}/secret/rotate", body, wanted=422)["errors"]

    assert [fault["pointer"] for fault in faults] == [f"#/{name}" for name in body]
