"""Secrets of subscriptions: encrypted where they are stored, at hand where a push is made, never in between."""

from dataclasses import replace

import pytest
from tagcast.archive.record import RecordKind
from tagcast.errors import ReplacedError, UnavailableError
from tagcast.model import RetryPolicy, Strategy, Subscription, SubscriptionSettings
from tagcast.operating import lanes
from tagcast.outcome import NOT_OPENED
from tagcast.ports import Key, Table, World
from tagcast.pushing import engine
from tagcast.registry import shadows, subscriptions
from tagcast.rows import stored
from tagcast.rows.keys import secrets_key, subscription_key
from tagcast.rows.sealed import SECRETS
from tagcast.sealing import OPENED_S, OpenedSecrets, open_secrets
from tagcast.subscription_settings import Signature

from tests.fakes.stream import FakeStream
from tests.fakes.world import FakeWorld
from tests.unit.worlds import entry, lane

SECRET, OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
ROW, OWN_ROW = subscription_key("test1", "A"), secrets_key("test1", "A")


def settings_of(fake: FakeWorld, secret: str | None = SECRET) -> SubscriptionSettings:
    return replace(fake.subscribe("like").settings, secret=secret)


def subscribe(fake: FakeWorld, secret: str | None = SECRET, name: str = "A") -> Subscription:
    return subscriptions.put_subscription(fake.world, "test1", name, settings_of(fake, secret))[0]


def known(fake: FakeWorld, name: str = "A") -> Subscription:
    return subscriptions.get_subscription(fake.world, "test1", name)


def pushed_with(fake: FakeWorld) -> list[str | None]:
    """The secrets that pushes to A were made with."""
    return [push.subscription.settings.secret for push in fake.pusher.pushes if push.subscription.name == "A"]


def kept(fake: FakeWorld) -> str:
    return repr(fake.store.rows)


def test_a_secret_is_stored_encrypted_in_a_row_that_no_stream_tells_of(fake: FakeWorld) -> None:
    made = subscribe(fake)

    assert (made.settings.secret, known(fake).settings) == (None, made.settings)
    assert SECRET not in kept(fake)
    row = fake.store.rows[OWN_ROW]
    assert OWN_ROW.table is Table.REGISTRY
    assert not OWN_ROW.pk.startswith("TOPIC#")
    assert row["token"] == made.settings.sealed
    assert open_secrets(fake.world, made).settings.secret == SECRET


def test_what_changes_something_else_leaves_the_sealed_secret_as_it_is(fake: FakeWorld) -> None:
    subscribe(fake)
    before = fake.store.rows[OWN_ROW]
    report, _ = shadows.put_shadow(fake.world, "test1", "A", {"kind": "tags", "tags": ["a"]})
    shadows.promote_shadow(fake.world, "test1", "A", report.shadow.shadow_version)
    subscriptions.change_subscription(fake.world, "test1", "A", lambda settings: replace(settings, timeout_s=7))
    fake.first_round("1", tags=("a",))

    assert fake.store.rows[OWN_ROW] == before
    assert pushed_with(fake) == [SECRET]


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_secret_goes_with_its_subscription_and_when_it_is_put_without_one(fake: FakeWorld, is_removed: bool) -> None:
    subscribe(fake)
    if is_removed:
        subscriptions.delete_subscription(fake.world, "test1", "A")
    else:
        subscribe(fake, None)
        fake.first_round("1")

    assert OWN_ROW not in fake.store.rows
    assert pushed_with(fake) == ([] if is_removed else [None])


def test_without_a_vault_no_secret_is_stored_at_all(fake: FakeWorld) -> None:
    fake.vault.broken = True

    with pytest.raises(UnavailableError):
        subscribe(fake)

    assert ROW not in fake.store.rows
    assert SECRET not in kept(fake)


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_while_a_secret_cannot_be_read_nothing_is_pushed_and_no_attempt_is_counted(
    fake: FakeWorld, strategy: Strategy, has_failed: bool
) -> None:
    settings = replace(settings_of(fake), retry=RetryPolicy(strategy, 100))
    made, _ = subscriptions.put_subscription(fake.world, "test1", "A", settings)
    fake.vault.broken = not has_failed
    fake.fail("A")
    [message_id] = fake.first_round("1")
    fake.run_workflows(fake.clock.instant + 600_000)
    before, stream = stored.dues(fake.store, made.subscription_id), FakeStream(fake)

    fake.vault.broken = True
    fake.world.memory.of(OpenedSecrets).clear()
    fake.clock.sleep(600)
    fake.sweep()
    fake.run_workflows(fake.clock.instant + 600_000)

    [due] = stored.dues(fake.store, made.subscription_id)
    assert (lane(fake).next_attempt_at or 0) <= fake.clock.instant + engine.PUT_OFF_S * 1000
    assert due.last_outcome == NOT_OPENED
    assert [(each.attempts, each.last_attempt_at, each.history) for each in before] == [
        (due.attempts, due.last_attempt_at, due.history)
    ]
    assert not any(each.fields["attempts"] for each in stream.records() if each.kind is RecordKind.DELIVERIES)

    fake.vault.broken = False
    fake.pusher.behaviours.clear()
    fake.clock.sleep(60)
    fake.sweep()
    fake.run_workflows(fake.clock.instant + 60_000)
    assert set(pushed_with(fake)) == {SECRET}
    assert entry(fake, message_id).attempts == due.attempts + 1


def test_a_push_never_mixes_the_url_of_one_version_with_the_secrets_of_another(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(fake)
    before = known(fake)

    def open_late(world: World, subscription: Subscription) -> Subscription:
        subscribe(fake, OTHER)
        world.memory.of(OpenedSecrets).clear()
        monkeypatch.undo()
        return open_secrets(world, subscription)

    monkeypatch.setattr(engine, "open_secrets", open_late)
    fake.world.memory.of(OpenedSecrets).clear()
    fake.first_round("1")
    assert (pushed_with(fake), fake.telemetry.faults) == ([], [])

    fake.run_workflows(fake.clock.instant + 60_000)
    assert pushed_with(fake) == [OTHER]
    with pytest.raises(ReplacedError):
        open_secrets(fake.world, before)


def test_while_the_service_s_own_key_cannot_be_read_nothing_is_pushed_either(fake: FakeWorld) -> None:
    settings = replace(settings_of(fake, None), signature=Signature.V1A)
    subscriptions.put_subscription(fake.world, "test1", "A", settings)
    fake.signer.broken = True
    fake.first_round("1")
    assert pushed_with(fake) == []

    fake.signer.broken = False
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(fake.clock.instant + 60_000)

    [push] = [push for push in fake.pusher.pushes if push.subscription.name == "A"]
    assert (push.attempt, fake.signer.is_ready) == (1, True)


def test_what_cannot_be_signed_in_its_life_expires(fake: FakeWorld) -> None:
    fake.topic("test1", retention_s=60)
    subscribe(fake)
    fake.vault.broken = True
    [message_id] = fake.first_round("1")
    fake.run_workflows(fake.clock.instant + 120_000)

    assert pushed_with(fake) == []
    assert entry(fake, message_id).state == "expired"


@pytest.mark.parametrize("stopped", ["", "monotonic", "now"])
def test_a_process_opens_a_secret_again_only_after_a_while_whichever_of_its_clocks_stood_still(
    fake: FakeWorld, stopped: str
) -> None:
    subscribe(fake)
    if stopped:
        still = getattr(fake.clock, stopped)()
        setattr(fake.clock, stopped, lambda: still)
    for pause_s in (0, OPENED_S - 1, 1, 0):
        fake.clock.sleep(pause_s)
        fake.first_round("x")

    assert fake.vault.opened == ["A", "A"]
    assert set(pushed_with(fake)) == {SECRET}


def test_a_group_s_own_secret_is_no_subscriber_s(fake: FakeWorld) -> None:
    group = fake.group("g")

    assert group.settings.sealed is None
    assert SECRETS.read(fake.store, "test1", "g") is None
    assert Key(Table.REGISTRY, "SECRETS#test1", "g") not in fake.store.rows
