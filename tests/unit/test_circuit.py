"""The circuit of a host: while many lanes get no answer, one probe at a time; nothing is lost, nobody is touched."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tagcast.errors import UnavailableError
from tagcast.model import Endpoint, EntryState, Outcome, Protocol, Strategy, Subscription, TopicSettings
from tagcast.operating import lanes, messages
from tagcast.ports import Memory, Write
from tagcast.pushing.circuit import (
    CIRCUIT,
    CIRCUIT_WAIT_S_MAX,
    CIRCUIT_WAIT_S_MIN,
    LANES_MIN,
    NEW_UNTIL_CLAIM,
    PROBE_GAP_S,
    PROBE_GRACE_S,
    UNREACHED_S,
    WINDOW_S,
    CircuitCheck,
)
from tagcast.registry import subscriptions, topics
from tagcast.rows import host as hosts
from tagcast.rows import stored
from tagcast.rows.host import HOSTS, Host

from tests.fakes.dead_host import HOUR_S, UNREACHED, outage
from tests.fakes.handlers import answered
from tests.fakes.pages import pages
from tests.fakes.raced_store import RacedStore, throttled, watch_reads
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import ask, entry

DECAY = Strategy.EXPONENTIAL_DECAY_RETRY
DEAD = "http://dead.test"


@pytest.fixture
def store() -> RacedStore:
    return RacedStore()


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.topic("another")
    return fake


def lane_at(
    fake: FakeWorld,
    name: str,
    outcome: Outcome = UNREACHED,
    *tags: str,
    topic: str = "test1",
    strategy: Strategy = DECAY,
    **settings: Any,
) -> Subscription:
    """Subscribe at the dead host, which may give an answer to this one all the same."""
    endpoint = Endpoint(Protocol.HTTP, f"{DEAD}/{name}")
    return fake.subscribe(name, *tags, topic=topic, strategy=strategy, answers=outcome, endpoint=endpoint, **settings)


def fail_lanes(fake: FakeWorld, count: int = LANES_MIN, outcome: Outcome = UNREACHED) -> list[str]:
    """Let so many lanes fail at the dead host, and return their pending deliveries."""
    for place in range(count):
        lane_at(fake, f"D{place}", outcome)
    message_ids = fake.first_round("1")
    grow_old(fake)
    return message_ids


def grow_old(fake: FakeWorld) -> None:
    """Let all lanes look as if they had been blocked for long."""
    for key, row in fake.store.rows.items():
        if key.pk.startswith("LANES#"):
            fake.store.rows[key] = {**row, "claim": row["claim"] + NEW_UNTIL_CLAIM}


def host_of(fake: FakeWorld) -> Host | None:
    return HOSTS.read(fake.store, DEAD)


def is_open(fake: FakeWorld) -> bool:
    host = host_of(fake)
    return host is not None and host.is_open(fake.clock.instant)


def forget(fake: FakeWorld) -> None:
    """Let the next invocation be another process's."""
    fake.world = replace(fake.world, memory=Memory())


def passage(fake: FakeWorld, name: str) -> CircuitCheck:
    subscription = subscriptions.get_subscription(fake.world, "test1", name)
    return CircuitCheck(fake.world, subscription, hosts.host_of(subscription.settings.endpoint))


def asked(fake: FakeWorld, name: str) -> CircuitCheck:
    way = passage(fake, name)
    asyncio.run(way.ask(15, None))
    return way


def hear_nothing(fake: FakeWorld, name: str) -> None:
    """Let another process get no answer for this lane."""
    forget(fake)
    way = passage(fake, name)
    way.hear(UNREACHED)
    asyncio.run(way.record())


def listed_hosts(fake: FakeWorld) -> Any:
    return json.loads(answered(fake.world, "GET", "/hosts")["body"])["hosts"]


def wake(fake: FakeWorld, name: str, topic: str = "test1") -> int:
    """Let the lane's worker look at it in another process when it is due; return how many attempts that made."""
    forget(fake)
    sid = subscriptions.get_subscription(fake.world, topic, name).subscription_id
    lane = stored.lane(fake.store, topic, sid)
    assert lane is not None
    fake.clock.instant = max(fake.clock.instant, lane.next_attempt_at or 0)
    before = len(fake.pusher.pushes)
    lanes.retry_now(fake.world, topic, name)
    [task] = [each for each in fake.workflow.tasks if each.subscription_id == sid][-1:]
    fake.redeliver(task)
    return len(fake.pusher.pushes) - before


NIGHT = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.mark.parametrize("lanes", [100, pytest.param(5, marks=NIGHT), pytest.param(1_000, marks=NIGHT)])
def test_lanes_at_a_dead_host_are_probed_one_at_a_time_and_all_get_their_message_when_it_answers(lanes: int) -> None:
    came = outage(lanes)

    assert len(came.began_s) <= HOUR_S / PROBE_GAP_S
    settled = [each for each in came.began_s if each > 90]
    assert len(came.began_s) - len(settled) <= 2 * 90 / PROBE_GAP_S, "lanes that were active have a probe of their own"
    assert all(later - earlier >= PROBE_GAP_S for earlier, later in pairwise(settled))
    assert came.began_s[-1] > HOUR_S - CIRCUIT_WAIT_S_MAX
    assert came.recovered_s <= 2 * CIRCUIT_WAIT_S_MAX
    assert set(came.times) == {1}
    assert came.beside == 1


@pytest.mark.parametrize("topic", ["test1", "another"])
@pytest.mark.parametrize("is_the_process_another", [False, True])
def test_an_active_lane_asks_no_circuit_whoever_keeps_it_open(
    fake: FakeWorld, topic: str, is_the_process_another: bool
) -> None:
    lane_at(fake, "healthy", OK, "theirs", topic=topic)
    fake.first_round("before", tags=("theirs",), topic=topic)
    fake.clock.sleep(2 * WINDOW_S)
    fail_lanes(fake)
    assert is_open(fake), "what follows would prove nothing"
    if is_the_process_another:
        forget(fake)
    fake.first_round("after", tags=("theirs",), topic=topic)

    assert fake.pusher.received["healthy"][-1] == "after"


def test_a_push_that_is_refused_here_is_no_answer_of_its_host(fake: FakeWorld) -> None:
    lane_at(fake, "expired", Outcome(False, "client certificate expired", unsent=True), topic="another")
    fail_lanes(fake)
    fake.first_round("1", topic="another")

    assert is_open(fake)
    assert passage(fake, "D0").is_doubtful


def test_a_lane_without_a_failed_attempt_asks_no_circuit_in_redelivery_either(fake: FakeWorld) -> None:
    lane_at(fake, "paused", OK, topic="another")
    lanes.pause(fake.world, "another", "paused")
    fake.first_round("1", topic="another")
    fail_lanes(fake)
    fake.workflow.tasks = []
    lanes.resume(fake.world, "another", "paused")
    [task] = fake.workflow.tasks
    fake.redeliver(task)

    assert fake.pusher.received["paused"] == ["1"]


def test_five_lanes_that_fail_in_more_than_a_minute_open_none(fake: FakeWorld) -> None:
    fail_lanes(fake, LANES_MIN - 1)
    fake.clock.sleep(WINDOW_S)
    lane_at(fake, "late")
    fake.first_round("2")

    assert not is_open(fake)


def test_a_host_that_answers_is_neither_written_nor_read(fake: FakeWorld, store: RacedStore) -> None:
    read = watch_reads(store)
    fail_lanes(fake, 20, OK)

    assert len(fake.pusher.pushes) == 20
    assert not [key for key in (*read, *store.rows) if key.pk == "HOSTS"]


def test_a_lane_without_contact_that_the_host_answered_is_not_held_by_others(fake: FakeWorld) -> None:
    busy = Outcome(False, "http 503", status=503, retry_after_s=65)
    lane_at(fake, "busy", busy, topic="another", strategy=Strategy.INDEPENDENT_RETRY)
    [waiting] = fake.first_round("1", topic="another")
    forget(fake)
    fail_lanes(fake)
    fake.pusher.behaviours["busy"] = lambda push: OK
    assert is_open(fake), "what follows would prove nothing"
    forget(fake)
    fake.run_for(66)

    assert messages.message_view(fake.world, "another", waiting).subscribers["busy"].state is EntryState.DELIVERED


def test_after_an_error_of_its_filter_function_a_lane_is_not_held_by_others(fake: FakeWorld) -> None:
    function = {"kind": "function", "function": "decide", "on_error": "block", "timeout_seconds": 3}
    lane_at(fake, "judged", OK, topic="another", filter=function)
    fake.filter_functions.behaviours["judged"] = lambda asked: None
    [waiting] = fake.first_round("1", topic="another")
    fail_lanes(fake)
    assert is_open(fake), "what follows would prove nothing"
    forget(fake)
    del fake.filter_functions.behaviours["judged"]
    fake.run_for(2)

    assert messages.message_view(fake.world, "another", waiting).subscribers["judged"].state is EntryState.DELIVERED


def test_what_waits_counts_no_attempt_and_says_why_wherever_it_is_shown(fake: FakeWorld) -> None:
    [first] = fail_lanes(fake)
    [second] = fake.first_round("2")

    assert wake(fake, "D0") == 0
    assert (entry(fake, first, "D0").attempts, entry(fake, first, "D0").last_outcome) == (1, CIRCUIT)
    assert [past.outcome for past in entry(fake, first, "D0").history] == ["connection refused"]
    behind = entry(fake, second, "D0")
    assert (behind.state, behind.attempts, behind.last_outcome) == (EntryState.BLOCKED, 0, CIRCUIT)
    assert {each.last_outcome for each in lanes.backlog(fake.world, "test1", "D0", 10, None).items} == {CIRCUIT}
    page = lanes.backlog(fake.world, "test1", "D0", 1, None)
    assert lanes.backlog(fake.world, "test1", "D0", 1, page.cursor).items[0].last_outcome == CIRCUIT
    told = json.loads(answered(fake.world, "GET", f"/topics/test1/messages/{first}/explain?subscription=D0")["body"])
    assert told["reason"] == "its filter matched; the delivery is blocked (circuit)"
    assert told["delivery"]["lane"] == "lost_contact"


def test_one_of_those_that_ask_is_the_probe_and_the_others_wait(fake: FakeWorld) -> None:
    fail_lanes(fake)
    fake.clock.sleep(PROBE_GAP_S)

    ways = [asked(fake, f"D{place}") for place in range(LANES_MIN)]

    assert [way.probe is not None for way in ways] == [True, False, False, False, False]
    assert all(way.until is not None and way.until > fake.clock.instant for way in ways[1:])


def test_of_two_that_ask_at_the_same_time_one_is_the_probe(fake: FakeWorld, store: RacedStore) -> None:
    fail_lanes(fake)
    fake.clock.sleep(PROBE_GAP_S)
    others: list[CircuitCheck] = []

    def other() -> None:
        way = passage(fake, "D1")
        asking = way.ask(15, None)
        with pytest.raises(StopIteration):
            asking.send(None)
        others.append(way)

    store.once_before("HOSTS", other)
    mine = asked(fake, "D0")

    assert others[0].probe is not None
    assert mine.probe is None
    assert mine.until is not None


def test_a_probe_that_nobody_hears_of_again_runs_out(fake: FakeWorld) -> None:
    fail_lanes(fake)
    fake.clock.sleep(PROBE_GAP_S)
    dead = asked(fake, "D0")

    fake.clock.sleep(15 + PROBE_GRACE_S - 1)
    assert asked(fake, "D1").probe is None
    fake.clock.sleep(1)
    taken = asked(fake, "D2")
    assert taken.probe is not None

    dead.reached = True
    asyncio.run(dead.record())
    assert is_open(fake), "a lane that lost its probe closes no circuit"


def test_a_probe_that_gets_an_answer_closes_the_circuit_even_a_bad_one(fake: FakeWorld) -> None:
    fail_lanes(fake)
    fake.pusher.behaviours["D0"] = lambda push: FAIL
    fake.clock.sleep(PROBE_GAP_S)

    assert wake(fake, "D0") >= 1
    assert not is_open(fake)
    assert wake(fake, "D1") >= 1


@pytest.mark.parametrize("strategy", [DECAY, Strategy.BACKOFF_RETRY, Strategy.INDEPENDENT_RETRY])
def test_a_lane_that_was_active_until_now_waits_for_no_probe_of_lanes_that_hang(
    fake: FakeWorld, strategy: Strategy
) -> None:
    lane_at(fake, "victim", OK, "theirs", topic="another", strategy=strategy)
    fail_lanes(fake, 60)
    fake.clock.sleep(HOUR_S / 2)
    hanging = asked(fake, "D0")
    assert hanging.probe is not None
    fake.pusher.behaviours["victim"] = lambda push: UNREACHED
    fake.first_round("missed", tags=("theirs",), topic="another")
    fake.pusher.behaviours["victim"] = lambda push: OK
    forget(fake)

    assert wake(fake, "victim", topic="another") == 1
    assert fake.pusher.received["victim"] == ["missed"]
    assert not is_open(fake)


def test_only_one_of_the_lanes_that_were_active_until_now_probes_beside_the_others(fake: FakeWorld) -> None:
    fail_lanes(fake)
    fake.clock.sleep(PROBE_GAP_S)
    old, new, late = (passage(fake, name) for name in ("D0", "D1", "D2"))
    new.is_new = late.is_new = True
    for each in (old, new, late):
        asyncio.run(each.ask(15, fake.clock.instant))
    assert (old.probe, late.probe) == (None, None), "an old lane with a recent attempt leaves the probe to others"
    assert new.probe is not None
    assert (late.until or 0) <= fake.clock.instant + CIRCUIT_WAIT_S_MIN * 1000

    asyncio.run(old.ask(15, None))
    assert old.probe is not None
    for each in (new, old):
        each.reached = False
        asyncio.run(each.record())
    host = host_of(fake)
    assert host is not None
    assert host.probe_at == host.first_probe_at == fake.clock.instant + PROBE_GAP_S * 1000


def test_the_next_probe_begins_a_while_after_the_last_and_is_somebody_elses(fake: FakeWorld) -> None:
    fail_lanes(fake)
    fake.clock.sleep(120)

    assert wake(fake, "D0") == 1
    assert wake(fake, "D1") == 0
    fake.clock.sleep(PROBE_GAP_S)
    assert wake(fake, "D0") == 0
    assert wake(fake, "D1") == 1


def test_a_probe_that_makes_no_attempt_leaves_it_to_the_next(fake: FakeWorld) -> None:
    known = lane_at(fake, "judged")
    fail_lanes(fake)
    fake.clock.sleep(PROBE_GAP_S)
    settings = replace(known.settings, filter={"kind": "function", "function": "decide"})
    subscriptions.put_subscription(fake.world, "test1", "judged", settings)
    way = asked(fake, "judged")
    asyncio.run(way.record())

    assert way.probe is not None
    assert asked(fake, "D1").probe is not None


def test_life_runs_on_while_a_circuit_is_open(fake: FakeWorld) -> None:
    topics.put_topic(fake.world, "test1", TopicSettings(600))
    [message_id] = fail_lanes(fake)
    fake.run_for(1_200)

    ended = entry(fake, message_id, "D0")
    assert ended.state is EntryState.EXPIRED
    assert ended.last_outcome in (CIRCUIT, "connection refused")
    assert ("1", "D0", EntryState.EXPIRED) in fake.telemetry.ends


def test_a_message_behind_one_that_expired_is_not_attempted_for_that(fake: FakeWorld) -> None:
    fake.topic("brief", retention_s=60)
    fail_lanes(fake)
    lane_at(fake, "B", topic="brief", strategy=Strategy.BACKOFF_RETRY, max_retries=100)
    forget(fake)
    fake.first_round("1", topic="brief")
    fake.clock.sleep(30)
    fake.first_round("2", topic="brief")
    grow_old(fake)
    claims = asked(fake, "D0")
    fake.workflow.tasks = [task for task in fake.workflow.tasks if task.topic == "brief"]
    before = len(fake.pusher.pushes)
    fake.run_for(44)

    assert claims.probe is not None
    assert len(fake.pusher.pushes) == before


def test_a_host_that_flaps_is_soon_dead_again_and_its_lanes_wait_as_long_as_before(fake: FakeWorld) -> None:
    fail_lanes(fake)
    opened = host_of(fake)
    fake.clock.sleep(600)
    answered_once = asked(fake, "D0")
    answered_once.reached = True
    asyncio.run(answered_once.record())
    assert not is_open(fake)

    for place in range(LANES_MIN):
        hear_nothing(fake, f"D{place}")
    again = host_of(fake)
    assert is_open(fake)
    assert again is not None
    assert opened is not None
    assert again.opened_at == opened.opened_at
    until = asked(fake, "D1").until
    assert until is not None
    assert until - fake.clock.instant >= CIRCUIT_WAIT_S_MAX / 2 * 1000


@pytest.mark.parametrize("closes", ["a probe", "another lane"])
def test_a_circuit_that_closed_opens_again_with_the_fifth_lane_and_not_with_the_first(
    fake: FakeWorld, closes: str
) -> None:
    lane_at(fake, "healthy", OK, topic="another")
    fail_lanes(fake)
    fake.clock.sleep(WINDOW_S / 2)
    if closes == "a probe":
        probe = asked(fake, "D0")
        probe.hear(OK)
        asyncio.run(probe.record())
    else:
        fake.first_round("1", topic="another")
    assert not is_open(fake)
    assert fake.telemetry.counts["CircuitsClosed"] == 1

    told = []
    for place in range(LANES_MIN):
        hear_nothing(fake, f"D{place}")
        told.append(is_open(fake))

    assert told == [False] * (LANES_MIN - 1) + [True]


def test_after_an_hour_without_an_attempt_the_first_failure_opens_no_circuit(fake: FakeWorld) -> None:
    fail_lanes(fake)
    assert is_open(fake)
    fake.clock.sleep(UNREACHED_S + 1)
    assert asked(fake, "D0").until is None
    assert listed_hosts(fake) == []
    hear_nothing(fake, "D0")

    assert not is_open(fake)
    host = host_of(fake)
    assert host is not None
    assert (len(host.failures), host.opened_at) == (1, None)


def test_a_process_that_had_an_answer_records_nothing_against_the_host(fake: FakeWorld) -> None:
    """Five tenants of a host that serves a thousand may hang without being everybody's trouble."""
    lane_at(fake, "healthy", OK)
    fake.first_round("0")
    fail_lanes(fake, 20)

    assert len([push for push in fake.pusher.pushes if push.subscription.name != "healthy"]) == 20
    assert host_of(fake) is None
    for body in ("2", "3"):
        fake.first_round(body)
        fake.clock.sleep(1)
    assert fake.pusher.received["healthy"] == ["0", "1", "2", "3"]


def test_who_loses_to_others_again_and_again_records_nothing_and_loses_nothing(
    fake: FakeWorld, store: RacedStore
) -> None:
    known = store.write

    def faster(write: Write) -> None:
        if write.key.pk == "HOSTS":
            row = store.rows.setdefault(
                write.key, {"pk": "HOSTS", "sk": write.key.sk, "host": DEAD, "version": 0, "failures": {}, "ttl": 1}
            )
            row["version"] += 1
        known(write)

    store.write = faster  # type: ignore[method-assign]
    [message_id] = fail_lanes(fake, 1)

    assert entry(fake, message_id, "D0").attempts == 1


def test_a_table_that_takes_nothing_of_a_host_makes_no_push_twice(fake: FakeWorld, store: RacedStore) -> None:
    def refuse() -> None:
        raise UnavailableError("the table is throttled")

    lane_at(fake, "D0", replace(OK, unreached=True))
    store.once_before("HOSTS", refuse)
    ids = fake.publish("1")
    with pytest.raises(UnavailableError):
        fake.fan_out("test1", ids)
    fake.fan_out("test1", ids)

    assert fake.pusher.received["D0"] == ["1"]


def test_a_throttled_row_of_a_host_repeats_no_push_and_is_not_waited_for(fake: FakeWorld, store: RacedStore) -> None:
    with throttled(store, lambda key: key.pk == "HOSTS") as refused:
        [message_id] = fail_lanes(fake, 1)

    assert len(refused) == 1
    assert entry(fake, message_id, "D0").attempts == 1


def test_hosts_are_listed_with_the_state_of_their_circuits(fake: FakeWorld) -> None:
    fail_lanes(fake, LANES_MIN - 1)
    [failing] = listed_hosts(fake)
    lane_at(fake, "fifth")
    fake.first_round("2")
    [dead] = listed_hosts(fake)

    assert (failing["host"], failing["circuit"], failing["opened_at"]) == (DEAD, "closed", None)
    assert (dead["host"], dead["circuit"]) == (DEAD, "open")
    assert dead["opened_at"] <= dead["next_probe_at"]
    assert dead["last_failed_at"] == dead["opened_at"]


def test_a_page_of_hosts_leads_to_the_next(fake: FakeWorld) -> None:
    for name in ("A", "B", "C"):
        fake.subscribe(name, answers=UNREACHED)
    fake.first_round("1")

    found = pages(
        lambda cursor: ask(fake, "GET", "/hosts?limit=2" + (f"&cursor={cursor}" if cursor else "")).json,
        lambda page: page["next_cursor"],
    )

    seen = sorted(each["host"] for page in found for each in page["hosts"])
    assert seen == ["http://a.test", "http://b.test", "http://c.test"]
