"""Groups that heartbeats make: who belongs to them, what they want, and what of the original cannot happen here."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import pytest
from tagcast.errors import ConflictError, DisagreementError, InvalidFilterError, InvalidRequestError, NotFoundError
from tagcast.filters.compiled import FilterValue
from tagcast.membership import LIVENESS_S, MEMBERS_MAX, SILENCE_S, Client, Heartbeat, MemberChange, Mode
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.registry.members import Group, check_filter, leave, membership, register
from tagcast.registry.subscriptions import delete_subscription, put_subscription
from tagcast.repairing.removals import remove_silent
from tagcast.rows import stored

from tests.benchmarks.idle_bill import HEARTBEAT_WRITES
from tests.fakes.raced_store import before_the_next_transaction
from tests.fakes.world import FakeClock, FakeWorld
from tests.unit.worlds import ask, row_of

P = ParamSpec("P")
T = TypeVar("T")
A, B, C = Client("10.0.0.1@7#main", "1.4"), Client("10.0.0.2@9", "1.5"), Client("10.0.0.3@9", "1.5")
TAG_A: FilterValue = {"kind": "tag_expression", "expression": "TagA"}
TAG_AB: FilterValue = {"kind": "tag_expression", "expression": "TagA || TagB"}


class OneAtATime:
    """An executor with one place, in which each call begins after three seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock, self._place = clock, asyncio.Semaphore(1)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._place:
            await self._clock.pause(3)
            return call(*args, **kwargs)


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.topic("test2")
    return fake


def beat(
    fake: FakeWorld,
    client: Client = A,
    filter: FilterValue | None = TAG_A,
    mode: Mode = Mode.CLUSTERING,
    *,
    topic: str = "test1",
    group: str = "workers",
    **more: Any,
) -> Group:
    return register(fake.world, Heartbeat(topic, group, client, filter, mode, **more))


def refused(fake: FakeWorld, client: Client, filter: FilterValue = TAG_A, **more: Any) -> DisagreementError:
    with pytest.raises(DisagreementError) as caught:
        beat(fake, client, filter, **more)
    return caught.value


def group_of(fake: FakeWorld, name: str = "workers", topic: str = "test1") -> Subscription:
    found = stored.subscription(fake.world.store, topic, name)
    assert found is not None
    return found


def alive(fake: FakeWorld) -> list[str]:
    return [member.client.member_id for member in membership(fake.world, "test1", "workers").members]


def changes(fake: FakeWorld) -> list[tuple[str, MemberChange, int]]:
    told = [(each.client.member_id, each.change, each.members) for each in fake.event_bus.changes]
    fake.event_bus.changes.clear()
    return told


def test_what_is_published_after_the_first_answer_is_owed_to_the_group(fake: FakeWorld) -> None:
    fake.subscribe("other")
    fake.publish("known to the process before", tags=["TagA"])
    beat(fake)
    [message_id] = fake.publish("now", tags=["TagA"])
    assert group_of(fake).ordinal in row_of(fake, message_id).map.pending


def test_heartbeats_change_neither_the_topic_nor_the_group(fake: FakeWorld) -> None:
    beat(fake)
    topic, group = stored.topic(fake.world.store, "test1"), group_of(fake)
    for client in (A, B, A):
        fake.clock.sleep(30)
        beat(fake, client)
    assert (stored.topic(fake.world.store, "test1"), group_of(fake)) == (topic, group)
    before = fake.store.writes
    fake.clock.sleep(30)
    beat(fake)
    assert fake.store.writes - before == HEARTBEAT_WRITES


def test_a_member_joined_when_it_came_and_again_after_it_was_lost(fake: FakeWorld) -> None:
    def joined_at() -> int:
        [member] = membership(fake.world, "test1", "workers").members
        return member.joined_at

    first = fake.clock.now()
    beat(fake)
    fake.clock.sleep(30)
    beat(fake)
    assert joined_at() == first
    fake.clock.sleep(LIVENESS_S)
    beat(fake)
    assert joined_at() == fake.clock.now()


def test_a_member_that_wants_another_filter_is_told_what_differs_and_changes_nothing(fake: FakeWorld) -> None:
    beat(fake)
    error = refused(fake, B, TAG_AB)
    assert error.difference == ("expression: only you have 'TagB'",)
    assert (error.group, error.yours) == (TAG_A, TAG_AB)
    assert str(error) == f"the group has another filter or order, set by member {A.member_id} of version '1.4'"
    assert group_of(fake).settings.filter == TAG_A
    assert changes(fake) == [(A.member_id, MemberChange.JOINED, 1), (B.member_id, MemberChange.REFUSED, 2)]


def goes_after(fake: FakeWorld, silence_s: int) -> None:
    """Assert that one group goes after so much silence, and none before."""
    fake.clock.sleep(silence_s - 1)
    assert fake.sweep().removed == 0
    fake.clock.sleep(1)
    assert fake.sweep().removed == 1


def pull_status(fake: FakeWorld, member_id: str) -> int:
    """How a member is answered that pulls."""
    return ask(fake, "POST", "/topics/test1/subscriptions/workers/pull", {"member_id": member_id}).status


def test_the_newest_clock_does_not_win(fake: FakeWorld) -> None:
    """In the original a later member replaces the filter of all, and takes messages that it was not to get."""
    beat(fake)
    for _ in range(3):
        fake.clock.sleep(30)
        refused(fake, B, TAG_AB)
        beat(fake)
    assert group_of(fake).version == 1


def test_a_member_that_disagrees_is_given_nothing_until_it_agrees(fake: FakeWorld) -> None:
    beat(fake)
    refused(fake, B, TAG_AB)
    with pytest.raises(DisagreementError):
        check_filter(fake.world, group_of(fake), B.member_id)
    assert [pull_status(fake, client.member_id) for client in (A, B)] == [200, 409]
    check_filter(fake.world, group_of(fake), A.member_id)
    check_filter(fake.world, group_of(fake), "never seen")
    beat(fake, B, TAG_A)
    check_filter(fake.world, group_of(fake), B.member_id)
    assert changes(fake)[-1] == (B.member_id, MemberChange.JOINED, 2)


def test_a_new_filter_of_the_group_refuses_the_members_of_before(fake: FakeWorld) -> None:
    beat(fake)
    known = group_of(fake)
    changed = put_subscription(fake.world, "test1", "workers", replaced(known, TAG_AB), known.version)[0]
    with pytest.raises(DisagreementError):
        check_filter(fake.world, changed, A.member_id)
    assert "version 2, set at" in str(refused(fake, A))
    assert not beat(fake, B, TAG_AB).is_new


def replaced(group: Subscription, filter: FilterValue | None) -> SubscriptionSettings:
    return replace(group.settings, filter=filter)


def test_a_member_is_told_of_when_the_group_s_filter_leaves_it_and_when_it_comes_back(fake: FakeWorld) -> None:
    beat(fake)
    changes(fake)
    told = []
    for filter in (TAG_AB, TAG_A):
        put_subscription(fake.world, "test1", "workers", replaced(group_of(fake), filter))
        for _ in range(2):
            fake.clock.sleep(30)
            with suppress(DisagreementError):
                beat(fake)
        told.append([change for _, change, _ in changes(fake)])
    assert told == [[MemberChange.REFUSED], [MemberChange.JOINED]]


def test_the_order_in_which_a_filter_is_written_is_no_difference(fake: FakeWorld) -> None:
    """In the original tags have to be the same in all members, in the same order."""
    beat(fake, A, TAG_AB)
    assert not beat(fake, B, {"kind": "tag_expression", "expression": "TagB||TagA"}).is_new


@pytest.mark.parametrize("expression", ["price >", "price > 5 AND", "a = 1 b = 2", "   "])
def test_an_expression_that_does_not_compile_makes_no_group_and_delivers_nothing(
    fake: FakeWorld, expression: str
) -> None:
    """In the original a pull with an invalid expression is given everything, unfiltered."""
    with pytest.raises(InvalidFilterError):
        beat(fake, A, {"kind": "sql92", "expression": expression})
    assert stored.subscription(fake.world.store, "test1", "workers") is None
    beat(fake)
    with pytest.raises(InvalidFilterError):
        beat(fake, A, {"kind": "sql92", "expression": expression})
    assert group_of(fake).settings.filter == TAG_A


def test_who_relies_on_order_makes_an_ordered_group_and_is_refused_by_another(fake: FakeWorld) -> None:
    assert beat(fake, group="ordered", is_ordered=True).subscription.settings.ordered
    assert not beat(fake, B, group="ordered").is_new
    beat(fake)
    [difference] = refused(fake, A, is_ordered=True).difference
    assert difference == "ordered: the group is not ordered, and this cannot change. Create another group"


def test_a_member_that_is_refused_for_its_order_only_is_given_nothing_until_it_wants_none(fake: FakeWorld) -> None:
    beat(fake)
    refused(fake, B, is_ordered=True)
    with pytest.raises(DisagreementError, match="wants an ordered group"):
        check_filter(fake.world, group_of(fake), B.member_id)
    found = membership(fake.world, "test1", "workers")
    assert [found.agrees(member) for member in found.members] == [True, False]
    beat(fake, B)
    check_filter(fake.world, group_of(fake), B.member_id)


def test_a_heartbeat_of_one_topic_leaves_the_subscriptions_of_others_alone(fake: FakeWorld) -> None:
    """In the original a heartbeat that does not name a topic removes the group from it."""
    beat(fake)
    beat(fake, topic="test2", filter=TAG_AB)
    for _ in range(10):
        fake.clock.sleep(30)
        beat(fake, topic="test2", filter=TAG_AB)
    fake.sweep()
    assert group_of(fake).settings.filter == TAG_A
    assert group_of(fake, topic="test2").settings.filter == TAG_AB


def test_two_first_heartbeats_at_once_make_one_group(fake: FakeWorld) -> None:
    before_the_next_transaction(fake.store, lambda: beat(fake, B, TAG_AB))
    with pytest.raises(DisagreementError):
        beat(fake)
    assert group_of(fake).settings.filter == TAG_AB


def test_who_is_silent_for_two_minutes_is_not_listed_and_is_told_of_once(fake: FakeWorld) -> None:
    beat(fake)
    beat(fake, B)
    fake.clock.sleep(LIVENESS_S - 1)
    beat(fake, B)
    assert alive(fake) == [A.member_id, B.member_id]
    fake.clock.sleep(1)
    assert alive(fake) == [B.member_id]
    changes(fake)
    beat(fake, B)
    beat(fake, B)
    assert changes(fake) == [(A.member_id, MemberChange.LOST, 1)]
    beat(fake)
    assert changes(fake) == [(A.member_id, MemberChange.JOINED, 2)]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_the_sweep_tells_of_the_last_member(fake: FakeWorld, is_made_again: bool) -> None:
    beat(fake)
    if is_made_again:
        settings = group_of(fake).settings
        delete_subscription(fake.world, "test1", "workers")
        put_subscription(fake.world, "test1", "workers", settings)
        fake.clock.sleep(30)
        beat(fake)
    changes(fake)
    fake.clock.sleep(LIVENESS_S)
    fake.sweep()
    fake.sweep()
    assert changes(fake) == [(A.member_id, MemberChange.LOST, 0)]


def test_the_sweep_tells_of_the_last_member_of_a_group_that_somebody_put(fake: FakeWorld) -> None:
    beat(fake, topic="test2")
    settings = group_of(fake, topic="test2").settings
    delete_subscription(fake.world, "test2", "workers")
    made, _ = put_subscription(fake.world, "test1", "workers", settings)
    for _ in range(2):  # Also after the sweep forgot who was silent for a day.
        beat(fake)
        beat(fake, B)
        changes(fake)
        fake.clock.sleep(SILENCE_S)
        fake.sweep()
        assert changes(fake) == [(A.member_id, MemberChange.LOST, 0), (B.member_id, MemberChange.LOST, 0)]
        assert group_of(fake).ordinal == made.ordinal


def test_who_leaves_is_gone_at_once_and_the_group_stays(fake: FakeWorld) -> None:
    beat(fake)
    beat(fake, B)
    changes(fake)
    leave(fake.world, "test1", "workers", A.member_id)
    leave(fake.world, "test1", "workers", A.member_id)
    assert changes(fake) == [(A.member_id, MemberChange.LEFT, 1)]
    assert alive(fake) == [B.member_id]
    with pytest.raises(NotFoundError):
        leave(fake.world, "test1", "workers", "never seen")
    assert group_of(fake).version == 1


def test_a_join_deletes_the_rows_of_members_that_left_and_the_group_s_silence_is_counted_on(fake: FakeWorld) -> None:
    pods = [Client(f"10.0.0.{number}@7", "1") for number in range(40)]
    for pod in pods:
        beat(fake, pod)
        leave(fake.world, "test1", "workers", pod.member_id)
    fake.clock.sleep(LIVENESS_S - 1)
    beat(fake)
    assert len(stored.members(fake.world.store, "test1", "workers")) == 41
    fake.clock.sleep(1)
    beat(fake)
    assert len(stored.members(fake.world.store, "test1", "workers")) == 41
    beat(fake, B)
    beat(fake, C)
    assert [each.client for each in stored.members(fake.world.store, "test1", "workers")] == [A, B, C]
    fake.clock.sleep(SILENCE_S - 1)
    assert fake.sweep().removed == 0
    fake.clock.sleep(2)  # Joins at one instant count a millisecond each.
    assert fake.sweep().removed == 1


def test_a_group_that_is_silent_for_a_day_goes_and_one_that_comes_back_before_keeps_all(fake: FakeWorld) -> None:
    beat(fake)
    fake.clock.sleep(SILENCE_S - 1)
    fake.sweep()
    group = group_of(fake)
    assert not beat(fake).is_new
    leave(fake.world, "test1", "workers", A.member_id)
    assert group_of(fake) == group
    goes_after(fake, SILENCE_S)
    assert stored.subscription(fake.world.store, "test1", "workers") is None
    assert not stored.registration_rows(fake.world.store)


def test_a_group_says_itself_after_how_much_silence_it_goes(fake: FakeWorld) -> None:
    beat(fake, silence_s=600)
    goes_after(fake, 600)


def test_where_time_is_scaled_no_group_goes_before_its_members_may_be_silent_twice_over(fake: FakeWorld) -> None:
    """A member that misses one heartbeat is lost; its group waits for the next."""
    beat(fake)
    fake.world = replace(fake.world, time_scale=SILENCE_S / 60)
    goes_after(fake, 2 * LIVENESS_S)


def test_silent_groups_of_which_time_is_left_for_none_wait_for_the_next_sweep(fake: FakeWorld) -> None:
    beat(fake)
    fake.clock.sleep(SILENCE_S)
    now = fake.clock.monotonic()

    assert asyncio.run(remove_silent(fake.world, now)) == 0
    assert asyncio.run(remove_silent(fake.world, now + 1)) == 1


def test_a_group_that_waits_for_its_turn_until_the_sweep_ends_waits_for_the_next(fake: FakeWorld) -> None:
    for name in ("first", "second"):
        beat(fake, group=name)
    fake.clock.sleep(SILENCE_S)

    world, ends = replace(fake.world, executor=OneAtATime(fake.clock)), fake.clock.monotonic() + 13

    assert asyncio.run(remove_silent(world, ends)) == 1
    assert len(stored.registration_rows(fake.world.store)) == 1


def test_a_group_that_somebody_put_or_changed_stays_however_silent(fake: FakeWorld) -> None:
    beat(fake)
    known = group_of(fake)
    put_subscription(fake.world, "test1", "workers", replaced(known, TAG_AB), known.version)
    fake.clock.sleep(2 * SILENCE_S)
    assert fake.sweep().removed == 0
    assert group_of(fake).version == 2
    assert not stored.registration_rows(fake.world.store)


def test_a_group_that_somebody_put_under_the_name_of_a_deleted_one_stays_however_silent(fake: FakeWorld) -> None:
    beat(fake)
    former = group_of(fake)
    delete_subscription(fake.world, "test1", "workers")
    put_subscription(fake.world, "test1", "workers", former.settings)
    fake.clock.sleep(2 * SILENCE_S)
    assert fake.sweep().removed == 0
    assert group_of(fake).ordinal != former.ordinal
    assert not stored.registration_rows(fake.world.store)


def test_a_deleted_subscription_leaves_no_registration_and_its_group_begins_anew(fake: FakeWorld) -> None:
    own = beat(fake, mode=Mode.BROADCASTING).subscription
    delete_subscription(fake.world, "test1", own.name)
    assert beat(fake).is_new  # Another mode.
    delete_subscription(fake.world, "test1", "workers")
    assert not stored.registration_rows(fake.world.store)
    anew = beat(fake, A, TAG_AB)
    assert (anew.is_new, anew.subscription.settings.filter) == (True, TAG_AB)


def test_who_joins_while_a_silent_group_is_removed_keeps_it(fake: FakeWorld) -> None:
    beat(fake)
    fake.clock.sleep(SILENCE_S)
    before_the_next_transaction(fake.store, lambda: beat(fake, B))
    assert fake.sweep().removed == 0
    assert group_of(fake).version == 1
    assert alive(fake) == [B.member_id]


def test_each_member_of_a_broadcasting_group_has_a_subscription_of_its_own(fake: FakeWorld) -> None:
    one = beat(fake, A, TAG_A, Mode.BROADCASTING)
    other = beat(fake, B, TAG_A, Mode.BROADCASTING)
    assert one.subscription.name != other.subscription.name
    assert beat(fake, A, TAG_A, Mode.BROADCASTING).subscription == one.subscription
    assert alive(fake) == [A.member_id, B.member_id]
    [message_id] = fake.publish("x", tags=["TagA"])
    assert row_of(fake, message_id).map.pending == {one.subscription.ordinal, other.subscription.ordinal}


def test_a_broadcasting_member_changes_its_own_filter_and_nobody_elses(fake: FakeWorld) -> None:
    broadcasting = beat(fake, A, TAG_A, Mode.BROADCASTING)
    other = beat(fake, B, TAG_A, Mode.BROADCASTING)
    own = group_of(fake, broadcasting.subscription.name)
    dead = replace(own.settings, dead_letter_topic="test2")
    put_subscription(fake.world, "test1", own.name, dead, own.version)
    changed = beat(fake, A, TAG_AB, Mode.BROADCASTING)
    assert changed.subscription.settings == replace(dead, filter=TAG_AB, secret=own.settings.secret)
    assert changed.subscription.version == 3
    assert group_of(fake, other.subscription.name).settings.filter == TAG_A


@pytest.mark.parametrize("is_changed", [True, False])
def test_when_its_member_changed_its_filter_a_subscription_stays_in_silence_only_if_somebody_else_changed_it(
    fake: FakeWorld, is_changed: bool
) -> None:
    own = beat(fake, A, TAG_A, Mode.BROADCASTING).subscription
    if is_changed:
        put_subscription(fake.world, "test1", own.name, replace(own.settings, dead_letter_topic="test2"), own.version)
    beat(fake, A, TAG_AB, Mode.BROADCASTING)
    beat(fake, A, TAG_A, Mode.BROADCASTING)
    assert group_of(fake, own.name).version == 3 + is_changed
    fake.clock.sleep(SILENCE_S)
    assert fake.sweep().removed == (not is_changed)


def test_a_broadcasting_member_that_is_silent_for_a_day_goes_and_the_others_stay(fake: FakeWorld) -> None:
    silent = beat(fake, A, TAG_A, Mode.BROADCASTING).subscription.name
    living = beat(fake, B, TAG_A, Mode.BROADCASTING).subscription.name
    fake.clock.sleep(SILENCE_S - 60)
    beat(fake, B, TAG_A, Mode.BROADCASTING)
    fake.clock.sleep(60)
    assert fake.sweep().removed == 1
    assert stored.subscription(fake.world.store, "test1", silent) is None
    assert stored.subscription(fake.world.store, "test1", living) is not None
    [registered] = stored.registration_rows(fake.store)
    assert [each.client for each in stored.members(fake.store, "test1", str(registered["name"]))] == [B]


def test_a_sweep_reads_the_members_of_a_broadcasting_group_once(fake: FakeWorld) -> None:
    for place in range(20):
        beat(fake, Client(str(place), ""), TAG_A, Mode.BROADCASTING)
    fake.store.rows_read = 0

    assert asyncio.run(remove_silent(fake.world, fake.clock.monotonic() + 1)) == 0
    assert fake.store.rows_read == 2 * 20, "their registrations, and themselves"


@pytest.mark.parametrize("mode", Mode)
def test_a_group_has_a_hundred_members_at_most(fake: FakeWorld, mode: Mode) -> None:
    for place in range(MEMBERS_MAX):
        beat(fake, Client(str(place), ""), TAG_A, mode)
    with pytest.raises(ConflictError, match="at most 100"):
        beat(fake, A, TAG_A, mode)
    beat(fake, Client("7", ""), TAG_A, mode)


def test_who_has_no_room_among_the_members_of_a_deleted_group_makes_no_group(fake: FakeWorld) -> None:
    for place in range(MEMBERS_MAX):
        beat(fake, Client(str(place), ""))
    delete_subscription(fake.world, "test1", "workers")
    with pytest.raises(ConflictError, match="at most 100"):
        beat(fake, A, TAG_AB)
    assert stored.subscription(fake.world.store, "test1", "workers") is None


def test_a_group_is_either_shared_or_broadcasting(fake: FakeWorld) -> None:
    beat(fake)
    with pytest.raises(ConflictError, match="not broadcasting"):
        beat(fake, B, TAG_A, Mode.BROADCASTING)
    beat(fake, A, TAG_A, Mode.BROADCASTING, group="fans")
    with pytest.raises(ConflictError, match="not clustering"):
        beat(fake, B, TAG_A, group="fans")


def test_a_subscription_that_is_pushed_to_is_no_group(fake: FakeWorld) -> None:
    fake.subscribe("billing")
    for mode in Mode:
        with pytest.raises(ConflictError):
            beat(fake, A, None, mode, group="billing")


def test_a_broadcasting_group_has_room_in_its_name_for_its_members(fake: FakeWorld) -> None:
    beat(fake, A, TAG_A, Mode.BROADCASTING, group="g" * 51)
    with pytest.raises(InvalidRequestError):
        beat(fake, A, TAG_A, Mode.BROADCASTING, group="g" * 52)


def test_a_group_of_no_topic_and_members_of_no_group_are_not_found(fake: FakeWorld) -> None:
    with pytest.raises(NotFoundError):
        beat(fake, topic="nowhere")
    with pytest.raises(NotFoundError):
        membership(fake.world, "test1", "nobody")
