"""Many subscriptions in one request: each is judged alone, and together they cost fewer writes than one by one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tagcast.errors import ConditionLostError, ConflictError, InvalidRequestError, UnavailableError
from tagcast.model import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy, SubscriptionSettings
from tagcast.operating import lanes
from tagcast.operating.verification import put_all_verified
from tagcast.ports import Put, Write
from tagcast.registry import directory, subscriptions
from tagcast.registry.subscribing import (
    PUT_TOGETHER,
    SUBSCRIPTIONS_MAX,
    Result,
    StoredSubscription,
    SubscriptionRequest,
)
from tagcast.registry.subscriptions import rotate_secret
from tagcast.rows.keys import topic_key
from tagcast.verification import VerificationResult
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.subscriptions.several import READ_WITHIN_S, SubscriptionsBody, put_several
from tagcast_aws.endpoints.addresses import DOES_NOT_RESOLVE
from tagcast_aws.endpoints.guard import LOOKUP_S_MAX

from tests.fakes.memory_store import TRANSACTION_MAX
from tests.fakes.raced_store import before_the_next_transaction
from tests.fakes.world import FakeClock, FakeWorld
from tests.unit.api.test_http_api import Reply
from tests.unit.worlds import ask

SETTINGS = SubscriptionSettings(
    endpoint=Endpoint(Protocol.HTTPS, "https://a.test/"),
    filter=None,
    retry=RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176),
    timeout_s=15,
    content_format=ContentFormat.JSON,
    secret=None,
)
GROUP = replace(SETTINGS, endpoint=Endpoint(Protocol.PULL, ""), start_from=0)
HOOK = {"protocol": "https", "url": "https://a.test/"}
FUNCTION_S = 29
"""The timeout of the function manage."""
SECRET, OTHER = "whsec_" + "QUJD" * 8, "whsec_" + "QUJE" * 8


def put(fake: FakeWorld, wanted: Sequence[SubscriptionRequest]) -> list[Result]:
    return put_all_verified(fake.world, "test1", wanted, fake.clock.monotonic())


def named(*names: str, settings: SubscriptionSettings = SETTINGS) -> list[SubscriptionRequest]:
    return [SubscriptionRequest(name, settings) for name in names]


def three_of_which_two_must_be_verified() -> list[SubscriptionRequest]:
    return [
        replace(
            *named(f"S{n}", settings=replace(SETTINGS, endpoint=Endpoint(Protocol.HTTPS, f"https://{n}.test/"))),
            verification="required" if n in "12" else None,
        )
        for n in "123"
    ]


def names(fake: FakeWorld) -> set[str]:
    return set(directory.directory_of(fake.world, "test1").by_name)


def kinds(results: Sequence[Result]) -> list[type]:
    return [type(each) for each in results]


@pytest.mark.parametrize("known", [(), ("S1", "S7")])
def test_what_is_put_together_is_stored_as_if_each_was_put_alone(known: tuple[str, ...]) -> None:
    together, alone = FakeWorld(), FakeWorld()
    wanted = [SubscriptionRequest(f"S{number}", GROUP if number % 3 == 0 else SETTINGS) for number in range(13)]
    for each in (together, alone):
        each.topic()
        for name in known:
            subscriptions.put_subscription(each.world, "test1", name, SETTINGS)

    results = put(together, wanted)
    made = [subscriptions.put_subscription(alone.world, "test1", each.name, each.settings) for each in wanted]

    assert [(each.subscription, each.is_new) for each in results if isinstance(each, StoredSubscription)] == made
    assert together.store.rows == alone.store.rows
    assert together.group_queues.queues.keys() == alone.group_queues.queues.keys()
    assert [each.subscription_id for each in together.workflow.tasks] == [
        each.subscription_id for each in alone.workflow.tasks
    ]


def test_a_hundred_take_two_rows_each_and_one_of_the_topic_a_transaction(fake: FakeWorld) -> None:
    before = fake.store.writes
    put(fake, named(*(f"S{number}" for number in range(100))))

    assert fake.store.writes - before == 2 * 100 + -(-100 // PUT_TOGETHER)
    assert len(names(fake)) == 100


def test_the_most_writes_of_a_transaction_are_as_many_as_dynamodb_takes(fake: FakeWorld) -> None:
    wanted = []
    for number in range(PUT_TOGETHER):
        known = fake.subscribe(f"S{number}", strategy=Strategy.INDEPENDENT_RETRY)
        lanes.pause(fake.world, "test1", known.name)
        for secret, grace_s in ((SECRET, 0), (OTHER, 3600)):
            rotate_secret(fake.world, "test1", known.name, secret, grace_s)
        settings = replace(known.settings, headers={"x-a": "b"}, retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3))
        wanted.append(SubscriptionRequest(known.name, settings, None, frozenset({"secret"})))
    before = fake.store.writes

    assert kinds(put(fake, wanted)) == [StoredSubscription] * PUT_TOGETHER
    assert fake.store.writes - before == 5 * PUT_TOGETHER + 1 <= TRANSACTION_MAX


def test_whoever_read_the_topic_before_sees_all_of_them(fake: FakeWorld) -> None:
    for count in (3, 30):
        names(fake)
        wanted = {f"S{count}-{number}" for number in range(count)}
        put(fake, named(*sorted(wanted)))
        assert wanted <= names(fake)


def test_who_loses_to_another_administrator_puts_all_of_them_beside_hers(fake: FakeWorld) -> None:
    before_the_next_transaction(fake.store, lambda: put(fake, named("B", "C")))

    results = put(fake, named("A", "B"))

    made = [each for each in results if isinstance(each, StoredSubscription)]
    assert [(each.subscription.name, each.subscription.version, each.is_new) for each in made] == [
        ("A", 3, True),
        ("B", 2, False),
    ]
    present = directory.directory_of(fake.world, "test1")
    assert sorted(present.by_ordinal) == [0, 1, 2]
    assert (present.topic.subscription_count, present.topic.subscriptions_version) == (3, 4)


def test_what_has_no_room_or_cannot_become_what_it_should_stops_nothing_beside_it(fake: FakeWorld) -> None:
    put(fake, named("pushed"))
    fake.store.rows[topic_key("test1")]["subscription_count"] = SUBSCRIPTIONS_MAX - 1

    results = put(fake, [*named("A"), *named("pushed", settings=GROUP), *named("B"), *named("pushed2")])

    assert kinds(results) == [StoredSubscription, ConflictError, ConflictError, ConflictError]
    assert names(fake) == {"pushed", "A"}


def test_an_endpoint_that_may_not_be_reached_stops_nothing_beside_it(fake: FakeWorld) -> None:
    class Closed:
        def refusal(self, endpoint: Endpoint) -> str | None:
            return "not public" if "private" in endpoint.target else None

    fake.world = replace(fake.world, guard=Closed())
    private = replace(SETTINGS, endpoint=Endpoint(Protocol.HTTPS, "https://private.test/"))

    assert kinds(put(fake, [SubscriptionRequest("A", private), *named("B")])) == [
        InvalidRequestError,
        StoredSubscription,
    ]
    assert names(fake) == {"B"}


def test_secrets_that_cannot_be_sealed_stop_nothing_beside_them(fake: FakeWorld) -> None:
    fake.vault.broken = True

    results = put(fake, [SubscriptionRequest("A", replace(SETTINGS, secret=SECRET)), *named("B")])

    assert kinds(results) == [UnavailableError, StoredSubscription]
    assert names(fake) == {"B"}


def test_what_others_change_all_the_while_is_unavailable_and_what_was_put_stays(fake: FakeWorld) -> None:
    calls = []

    def contended(writes: Sequence[Write]) -> None:
        calls.append(len(writes))
        if len(calls) > 1:
            raise ConditionLostError

    fake.store.before_transact = contended
    results = put(fake, named(*(f"S{number:02}" for number in range(PUT_TOGETHER + 2))))

    assert kinds(results) == [StoredSubscription] * PUT_TOGETHER + [UnavailableError] * 2
    assert len(names(fake)) == PUT_TOGETHER


def test_endpoints_are_asked_one_by_one_and_those_that_did_not_agree_wait(fake: FakeWorld) -> None:
    wanted = three_of_which_two_must_be_verified()
    fake.verifier.consents["https://2.test/"] = VerificationResult("http 404")

    put(fake, wanted)

    assert [url for url, _ in fake.verifier.asked] == ["https://1.test/", "https://2.test/"]
    present = directory.directory_of(fake.world, "test1").by_name
    assert [present[f"S{n}"].settings.unverified for n in "123"] == [None, "http 404", None]


def test_endpoints_that_answer_slowly_take_no_time_from_those_beside_them(fake: FakeWorld) -> None:
    wanted = three_of_which_two_must_be_verified()

    class Slow:
        def ask(self, settings: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
            fake.clock.sleep(9)
            return VerificationResult()

    fake.world = replace(fake.world, verification=replace(fake.world.verification, verifier=Slow()))

    assert kinds(put(fake, wanted)) == [StoredSubscription, UnavailableError, StoredSubscription]
    assert kinds(put(fake, wanted)) == [StoredSubscription, StoredSubscription, StoredSubscription]
    assert names(fake) == {"S1", "S2", "S3"}


class SilentNameServer:
    """The guard where no name server answers: each look-up takes its whole time."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def refusal(self, endpoint: Endpoint) -> str | None:
        self._clock.sleep(LOOKUP_S_MAX)
        return DOES_NOT_RESOLVE


@pytest.mark.parametrize("verification", [None, "required"])
def test_names_that_nobody_resolves_do_not_hold_a_request_beyond_its_time(
    fake: FakeWorld, verification: str | None
) -> None:
    wanted = [replace(each, verification=verification) for each in named(*(f"S{number}" for number in range(100)))]
    fake.world = replace(fake.world, guard=SilentNameServer(fake.clock))
    came_s = fake.clock.monotonic()

    results = put(fake, wanted)

    assert fake.clock.monotonic() - came_s < FUNCTION_S
    assert set(kinds(results)) == {InvalidRequestError, UnavailableError}


def test_an_endpoint_that_is_stored_is_updated_without_a_look_up_of_its_name(fake: FakeWorld) -> None:
    wanted = named(*(f"S{number}" for number in range(100)))
    put(fake, wanted)
    fake.world = replace(fake.world, guard=SilentNameServer(fake.clock))
    came_s = fake.clock.monotonic()

    assert set(kinds(put(fake, wanted))) == {StoredSubscription}
    assert fake.clock.monotonic() == came_s


def test_the_largest_filters_fit_into_the_transactions_that_they_are_put_in(fake: FakeWorld) -> None:
    sizes = []

    def measured(writes: Sequence[Write]) -> None:
        puts = [write.row for write in writes if isinstance(write, Put)]
        sizes.append(sum(len(str(value).encode()) for row in puts for value in row.values()))

    fake.store.before_transact = measured
    expression = "a = '" + "\U0001f34e" * 8_100 + "'"
    largest = replace(SETTINGS, filter={"kind": "sql92", "expression": expression})

    assert kinds(put(fake, named(*"ABCDEFGHIJKLMNOPQRSTUVWX", settings=largest))) == [StoredSubscription] * 24
    assert len(sizes) > 1
    assert max(sizes) < 4 * 1024 * 1024


def post(fake: FakeWorld, topic: str, items: Sequence[Any]) -> Reply:
    return ask(fake, "POST", f"/topics/{topic}/subscriptions/batch", {"subscriptions": items})


def put_batch(fake: FakeWorld, *items: Any) -> list[Any]:
    answer = post(fake, "test1", items)
    assert (answer.status, len(answer.json["results"])) == (200, len(items))
    return list(answer.json["results"])


def test_what_is_right_in_a_request_is_stored_and_what_is_wrong_is_named(fake: FakeWorld) -> None:
    results = put_batch(
        fake,
        {"name": "A", "endpoint": HOOK},
        {"name": "9", "endpoint": HOOK, "filter": {"kind": "sql92", "expression": "a ="}},
        {"name": "A", "endpoint": HOOK, "timeout_seconds": 3},
        "B",
        {"name": "C", "endpoint": HOOK, "secret": "generate"},
    )

    pointers = [[fault["pointer"] for fault in each["error"]["errors"]] for each in results if "error" in each]
    assert pointers == [["#/name", "#/filter/expression"], ["#/name"], ["#"]]
    assert (results[0]["version"], results[0]["timeout_seconds"], "secret" in results[0]) == (1, 15, False)
    assert results[4]["secret"].startswith("whsec_")
    assert names(fake) == {"A", "C"}
    assert [each["version"] for each in put_batch(fake, *[{"name": name, "endpoint": HOOK} for name in "AC"])] == [2, 3]


def test_large_filters_that_are_not_compiled_in_time_are_named_and_can_be_sent_again(fake: FakeWorld) -> None:
    class Large(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            fake.clock.sleep(0.7 if name == "filter" else 0.0)
            return super().get(name, default)

    left: list[Any] = [Large(name=f"S{number}", endpoint=HOOK) for number in range(20)]
    while left:
        came_s = fake.clock.monotonic()
        asked = Request({"topic": "test1"}, {}, {}, b"", SubscriptionsBody(subscriptions=left), None)
        results = put_several(fake.world, asked).value["results"]
        assert fake.clock.monotonic() - came_s < READ_WITHIN_S + 0.7
        assert {each["error"]["status"] for each in results if "error" in each} <= {503}
        left = [item for item, result in zip(left, results, strict=True) if "error" in result]

    assert len(names(fake)) == 20


def test_a_request_takes_a_hundred_and_its_topic_has_to_be_there(fake: FakeWorld) -> None:
    items = [{"name": f"S{number}", "endpoint": HOOK} for number in range(101)]

    for topic, count, status in (("test1", 101, 422), ("none", 1, 404), ("test1", 0, 200), ("test1", 100, 200)):
        assert post(fake, topic, items[:count]).status == status
    assert len(names(fake)) == 100


def test_a_deployment_that_asks_every_endpoint_refuses_who_wants_none_asked(fake: FakeWorld) -> None:
    fake.world = replace(fake.world, verification=replace(fake.world.verification, is_optional=False))
    unasked, asked = put_batch(
        fake, {"name": "A", "endpoint": HOOK, "verification": "none"}, {"name": "B", "endpoint": HOOK}
    )

    assert unasked["error"]["errors"][0]["pointer"] == "#/verification"
    assert (asked["name"], [url for url, _ in fake.verifier.asked]) == ("B", ["https://a.test/"])
