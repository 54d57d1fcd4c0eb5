"""Histories of a group that is made while messages are there, and consumes from before: each of them is its once.

Beside what happens to the other group (`group_history`) this one is made by a heartbeat or by hand, filled by workers
that die, overtaken, paused, given another filter, and removed; its members agree with it or do not.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from tagcast.delivery import publishing
from tagcast.errors import ConflictError, DisagreementError, NotFoundError, UnavailableError
from tagcast.filters.compiled import FilterValue
from tagcast.filters.difference import digest
from tagcast.filters.kinds import canonical
from tagcast.membership import Client, Heartbeat
from tagcast.model import Draft, Keep, Subscription, SubscriptionSettings
from tagcast.operating import lanes
from tagcast.pulling.acknowledge import acknowledge, release
from tagcast.pulling.pull import PulledMessage, PullRequest, pull
from tagcast.registry import subscriptions
from tagcast.registry.groups import PUBLISHED_S
from tagcast.registry.members import register
from tagcast.rows import stored
from tagcast.rows.due import LATE_POSITION
from tagcast.rows.keys import message_key
from tagcast.rows.message import MessageRow
from tagcast.rows.state_map import AddedLater
from tagcast.tables import Update

from tests.fakes.whole_message import whole_message
from tests.simulation.group_history import LIFE_S, BrokenPromiseError, GroupHistory
from tests.simulation.ledger import body_in

TAGS = ("a", "b")
MEMBERS = ("one", "two", "three")


def wanting(tag: str) -> FilterValue:
    return {"kind": "tags", "tags": [tag]}


def _with_filter(settings: SubscriptionSettings, tag: str) -> SubscriptionSettings:
    return replace(settings, filter=wanting(tag))


class LateHistory(GroupHistory):
    """One history from its seed; `play` raises BrokenPromiseError where a promise does not hold."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world.topic(retention_s=LIFE_S, keep=self.dice.choice(tuple(Keep)))
        self.world.store.kept_page = 3
        self.late: Subscription | None = None
        self.since = self.start_from = self.begins_at = 0
        self.tags: dict[str, str] = {}
        self.filters: dict[int, str] = {}
        self.added: dict[str, AddedLater] = {}
        self.added_before: set[str] = set()
        self.held_late: list[PulledMessage] = []
        self.wishes: dict[str, tuple[str, bool] | None] = {}
        self.is_filled = self.late_removed = self.late_paused = False

    def moves(self) -> Sequence[Callable[[], None]]:
        return (
            *super().moves(), self.publish, self.make_late, self.make_late, self.fill, self.fill, self.fill,
            self.let_rival, self.let_rival, self.beat, self.pull_late, self.pull_late, self.ack_late, self.hurry_late,
            self.pause_late, self.refilter_late, self.remove_late,
        )  # fmt: skip

    # What happens.

    def publish(self) -> None:
        self.accidents.left = None
        tag = self.dice.choice(TAGS)
        bodies = (b"0", b"1" * 400, b"2")[: self.dice.randint(1, 3)]
        drafts = [Draft(body, tags=(tag,)) for body in bodies]
        ids = [accepted.message_id for accepted in publishing.publish(self.world.world, "test1", drafts)]
        self.published += ids
        self.tags |= dict.fromkeys(ids, tag)

    def let_rival(self) -> None:
        """Let somebody be faster than one of the calls of the next move."""
        rivals: tuple[Callable[[], None], ...] = (self.make_late,)
        if self.late is not None:
            rivals = (self.write_all, self.write_all, self.pause_late, self.remove_late, self.refilter_late)
        self.accidents.rival, self.accidents.rival_in = self.dice.choice(rivals), self.dice.randint(1, 4)
        (self.publish if self.late is None else self.fill)()

    def write_all(self) -> None:
        """Let others have written every message."""
        for message_id in self.published:
            row = whole_message(self.world.store, "test1", message_id)
            assert row is not None
            self.world.store.write(Update(message_key("test1", message_id), {"late": row.late + 1}))

    def make_late(self) -> None:
        if self.late is not None:
            return
        left, self.accidents.left = self.accidents.left, None
        tag, now = self.dice.choice(TAGS), self.world.clock.now()
        self.start_from = self.dice.choice((0, now - 60_000))
        version = self._version()
        if self.dice.random() < 0.5:
            self.late = self.world.group(
                "late", max_retries=20, ordered=self.ordered, filter=wanting(tag), start_from=self.start_from
            )
        else:
            said = Heartbeat(
                "test1",
                "late",
                Client("one", ""),
                wanting(tag),
                is_ordered=self.ordered,
                start_from=self.start_from,
            )
            self.late = register(self.world.world, said).subscription
            self.wishes["one"] = (tag, self.ordered)
        self.since, self.begins_at = version + 1, now + PUBLISHED_S * 1_000
        self.filters[self.late.version] = tag
        self.accidents.left = left

    def _version(self) -> int:
        topic = stored.topic(self.world.store, "test1")
        assert topic is not None
        return topic.subscriptions_version

    def fill(self) -> None:
        self.world.run_workflows(self.world.clock.instant + self.dice.choice((1_000, 70_000)))

    def hurry_late(self) -> None:
        lanes.retry_now(self.world.world, "test1", "late")

    def pause_late(self) -> None:
        self.accidents.left = None
        if self.late_paused:
            lanes.resume(self.world.world, "test1", "late")
        elif self.late is not None:
            lanes.pause(self.world.world, "test1", "late")
        self.late_paused = self.late is not None and not self.late_paused

    def refilter_late(self) -> None:
        """Put another filter: what was matched by that of before stays what it is."""
        self.accidents.left = None
        if self.late is None or self.late_removed or self.dice.random() < 0.5:
            return
        tag = self.dice.choice(TAGS)
        known = subscriptions.change_subscription(
            self.world.world, "test1", "late", lambda settings: _with_filter(settings, tag)
        )
        self.filters[known.version] = tag

    def remove_late(self) -> None:
        self.accidents.left = None
        if self.late is not None and not self.late_removed and self.dice.random() < 0.3:
            subscriptions.delete_subscription(self.world.world, "test1", "late")
            rows = (whole_message(self.world.store, "test1", each) for each in self.published)
            self.added_before = {
                row.message.message_id for row in rows if row and self.late.ordinal in row.map.added_later
            }
            self.late_removed = True

    # Its members.

    def beat(self) -> None:
        if self.late is None or self.late_removed:
            return
        client, tag, ordered = self.dice.choice(MEMBERS), self.dice.choice(TAGS), self.dice.random() < 0.3
        said = Heartbeat("test1", "late", Client(client, ""), wanting(tag), is_ordered=ordered)
        self.wishes[client] = None  # A member that dies here may have sent it.
        try:
            register(self.world.world, said)
        except DisagreementError:
            self.wishes[client] = (tag, ordered)
            if self._agrees(client):
                raise BrokenPromiseError("who agrees with the group was refused") from None
        else:
            self.wishes[client] = (tag, ordered)
            if not self._agrees(client):
                raise BrokenPromiseError("who disagrees with the group was let in")
        if self.dice.random() < 0.5:
            self.pull_late(client)

    def _agrees(self, client: str) -> bool:
        wish, known = self.wishes[client], stored.subscription(self.world.store, "test1", "late")
        assert wish is not None
        assert known is not None
        return digest(known.settings.filter) == digest(canonical(wanting(wish[0]))) and (self.ordered or not wish[1])

    def pull_late(self, member: str | None = None) -> None:
        if self.late is None or self.late_removed:
            return
        client = member or self.dice.choice(MEMBERS)
        wish = PullRequest(self.dice.randint(1, 12), 0, 120, lambda handed: 1, 10**6, 10**9, 1, client)
        is_sure = self.wishes.get(client) is not None
        try:
            handed = pull(self.world.world, "test1", "late", wish)
        except DisagreementError:
            if is_sure and self._agrees(client):
                raise BrokenPromiseError("who agrees with the group was given nothing") from None
            return
        # The row of a silent member may be gone: then it is not known what it wants.
        known = {each.client.member_id for each in stored.members(self.world.store, "test1", "late")}
        if is_sure and client in known and not self._agrees(client):
            raise BrokenPromiseError("who disagrees with the group may pull")
        if handed and self.late_paused:
            raise BrokenPromiseError("a paused group gave something")
        self.held_late += handed

    def ack_late(self) -> None:
        chosen = self.dice.sample(self.held_late, min(len(self.held_late), self.dice.randint(1, 6)))
        handles = [each.receipt_handle for each in chosen]
        if self.dice.random() < 0.3:
            release(self.world.world, "test1", "late", handles, 0)
        else:
            acknowledge(self.world.world, "test1", "late", handles)

    # What must hold.

    def check(self) -> None:
        super().check()
        if self.late is None:
            return
        dues = stored.dues(self.world.store, self.late.subscription_id)
        in_backlog = {due.message_id for due in dues}
        rows = [row for each in self.published if (row := whole_message(self.world.store, "test1", each)) is not None]
        for row in rows:
            self._check_entry(row, in_backlog)
        self._check_order([(due.position, due.message_id) for due in dues])
        lane = stored.lane(self.world.store, "test1", self.late.subscription_id)
        if not self.is_filled and not self.late_removed and (lane is None or not lane.is_filling):
            self.is_filled = True
            for row in rows:
                self._check_nothing_is_missed(row)

    def _check_entry(self, row: MessageRow, in_backlog: set[str]) -> None:
        assert self.late is not None
        message_id, ordinal = row.message.message_id, self.late.ordinal
        late, is_matched = row.map.added_later.get(ordinal), ordinal in row.map.matched
        if self.added.get(message_id, late) != late:
            raise BrokenPromiseError("a late entry changed")
        if row.subscriptions_version >= self.since:
            if late is not None:
                raise BrokenPromiseError("added although its publish had decided")
            return
        if is_matched != (late is not None):
            raise BrokenPromiseError("matched by a publish that did not know the group")
        if late is None:
            return
        if message_id not in self.added:
            self._check_new(row, late)
            self.added[message_id] = late
        if ordinal in row.map.pending - row.map.enqueued and message_id not in in_backlog:
            raise BrokenPromiseError("a late entry is pending that nobody works on")

    def _check_new(self, row: MessageRow, late: AddedLater) -> None:
        if self.filters.get(late.filter_version) != self.tags[row.message.message_id]:
            raise BrokenPromiseError("a late entry does not match the filter that it names")
        if row.message.accepted_at < self.start_from:
            raise BrokenPromiseError("a late entry is older than was asked for")
        if late.added_at < self.begins_at:
            raise BrokenPromiseError("added while a publish may be under way that does not know the group")
        if self.late_removed and row.message.message_id not in self.added_before:
            raise BrokenPromiseError("added after the group was removed")

    def _check_nothing_is_missed(self, row: MessageRow) -> None:
        assert self.late is not None
        if row.subscriptions_version >= self.since or row.message.accepted_at < self.start_from or not row.has_body:
            return
        wanted = {self.tags[row.message.message_id]} >= set(self.filters.values())
        if wanted and not row.message.is_expired(self.world.clock.now()) and self.late.ordinal not in row.map.matched:
            raise BrokenPromiseError("something kept was not added")

    def _check_order(self, places: Sequence[tuple[str, str]]) -> None:
        """What is late stands before all else, in the order of acceptance."""
        is_late = [each in self.added for _, each in places]
        if is_late != sorted(is_late, reverse=True):
            raise BrokenPromiseError("something newer stands before a late entry")
        ids = [each for position, each in places if position == LATE_POSITION]
        if ids != sorted(ids):
            raise BrokenPromiseError("late entries stand in another order")

    def come_to_rest(self) -> None:
        with suppress(UnavailableError, ConflictError, NotFoundError):
            if self.late_paused:
                self.pause_late()
        super().come_to_rest()
        for row in map(self._row, self.published):
            if body_in(row) is not None:
                raise BrokenPromiseError("a body outlives its message")
        if self.late is not None and not self.late_removed and not self.is_filled:
            raise BrokenPromiseError("a backlog is filled for ever")
