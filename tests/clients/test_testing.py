"""The fakes that the client brings for tests of other programs answer as the service does."""

from collections.abc import Callable
from typing import Any

import pytest
from tagcast_client import (
    Client,
    NewMessage,
    ProblemError,
    Receiver,
    Refused,
    Retries,
    ServerError,
    VerificationError,
)
from tagcast_client.settings import Endpoint
from tagcast_client.testing import TEST_SECRET, TEST_URL, FakeApi, sign_push

from tests.clients.in_memory_api import InMemoryApi

HOOK = "https://example.com/hook"
FUNCTION: Endpoint = {"protocol": "lambda", "function": "arn:aws:lambda:us-east-1:123456789012:function:f"}


def asked_of(client: Client) -> list[object]:
    """What a publisher sees of requests that depend on more than one field."""

    def code(call: Callable[[], object]) -> str:
        with pytest.raises(ProblemError) as refused:
            call()
        return refused.value.code

    seen: list[object] = [code(lambda: client.get_topic("orders")), code(lambda: client.publish("orders", "x"))]
    seen += [client.create_topic("orders", retention_seconds=60).retained_messages]
    seen += [client.get_topic("orders").retained_messages]
    batched = client.ensure_subscription("orders", "b", HOOK, batch={"max_messages": 5}, max_per_second=5)
    seen += [batched.batch, batched.max_per_second]
    made = client.create_subscription("orders", "g", HOOK, secret="generate")
    seen += [made.secret is None, client.get_subscription("orders", "g").secret]
    ends = client.rotate_secret("orders", "g", secret=TEST_SECRET, grace_seconds=60).former_secret_ends_at
    seen += [client.create_subscription("orders", "v", HOOK, signature="v1a").signatures]
    for _ in range(2):
        by_function = client.ensure_subscription("orders", "f", FUNCTION, secret=TEST_SECRET, signature="v1a")
        seen += [by_function.signatures]
    seen += [client.create_subscription("orders", "w", {"protocol": "pull"}).start_from]
    seen += [code(lambda: client.rotate_secret("orders", "w", secret=TEST_SECRET))]
    endpoints: dict[str, Any] = {"o": HOOK, "p": {"protocol": "pull"}}
    retries: list[Any] = [{"strategy": "BACKOFF_RETRY"}, {"max_retries": "life"}, {"max_retries": 5}]
    for name, endpoint in endpoints.items():
        client.create_subscription("orders", name, endpoint, ordered=True)
        for retry in retries:
            changed = client.update_subscription("orders", name, retry=retry)
            seen += [changed.ordered, changed.retry]
    seen += [client.create_subscription("orders", "q", HOOK, retry={"strategy": "EXPONENTIAL_DECAY_RETRY"}).retry]
    accepted = client.publish("orders", "x")
    assert client.publish("orders", {"order": 17}, idempotency_key="k1") == (
        client.publish("orders", {"order": 17}, idempotency_key="k1")
    )
    seen += [accepted.matched, len(accepted.message_id), client.health().status]
    seen += [round((accepted.expires_at - accepted.accepted_at).total_seconds()), ends is None]
    both = [NewMessage("a"), NewMessage(b"\xff")]
    assert client.publish_batch("orders", both, idempotency_key="k") == (
        client.publish_batch("orders", both, idempotency_key="k")
    )
    seen += [code(lambda: client.publish("orders", "a", idempotency_key="k"))]
    seen += [code(lambda: client.publish("orders", {"order": 18}, idempotency_key="k1"))]
    seen += [code(lambda: client.publish_batch("orders", both[:1], idempotency_key="k"))]
    number: Any = {"price": 120}
    numbers: Any = [1]
    seen += [code(lambda: client.publish("orders", "a", properties=number))]
    seen += [code(lambda: client.publish("orders", "a", tags=numbers))]
    results = client.publish_batch("orders", [both[0], NewMessage("b", properties=number), both[1]])
    return [*seen, *(each.error["code"] if isinstance(each, Refused) else "accepted" for each in results)]


def test_the_fake_and_the_shipped_handlers_answer_the_same() -> None:
    fake, shipped = (
        asked_of(Client(TEST_URL, transport=each, retries=Retries(0))) for each in (FakeApi(), InMemoryApi())
    )
    assert fake == shipped


def test_the_fake_records_what_was_published(fake_tagcast: FakeApi, tagcast: Client) -> None:
    tagcast.create_topic("orders")
    tagcast.publish("orders", {"order": 17}, tags=["paid"], properties={"price": "5"}, ordering_key="k")
    tagcast.publish("orders", b"\xff")

    first, second = fake_tagcast.published
    assert (first.topic, first.json()) == ("orders", {"order": 17})
    assert (first.tags, first.properties) == (("paid",), {"price": "5"})
    assert (first.ordering_key, first.content_type, second.body) == ("k", "application/json", b"\xff")


async def test_the_fake_serves_an_asynchronous_client_and_says_what_it_does_not_answer() -> None:
    api = FakeApi()
    async with api.async_client() as client:
        await client.create_topic("orders")
        await client.publish("orders", "x")
        with pytest.raises(ServerError, match=r"^501 Not implemented: the fake does not answer GET /messages/1$"):
            await client.find_message("1")
    assert [each.body for each in api.published] == [b"x"]


def test_a_signed_test_push_verifies_and_one_of_another_secret_does_not() -> None:
    received = Receiver(TEST_SECRET).verify(*sign_push("one apple", topic="fruit", tags=["apple"], attempt=2))
    assert (received.text(), received.topic, received.tags, received.attempt) == ("one apple", "fruit", ("apple",), 2)
    other = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
    with pytest.raises(VerificationError):
        Receiver(TEST_SECRET).verify(*sign_push("one apple", secret=other))
    with pytest.raises(ValueError, match="a secret is"):
        sign_push("one apple", secret="none")
