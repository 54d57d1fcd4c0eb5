"""Every row that is stored is documented, attribute by attribute, and no other (docs/tables.md)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from tagcast.delivery.publishing import ArchivedOriginal, Idempotency, publish, replay
from tagcast.errors import DisagreementError
from tagcast.membership import Client, Heartbeat
from tagcast.model import (
    Batching,
    ContentFormat,
    Draft,
    Endpoint,
    Entry,
    EntryState,
    FilterType,
    Keep,
    Outcome,
    Protocol,
    RetryPolicy,
    Strategy,
    SubscriptionSettings,
)
from tagcast.operating import lanes
from tagcast.operating.signed_requests import take_once
from tagcast.operating.tailing import TailRequest, tail
from tagcast.operating.verification import verify
from tagcast.ports import Key, Page, Row, Write
from tagcast.pulling.pull import PullRequest, pull
from tagcast.pushing.circuit import LANES_MIN
from tagcast.queues import Audience
from tagcast.registry import shadows, subscriptions, topics
from tagcast.registry.members import leave, register
from tagcast.registry.subscriptions import rotate_secret
from tagcast.repairing.relay import relay
from tagcast.rows.due import DUES, PendingDelivery
from tagcast.rows.keys import end_key, message_key, round_key
from tagcast.rows.message import MESSAGES
from tagcast.rows.message_transitions import ENDS, ROUNDS, End, Origin, RoundRow
from tagcast.rows.state_map import Round
from tagcast.rows.subscription import SETTINGS as SUBSCRIPTION_SETTINGS
from tagcast.rows.topic import SETTINGS as TOPIC_SETTINGS
from tagcast.setting import settings_of
from tagcast.subscription_settings import IN_ORDER, ClientCertificate, FormerSecret
from tagcast.topic_settings import TopicSettings
from tagcast.trace_context import make_trace

from tests.architecture.test_documents import text_of
from tests.fakes.memory_store import MemoryStore
from tests.fakes.stream import FakeStream
from tests.fakes.world import FAIL, OK, FakeClock, FakeWorld

STORED_SETTINGS = {
    True: set(SUBSCRIPTION_SETTINGS.attributes(SubscriptionSettings(Endpoint(Protocol.PULL, ""), None, IN_ORDER))),
    False: set(TOPIC_SETTINGS.attributes(TopicSettings())),
}
_SAMPLES: dict[Any, Any] = {bool: True, float: 0.5, int: 1, str: "x"}


def _chosen() -> dict[str, Any]:
    """Every setting of a subscription that is one number, word or text, with another value than its default."""
    scalars = [each for each in settings_of(SubscriptionSettings) if each.words or each.type in _SAMPLES]
    samples = {each.name: list(each.type)[-1] if each.words else _SAMPLES[each.type] for each in scalars}
    return {name: value for name, value in samples.items() if name not in ("timeout_s", "content_format", "secret")}


SIGNED = SubscriptionSettings(
    endpoint=Endpoint(Protocol.HTTPS, "https://signed.test/"),
    filter={"kind": "tags", "tags": ["signed"]},
    retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3, interval_s=15),
    timeout_s=15,
    content_format=ContentFormat.CMQ_JSON,
    secret="whsec_",
    batching=Batching(10, 65_536),
    sealed="0",
    unverified="http 404",
    allowed_per_second=0.5,
    headers={"x-tenant": "a"},
    client_certificate=ClientCertificate("ab12", "commonName=a", 1),
    client_key="pem",
    formers=(FormerSecret("whsec_former", 1),),
    **_chosen(),
)


def kind_of(table: str, pk: str, sk: str) -> str:
    """The kind of a row: the fixed parts of its keys.

    >>> kind_of("messages", "UNSENT#3", "07#t"), kind_of("messages", "UNSENT#shard", "id#topic")
    ('messages UNSENT …', 'messages UNSENT …')
    """
    fixed = sk.partition("#")[0]
    return f"{table} {pk.partition('#')[0]} {fixed if fixed.isalpha() and fixed.isupper() else '…'}"


class WatchedStore(MemoryStore):
    """Remembers every row that was ever written; a search of it takes longer than a sweep has."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.seen: dict[str, list[Row]] = {}
        self.clock = clock

    def transact(self, writes: Sequence[Write]) -> None:
        super().transact(writes)
        for write in writes:
            if write.key in self.rows:
                self.note(write.key, self.rows[write.key])

    def note(self, key: Key, row: Row) -> None:
        names = {name: re.sub(r"^(pull|tail)_\d+$", r"\1_0", name.removeprefix("apart_")) for name in row}
        kept = {names[name]: row[name] for name in row.keys() - {"pk", "sk"}}
        self.seen.setdefault(kind_of(key.table.value, key.pk, key.sk), []).append(kept)

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Page[Row]:
        self.clock.sleep(600)
        return Page((), "more")


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """What docs/tables.md says: by kind, the attributes that are always there, and those that may be absent."""
    kinds: dict[str, tuple[set[str], set[str]]] = {}
    for table in ("Registry", "Messages"):
        section = text_of("docs/tables.md").partition(f"\n## {table}\n")[2].partition("\n## ")[0]
        for keys, attributes in re.findall(r"^\| (`.*?`) \|.*?\| `([\w ?]+)` \|", section, re.MULTILINE):
            pk, sk = keys.split(" / ", 1)
            always, maybe = kinds.setdefault(kind_of(table.lower(), pk.strip("`"), sk.split("`")[1]), (set(), set()))
            for name in attributes.split():
                if name == "SETTINGS":
                    maybe |= STORED_SETTINGS["name" in always]
                else:
                    (maybe if name.endswith("?") else always).add(name.removesuffix("?"))
    return kinds


def everything(price: str = "9", *tags: str) -> Draft:
    return Draft(b"x", False, tags, "a.b", {"price": price}, "k", "text/plain", make_trace("t", "0"))


def publish_all(fake: FakeWorld) -> None:
    """Let filters match and fail, and shadows see all that they can see."""
    fake.subscribe("fails", filter={"kind": "function", "function": "f"})
    fake.subscribe("fails", filter={"kind": "sql92", "expression": "price > 5", "dialect": "rocketmq"})
    fake.subscribe("tags", "apple", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    shadows.put_shadow(fake.world, "test1", "tags", {"kind": "sql92", "expression": "price > 5", "dialect": "rocketmq"})
    for draft in (
        everything("9", "apple"),
        everything("1", "apple"),
        everything("9"),
        everything("1"),
        everything("x"),
        replace(everything("9", "apple"), body=b"x" * 1024),
    ):
        publish(fake.world, "test1", [draft], [Idempotency(f"{draft}", "f")])
    fake.subscribe("again")
    subscriptions.put_subscription(fake.world, "test1", "signed", SIGNED)
    replay(fake.world, "test1", "again", [ArchivedOriginal(everything(), "0" * 20)])


def exchange(fake: FakeWorld) -> None:
    """Exchange the secret of a subscription: the former one signs besides for a while; and let its endpoint agree."""
    rotate_secret(fake.world, "test1", "signed", "whsec_other", 60)
    verify(fake.world, "test1", "signed")


def deliver_all(fake: FakeWorld) -> None:
    """Let a receiver fail, one be gone, and one that a function decides for sleep while messages join its backlog."""
    for name in ("broken", "gone"):
        fake.subscribe(name)
    fake.subscribe("judged", filter={"kind": "function", "function": "f"})
    fake.pusher.behaviours["broken"] = lambda push: FAIL
    fake.pusher.behaviours["gone"] = lambda push: Outcome(False, "http 410", gone=True)
    lanes.pause(fake.world, "test1", "judged")
    register(fake.world, Heartbeat("test1", "workers", Client("1", "1.4"), None))
    in_order = Heartbeat("test1", "in_order", Client("1", "1.4"), None, is_ordered=True, start_from=0)
    register(fake.world, in_order)
    with suppress(DisagreementError):
        register(fake.world, replace(in_order, group="workers"))
    leave(fake.world, "test1", "workers", "1")
    fake.publish("1", "2", "3")
    fake.publish("at its rate", tags=("signed",))
    fake.deliver()
    lanes.skip_head(fake.world, "test1", "broken", "poison")


def lose_host(fake: FakeWorld) -> None:
    """Let a host give no answer to anybody, and then to everybody."""
    names = [f"dead{place}" for place in range(LANES_MIN)]
    for name in names:
        strategy = Strategy.INDEPENDENT_RETRY if name == names[0] else Strategy.BACKOFF_RETRY
        dead = replace(
            fake.subscribe(name, strategy=strategy).settings,
            endpoint=Endpoint(Protocol.HTTPS, f"https://dead.test/{name}"),
        )
        subscriptions.put_subscription(fake.world, "test1", name, dead)
        fake.pusher.behaviours[name] = lambda push: Outcome(False, "connection refused", unreached=True)
    fake.publish("unheard")
    fake.deliver()
    fake.pusher.behaviours = dict.fromkeys(names, lambda push: OK)
    fake.run_workflows(until=fake.clock.instant + 60_000)


def pull_all(fake: FakeWorld) -> None:
    """Let a group pull in vain, beside one that is pushed to."""
    fake.group("group")
    wish = PullRequest(1, 1, 10, size_of=lambda handed: 1, size_enough=100, size_max=10**9, around_max=1)
    pull(fake.world, "test1", "group", wish)
    fake.publish("pulled")
    fake.deliver()
    for _ in range(2):
        pull(fake.world, "test1", "group", wish)
        fake.clock.sleep(10)


def sweep_all(fake: FakeWorld, store: WatchedStore) -> None:
    """Let the queue refuse a message, whole and in halves, and a search of the table take more than one sweep."""
    [unsent] = fake.publish_unqueued("4")
    fake.queue.broken = True
    halves = MESSAGES.value_of(store.rows[message_key("test1", unsent)])
    relay(fake.world, [halves, replace(halves, in_order=halves.map.matched)])
    fake.sweep()
    fake.queue.broken = False


def fill_all(fake: FakeWorld) -> None:
    """Let a topic keep a message for a group that is made later, and one whose subscription is gone by then."""
    fake.topic("kept", keep=Keep.LIFE, events_topic="test1")
    fake.subscribe("removed", topic="kept")
    fake.publish("cancelled", topic="kept")
    subscriptions.delete_subscription(fake.world, "kept", "removed")
    fake.deliver()
    fake.publish("kept", topic="kept")
    fake.group("late", topic="kept", start_from=0)
    fake.run_workflows(fake.clock.instant + 120_000)


def widen_all(fake: FakeWorld, store: WatchedStore) -> None:
    """Let a message be wide while the queue is away; one section is written as all that one can be."""
    fake.topic("wide")
    for name in ("one", "two"):
        fake.subscribe(name, topic="wide")
    narrow, fake.world = fake.world, replace(fake.world, section_max=1)
    [unsent] = fake.publish_unqueued("1", topic="wide")
    row = MESSAGES.value_of(store.rows[message_key("wide", unsent)])
    fake.queue.broken = True
    relay(fake.world, [row])
    fake.queue.broken = False
    relay(fake.world, [row])
    fake.deliver()
    origin, ended = Origin.of(row), {3: Entry(EntryState.EXPIRED), 4: Entry(EntryState.DELIVERED, 1, 6)}
    for its_round, partial in ((Round.of(5, ended, {2}), 0), (None, 1)):
        whole = RoundRow(origin, 1, Audience.EVERYBODY, its_round, partial)
        store.note(round_key("wide", unsent, 1, "everybody"), ROUNDS.row_of(whole))
    store.note(end_key("wide", unsent, 3), ENDS.row_of(End(origin, 3, ended[3])))
    fake.world = narrow


def remove_all(fake: FakeWorld) -> None:
    for subscription in subscriptions.list_subscriptions(fake.world, "test1", 100, None).items:
        subscriptions.delete_subscription(fake.world, "test1", subscription.name)
    topics.delete_topic(fake.world, "test1")


@pytest.fixture(scope="module")
def store() -> WatchedStore:
    """The rows of a story in which everything happens that stores something."""
    clock = FakeClock()
    store = WatchedStore(clock)
    fake = FakeWorld(store=store, clock=clock)
    fake.topic()
    topics.put_topic(fake.world, "cmq", TopicSettings(body_bytes_max=1), filter_type=FilterType.ROUTING_KEY)
    take_once(fake.world, "AKID", 0, "1")
    tail(fake.world, "test1", TailRequest(wait_s=1))
    stream = FakeStream(fake)
    publish_all(fake)
    exchange(fake)
    stream.pass_on()
    deliver_all(fake)
    lose_host(fake)
    pull_all(fake)
    sweep_all(fake, store)
    fill_all(fake)
    widen_all(fake, store)
    remove_all(fake)
    # What its receiver wants to have later, as the codec writes it.
    due = PendingDelivery("t.1", "0", "7", 1, 9, 5, "http 200", not_before=8)
    store.note(due.key, DUES.row_of(due))
    return store


def test_the_story_leaves_nothing_open_that_somebody_may_choose() -> None:
    for chosen in (SIGNED, everything()):
        absent = [each.name for each in fields(chosen) if getattr(chosen, each.name) is None]
        assert absent == [], "give the message SIGNED, or everything(), a value for these fields"


def test_every_kind_of_row_is_documented_and_each_that_is_documented_exists(store: WatchedStore) -> None:
    assert store.seen.keys() == documented().keys()


@pytest.mark.parametrize("kind", documented())
def test_a_row_has_the_attributes_that_are_documented(store: WatchedStore, kind: str) -> None:
    always, maybe = documented()[kind]
    names = [set(row) for row in store.seen[kind]]

    assert set.union(*names) == always | maybe, "the row of docs/tables.md lists the attributes; ? means: may be absent"
    assert always <= set.intersection(*names), "some rows lack an attribute that docs/tables.md has without ?"
