"""Attempts are remembered while a delivery is pending, and in the receipt of a failed one; nowhere else."""

import json
import string
import time
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tagcast.model import Outcome, PastAttempt
from tagcast.pushing.response_text import REDACTED, SHOWN_BYTES_MAX, response_text
from tagcast.rows.due import HISTORY_BYTES_MAX, pack_history, unpack_history

from tests.fakes.handlers import answered
from tests.fakes.world import OK, FakeWorld

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def refusing(answer: bytes) -> Outcome:
    return Outcome(False, "http 503", status=503, answer=answer)


REFUSED = refusing(b"no")


def asked(fake: FakeWorld, target: str) -> Any:
    reply = answered(fake.world, "GET", f"/topics/test1/messages/{target}")
    assert reply["statusCode"] == 200, reply
    return json.loads(reply["body"])


def histories(fake: FakeWorld, message_id: str) -> dict[str, list[dict[str, Any]]]:
    deliveries = asked(fake, f"{message_id}/attempts")["deliveries"]
    return {delivery["subscription"]: delivery["history"] for delivery in deliveries}


def noise(dice: Random, length: int) -> str:
    return "".join(dice.choices(string.ascii_letters, k=length))


@pytest.mark.parametrize(
    "piece", ["token-", "api-key", "authorization-", "token ", "token=", "bearer ", "a-", "whsec_"]
)
def test_a_response_is_shown_soon_whatever_it_repeats(piece: str) -> None:
    """A receiver chooses it, and what takes long holds up the pushes to others."""
    began = time.thread_time()
    response_text((piece * 4_096)[:4_096].encode())
    assert time.thread_time() - began < 0.2


def test_an_owed_delivery_tells_of_its_attempts(fake: FakeWorld) -> None:
    fake.subscribe("A", answers=refusing(b"closed\x00 for lunch"))
    fake.pusher.before_push = lambda push: fake.clock.sleep(0.25)
    [message_id] = fake.first_round("1")

    [attempt] = histories(fake, message_id)["A"]

    assert asked(fake, f"{message_id}/explain?subscription=A")["delivery"]["history"] == [attempt]
    assert attempt.pop("ended_at").endswith("Z")
    assert attempt == {
        "attempt": 1,
        "took_ms": 250,
        "outcome": "http 503",
        "status": 503,
        "response": "closed\\x00 for lunch",
    }


def test_of_many_attempts_the_last_ten_are_remembered(fake: FakeWorld) -> None:
    fake.subscribe("A", max_retries=20, answers=REFUSED)
    [message_id] = fake.first_round("1")
    fake.run_for(200)

    numbers = [attempt["attempt"] for attempt in histories(fake, message_id)["A"]]

    assert len(numbers) == 10
    assert numbers == list(range(numbers[0], numbers[0] + 10))
    assert numbers[-1] == asked(fake, message_id)["subscribers"]["A"]["attempts"]


def test_a_receipt_remembers_the_attempts_of_what_failed(fake: FakeWorld) -> None:
    for name in ("A", "B", "C"):
        fake.subscribe(name, max_retries=2, answers=REFUSED)
    fake.pusher.behaviours["B"] = lambda push: OK
    fake.pusher.behaviours["C"] = lambda push: OK if push.attempt > 1 else REFUSED
    [message_id] = fake.first_round("1")
    fake.run_for(600)

    assert asked(fake, message_id)["state"] == "deleted"
    assert {name: [each["attempt"] for each in told] for name, told in histories(fake, message_id).items()} == {
        "A": [1, 2, 3]
    }


def test_the_oldest_attempts_lose_their_answers_first_and_then_go() -> None:
    dice = Random(7)
    said = [PastAttempt(n, n * 1000, 5, "http 500", 500, noise(dice, SHOWN_BYTES_MAX)) for n in range(1, 11)]

    written = pack_history(said)
    kept = unpack_history(written)
    wordy = [replace(each, outcome=noise(dice, 200), response="") for each in said]
    silent = unpack_history(pack_history(wordy, 600))

    assert len(written) <= HISTORY_BYTES_MAX
    assert [each.number for each in kept] == list(range(1, 11))
    silenced = [not each.response for each in kept]
    assert 0 < sum(silenced) < 10
    assert silenced == sorted(silenced, reverse=True)
    assert 0 < len(silent) < 10
    assert silent[-1].number == 10


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        SECRET.removeprefix("whsec_"),
        "Authorization: Basic dXNlcjpwYXNz",
        '{"headers": {"authorization": "Bearer eyJhbGciOi.J9.x"}}',
        '{"x-api-key":"0123456789abcdef"}',
        "token=0123456789abcdef&a=b",
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20150830",
        "Cookie: session=0123456789abcdef",
        r"key <0123456789abcdef\/MfKQ9r8+\"&'>",
        r"key \u003C0123456789abcdef\u002fMfKQ9r8\u002B\"\u0026\u0027\u003E",
        "key &lt;0123456789abcdef&#x2F;MfKQ9r8&#43;&quot;&amp;&#39;&gt;",
        "key %3C0123456789abcdef%2fMfKQ9r8%2B%22%26%27%3E",
        "key %3C0123456789abcdef/MfKQ9r8+%22&'%3E",
    ],
)
def test_secrets_are_never_shown(said: str) -> None:
    shown = response_text(f"you sent {said} to us".encode(), (SECRET, "<0123456789abcdef/MfKQ9r8+\"&'>"))

    assert REDACTED in shown
    for secret in ("MfKQ9r8", "dXNlcjpw", "eyJhbGci", "0123456789abcdef", "AKIAIOSFODNN7EXAMPLE"):
        assert secret not in shown


@pytest.mark.parametrize(
    "answer", [b"\x1b[31m" * 2_000, b"\xff" * 5_000, "ü".encode() * 2_000, "\u202e\u2028x".encode()]
)
def test_what_is_shown_is_short_and_visible(answer: bytes) -> None:
    shown = response_text(answer)

    assert 0 < len(shown.encode()) <= SHOWN_BYTES_MAX
    assert shown.isprintable()


def test_the_subscription_s_own_secret_is_redacted_where_attempts_are_told(fake: FakeWorld) -> None:
    fake.subscribe("A", secret=SECRET, answers=refusing(f"bad signature by {SECRET}".encode()))
    [message_id] = fake.first_round("1")

    assert histories(fake, message_id)["A"][0]["response"] == f"bad signature by {REDACTED}"
