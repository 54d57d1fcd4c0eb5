"""Every repetition ends: what others overtake is tried again a bounded number of times, with pauses that grow."""

from collections.abc import Callable, Sequence

import pytest
from tagcast.concurrency.contention import TRIES_MAX, until_won, window_s
from tagcast.delivery import publishing
from tagcast.delivery.publishing import Idempotency
from tagcast.errors import ConditionLostError, ContendedError, TableThrottledError, UnavailableError
from tagcast.model import Draft, LaneState, Ordering, Subscription
from tagcast.operating import lanes
from tagcast.ports import Key, Put, Row, Table, Write
from tagcast.registry import shadows, subscriptions, topics
from tagcast.registry.subscriptions import change_filter
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES
from tagcast.rows.lane_transitions import claim

from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FAIL, FakeClock, FakeWorld
from tests.unit.worlds import lane

APPLE = {"kind": "tags", "tags": ["apple"]}


class CrowdedStore(MemoryStore):
    """Lets others act right behind each read of some rows."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: dict[str, Callable[[], object]] = {}
        self.after_query = lambda pk, rows: self._others(pk)

    def get(self, key: Key) -> Row | None:
        row = super().get(key)
        self._others(key.pk)
        return row

    def _others(self, pk: str) -> None:
        others, self.behind = self.behind, {}
        if pk in others:
            others[pk]()
        self.behind = others


@pytest.fixture
def store() -> CrowdedStore:
    return CrowdedStore()


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A")
    return fake


def owing(fake: FakeWorld) -> None:
    """Let A fail, so that its lane is blocked with one delivery."""
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.first_round("1")


def joined_behind_each_read(fake: FakeWorld, store: CrowdedStore) -> None:
    """Let a batch join the backlog whenever somebody has read the lane or its backlog."""
    subscription_id = subscriptions.get_subscription(fake.world, "test1", "A").subscription_id

    def join() -> None:
        [message_id] = fake.publish("joining")
        fake.queue.entries.clear()
        present = lane(fake)
        store.rows[present.key]["appended"] += 1
        row = {"attempts": 0, "expires_at": fake.clock.instant + 86_400_000, "ttl": 2_000_000_000}
        store.write(
            Put(Key(Table.MESSAGES, f"DUE#{subscription_id}", f"{present.appended * 16:020d}#{message_id}"), row)
        )

    store.behind = {lane_key("test1", "").pk: join, f"DUE#{subscription_id}": join}


@pytest.mark.parametrize(
    ("name", "state"),
    [("pause", LaneState.PAUSED), ("retry_now", LaneState.BLOCKED), ("skip_head", LaneState.BLOCKED)],
)
def test_batches_that_join_all_the_time_hold_up_no_command(
    fake: FakeWorld, store: CrowdedStore, name: str, state: LaneState
) -> None:
    owing(fake)
    before = lane(fake)
    joined_behind_each_read(fake, store)

    COMMANDS[name](fake)

    assert lane(fake).state is state
    assert lane(fake).generation != before.generation
    assert lane(fake).appended > before.appended
    assert fake.clock.instant == 1_800_000_000_000


def test_a_pause_keeps_what_the_worker_claimed_since_the_lane_was_read(fake: FakeWorld, store: CrowdedStore) -> None:
    owing(fake)
    before = lane(fake)
    until = fake.clock.instant + 35_000

    def overtake() -> None:
        store.behind = {}
        MemoryStore.transact(store, (claim(before, until)[1],))

    store.behind = {before.key.pk: overtake}
    lanes.pause(fake.world, "test1", "A")

    assert (lane(fake).state, lane(fake).next_attempt_at) == (LaneState.PAUSED, until)


def test_batches_that_join_all_the_time_hold_up_no_resume_and_no_unsubscribing(
    fake: FakeWorld, store: CrowdedStore
) -> None:
    owing(fake)
    lanes.pause(fake.world, "test1", "A")
    joined_behind_each_read(fake, store)

    lanes.resume(fake.world, "test1", "A")
    assert lane(fake).state is LaneState.BLOCKED
    tombstone = lane(fake).key
    subscriptions.delete_subscription(fake.world, "test1", "A")
    assert LANES.value_of(fake.store.rows[tombstone]).state is LaneState.REMOVED
    assert fake.clock.instant == 1_800_000_000_000


def test_a_paused_lane_is_looked_at_by_the_next_sweep(fake: FakeWorld) -> None:
    owing(fake)

    lanes.pause(fake.world, "test1", "A")

    assert lane(fake).wake_at == fake.clock.instant


def test_publishing_among_endless_new_subscriptions_asks_to_come_again(fake: FakeWorld, store: CrowdedStore) -> None:
    made: list[Subscription] = []

    def subscribe() -> None:
        made.append(fake.subscribe(f"B{len(made)}"))

    store.behind = {"TOPIC#test1": subscribe}

    with pytest.raises(UnavailableError, match="topic test1"):
        fake.publish("x")

    assert len(made) <= 3 * TRIES_MAX
    assert fake.clock.instant > 1_800_000_000_000


COMMANDS: dict[str, Callable[[FakeWorld], object]] = {
    "pause": lambda fake: lanes.pause(fake.world, "test1", "A"),
    "retry_now": lambda fake: lanes.retry_now(fake.world, "test1", "A"),
    "skip_head": lambda fake: lanes.skip_head(fake.world, "test1", "A", "by hand"),
    "resume": lambda fake: lanes.resume(fake.world, "test1", "asleep"),
    "put a new topic": lambda fake: fake.topic("test2"),
    "put a topic": lambda fake: fake.topic(ordering=Ordering.TOPIC, retention_s=60),
    "remove a topic": lambda fake: topics.delete_topic(fake.world, "empty"),
    "subscribe": lambda fake: fake.subscribe("B"),
    "change a subscription": lambda fake: fake.subscribe("A", "apple"),
    "unsubscribe": lambda fake: subscriptions.delete_subscription(fake.world, "test1", "A"),
    "begin a shadow": lambda fake: shadows.put_shadow(fake.world, "test1", "asleep", APPLE),
    "end a shadow": lambda fake: shadows.delete_shadow(fake.world, "test1", "A"),
    "change a filter": lambda fake: change_filter(fake.world, "test1", "A", APPLE),
    "promote a shadow": lambda fake: shadows.promote_shadow(fake.world, "test1", "A"),
    "publish": lambda fake: fake.publish("x"),
    "publish with a key": lambda fake: publishing.publish(
        fake.world, "test1", [Draft(b"x")], [Idempotency("key", "request")]
    ),
}


@pytest.mark.parametrize("fault", [ConditionLostError, ContendedError])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_overtaken_again_and_again_gives_up_with_an_error_that_says_so(
    fake: FakeWorld, name: str, fault: type[ConditionLostError]
) -> None:
    owing(fake)
    fake.topic("empty")
    fake.subscribe("asleep")
    lanes.pause(fake.world, "test1", "asleep")
    shadows.put_shadow(fake.world, "test1", "A", APPLE)
    began = fake.clock.instant
    refused: list[Sequence[Write]] = []

    def refuse(writes: Sequence[Write]) -> None:
        refused.append(writes)
        raise fault

    fake.store.before_transact = refuse

    with pytest.raises(UnavailableError, match="try again"):
        COMMANDS[name](fake)

    assert len(refused) == TRIES_MAX
    assert 1_000 < fake.clock.instant - began < 10_000


@pytest.mark.parametrize("sdk_s", [0.0, 7.0])
def test_a_throttled_table_is_told_as_such_soon(fake: FakeWorld, sdk_s: float) -> None:
    began = fake.clock.instant

    def attempt() -> None:
        fake.clock.sleep(sdk_s)
        raise TableThrottledError

    with pytest.raises(TableThrottledError):
        until_won(fake.world, "it", attempt)

    assert fake.clock.instant - began < 1_000 * (sdk_s + 4)


def test_what_wins_at_the_last_try_is_done(fake: FakeWorld) -> None:
    lost = iter([ConditionLostError(), *[ContendedError()] * (TRIES_MAX - 2)])

    def attempt() -> str:
        for error in lost:
            raise error
        return "done"

    assert until_won(fake.world, "it", attempt) == "done"


def test_pauses_are_drawn_from_windows_that_grow() -> None:
    slept: list[float] = []

    class Watched(FakeClock):
        def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    fake = FakeWorld(clock=Watched())

    def lose() -> None:
        raise ConditionLostError

    with pytest.raises(UnavailableError):
        until_won(fake.world, "it", lose)

    assert slept == [window_s(lost) / 2 for lost in range(1, TRIES_MAX)]
