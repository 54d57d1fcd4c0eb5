"""Endpoint verification: nobody is pushed to who did not agree, nothing is lost meanwhile, and old rows count."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tagcast.errors import InvalidRequestError, PreconditionFailedError, TableThrottledError
from tagcast.model import Endpoint, EntryState, Protocol, Strategy, Subscription, SubscriptionSettings
from tagcast.operating import lanes, messages
from tagcast.operating.verification import put_all_verified, put_verified, verify
from tagcast.registry import subscriptions
from tagcast.registry.subscribing import NO_VERSION, StoredSubscription, SubscriptionRequest
from tagcast.subscription_settings import UNVERIFIED
from tagcast.verification import VerificationResult

from tests.fakes.raced_store import before_the_next_transaction, throttled
from tests.fakes.world import FakeWorld

URL, OTHER = "https://a.test/hook", "https://b.test/hook"
REFUSED = VerificationResult("http 404")
WAITING_MS = 3_600_000
Put = Callable[..., Subscription]


def settings(fake: FakeWorld, url: str = URL, **changes: Any) -> SubscriptionSettings:
    like = fake.subscribe("like").settings
    subscriptions.delete_subscription(fake.world, "test1", "like")
    return replace(like, endpoint=Endpoint(Protocol.HTTPS, url), **changes)


def put(fake: FakeWorld, chosen: SubscriptionSettings, verification: str | None = "required") -> Subscription:
    return put_verified(fake.world, "test1", SubscriptionRequest("A", chosen, verification=verification))[0]


def put_one_of_many(
    fake: FakeWorld, chosen: SubscriptionSettings, verification: str | None = "required"
) -> Subscription:
    wanted = [SubscriptionRequest("A", chosen, verification=verification)]
    [made] = put_all_verified(fake.world, "test1", wanted, fake.clock.monotonic())
    assert isinstance(made, StoredSubscription)
    return made.subscription


def refused(fake: FakeWorld, **changes: Any) -> Subscription:
    fake.verifier.consents[URL] = REFUSED
    return put(fake, settings(fake, **changes))


def entry(fake: FakeWorld, message_id: str) -> tuple[EntryState, int, str | None]:
    found = messages.message_view(fake.world, "test1", message_id).subscribers["A"]
    return found.state, found.attempts, found.last_outcome


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("strategy", Strategy)
def test_what_matches_before_the_endpoint_agrees_is_owed_and_pushed_once_it_does(
    fake: FakeWorld, strategy: Strategy, is_paused: bool
) -> None:
    made = refused(fake)
    put(fake, replace(made.settings, retry=replace(made.settings.retry, strategy=strategy)))
    sent = fake.first_round("1", "2", "3")
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)

    assert [entry(fake, each) for each in sent] == [(EntryState.BLOCKED, 0, UNVERIFIED)] * 3
    assert [each.last_outcome for each in lanes.backlog(fake.world, "test1", "A", 10, None).items] == [UNVERIFIED] * 3

    fake.verifier.consents[URL] = VerificationResult()
    if is_paused:
        lanes.pause(fake.world, "test1", "A")
    assert verify(fake.world, "test1", "A").settings.unverified is None
    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)

    assert fake.pusher.received["A"] == ["1", "2", "3"]
    assert [entry(fake, each)[:2] for each in sent] == [(EntryState.DELIVERED, 1)] * 3


@pytest.mark.parametrize("act", [lambda fake, moved: verify(fake.world, "test1", "A"), put, put_one_of_many])
def test_a_repeated_request_wakes_the_lane_if_the_first_failed_after_the_endpoint_was_verified(
    fake: FakeWorld, act: Callable[[FakeWorld, SubscriptionSettings], object]
) -> None:
    moved = replace(refused(fake).settings, endpoint=Endpoint(Protocol.HTTPS, OTHER))
    fake.first_round("1")
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)
    fake.verifier.consents[URL] = VerificationResult()

    with throttled(fake.store, lambda key: key.pk.startswith("LANES#")), pytest.raises(TableThrottledError):
        act(fake, moved)
    act(fake, moved)
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)

    assert fake.pusher.received["A"] == ["1"]


def test_a_round_that_read_the_subscription_before_it_was_verified_does_not_let_it_wait(fake: FakeWorld) -> None:
    refused(fake)
    fake.publish("1")
    fake.verifier.consents[URL] = VerificationResult()
    before_the_next_transaction(fake.store, lambda: verify(fake.world, "test1", "A"))
    fake.deliver()
    fake.run_workflows(until=fake.clock.instant + 1)

    assert fake.pusher.received["A"] == ["1"]


def test_life_runs_on_while_nobody_agrees(fake: FakeWorld) -> None:
    refused(fake)
    [early] = fake.first_round("early")
    fake.clock.sleep(3_600)
    [late] = fake.first_round("late")
    fake.run_workflows(until=fake.clock.instant + 86_400_000 - 1_800_000)

    assert entry(fake, early)[:2] == (EntryState.EXPIRED, 0)
    assert entry(fake, late) == (EntryState.BLOCKED, 0, UNVERIFIED)
    assert fake.pusher.pushes == []


def test_an_endpoint_is_asked_when_its_url_is_new_and_by_nothing_else(fake: FakeWorld) -> None:
    put(fake, settings(fake))
    put(fake, settings(fake, timeout_s=3))
    assert [url for url, _ in fake.verifier.asked] == [URL]
    fake.verifier.consents[OTHER] = REFUSED
    assert put(fake, settings(fake, OTHER)).settings.unverified == "http 404"
    assert put(fake, settings(fake, OTHER, timeout_s=4)).settings.unverified == "http 404"
    assert [url for url, _ in fake.verifier.asked] == [URL, OTHER]
    verify(fake.world, "test1", "A")
    assert [url for url, _ in fake.verifier.asked] == [URL, OTHER, OTHER]
    assert len({token for _, token in fake.verifier.asked}) == 3


def test_what_failed_at_the_former_url_waits_for_the_new_one_to_agree(fake: FakeWorld) -> None:
    put(fake, settings(fake))
    fake.fail("A")
    [sent] = fake.first_round("1")
    fake.verifier.consents[OTHER] = REFUSED
    put(fake, settings(fake, OTHER))
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)
    assert entry(fake, sent) == (EntryState.BLOCKED, 1, UNVERIFIED)


def test_queues_functions_and_groups_are_not_asked(fake: FakeWorld) -> None:
    for protocol in (Protocol.SQS, Protocol.LAMBDA):
        put(fake, replace(settings(fake), endpoint=Endpoint(protocol, f"{protocol}-target")))
    assert fake.verifier.asked == []


@pytest.mark.parametrize(
    ("chosen", "allowed", "in_force"), [(None, 2.0, 2.0), (9.0, 2.0, 2.0), (1.0, 2.0, 1.0), (9.0, None, 9.0)]
)
def test_the_rate_that_the_endpoint_allows_bounds_what_the_subscriber_chose_now_and_later(
    fake: FakeWorld, chosen: float | None, allowed: float | None, in_force: float
) -> None:
    fake.verifier.consents[URL] = VerificationResult(per_second=allowed)
    assert put(fake, settings(fake, max_per_second=chosen)).settings.rate == in_force
    assert put(fake, settings(fake, max_per_second=chosen, timeout_s=3)).settings.rate == in_force
    assert put(fake, settings(fake, OTHER, max_per_second=chosen)).settings.rate == chosen


def test_an_answer_for_a_url_that_was_replaced_meanwhile_counts_for_nothing(fake: FakeWorld) -> None:
    refused(fake)
    fake.verifier.consents[OTHER] = REFUSED

    def agrees_late(asked: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
        del fake.verifier.ask
        put(fake, settings(fake, OTHER))
        return VerificationResult()

    fake.verifier.ask = agrees_late  # type: ignore[method-assign, assignment]
    assert verify(fake.world, "test1", "A").settings.unverified == "http 404"


def test_a_refusal_that_comes_after_the_agreement_of_another_request_counts_for_nothing(fake: FakeWorld) -> None:
    refused(fake)

    def refuses_late(asked: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
        del fake.verifier.ask
        fake.verifier.consents[URL] = VerificationResult()
        assert verify(fake.world, "test1", "A").settings.unverified is None
        return REFUSED

    fake.verifier.ask = refuses_late  # type: ignore[method-assign, assignment]
    assert verify(fake.world, "test1", "A").settings.unverified is None


@pytest.mark.parametrize("put_it", [put, put_one_of_many])
def test_a_put_that_keeps_the_endpoint_keeps_a_verification_that_succeeded_meanwhile(
    fake: FakeWorld, put_it: Put
) -> None:
    chosen = refused(fake, timeout_s=3).settings
    fake.verifier.consents[URL] = VerificationResult(per_second=2.0)
    before_the_next_transaction(fake.store, lambda: verify(fake.world, "test1", "A"))
    put_it(fake, chosen)

    found = subscriptions.get_subscription(fake.world, "test1", "A").settings
    assert (found.unverified, found.allowed_per_second) == (None, 2.0)


def test_only_a_new_endpoint_is_refused_for_its_address(fake: FakeWorld) -> None:
    chosen = refused(fake).settings
    fake.world = replace(fake.world, guard=AwayGuard())

    fake.verifier.consents[URL] = VerificationResult("does not resolve now")
    assert verify(fake.world, "test1", "A").settings.unverified == "does not resolve now"
    assert put(fake, replace(chosen, timeout_s=3)).settings.timeout_s == 3
    with pytest.raises(InvalidRequestError, match="endpoint"):
        put(fake, replace(chosen, endpoint=Endpoint(Protocol.HTTPS, OTHER)))


def test_the_endpoint_of_a_request_that_its_version_refuses_is_not_asked(fake: FakeWorld) -> None:
    put(fake, settings(fake))
    moved = settings(fake, OTHER)

    with pytest.raises(PreconditionFailedError):
        put_verified(fake.world, "test1", SubscriptionRequest("A", moved, NO_VERSION, verification="required"))
    assert [url for url, _ in fake.verifier.asked] == [URL]


class AwayGuard:
    """Refuses each endpoint, as where a name server does not answer."""

    def refusal(self, endpoint: Endpoint) -> str | None:
        return "does not resolve"


@pytest.mark.parametrize("put_it", [put, put_one_of_many])
def test_where_verification_is_optional_only_none_takes_an_unverified_endpoint_as_verified(
    fake: FakeWorld, put_it: Put
) -> None:
    chosen = settings(fake)
    fake.verifier.consents = {URL: REFUSED, OTHER: VerificationResult(per_second=2.0)}
    moved = replace(chosen, endpoint=Endpoint(Protocol.HTTPS, OTHER))

    assert put_it(fake, chosen, None).settings.unverified is None
    assert put_it(fake, moved).settings.rate == 2.0
    assert put_it(fake, replace(moved, timeout_s=3), None).settings.rate == 2.0
    assert put_it(fake, chosen).settings.unverified == "http 404"
    assert put_it(fake, replace(chosen, timeout_s=3), None).settings.unverified == "http 404"
    assert put_it(fake, moved, None).settings.rate == 2.0
    put_it(fake, chosen)
    assert put_it(fake, chosen, "none").settings.unverified is None


class FlakyGuard:
    """Refuses each endpoint when it is looked at first, as where a name server answers late, and never again."""

    def __init__(self) -> None:
        self.looked_at: set[str] = set()

    def refusal(self, endpoint: Endpoint) -> str | None:
        if endpoint.target in self.looked_at:
            return None
        self.looked_at.add(endpoint.target)
        return "does not resolve"


@pytest.mark.parametrize("put_it", [put, put_one_of_many])
def test_an_endpoint_whose_first_look_up_failed_is_not_taken_for_one_that_agreed(fake: FakeWorld, put_it: Put) -> None:
    chosen = settings(fake)
    fake.world = replace(fake.world, guard=FlakyGuard())

    assert put_it(fake, chosen).settings.unverified == "does not resolve"
    fake.first_round("1")
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)
    assert (fake.verifier.asked, fake.pusher.received["A"]) == ([], [])

    assert verify(fake.world, "test1", "A").settings.unverified is None
    fake.run_workflows(until=fake.clock.instant + WAITING_MS)
    assert fake.pusher.received["A"] == ["1"]
