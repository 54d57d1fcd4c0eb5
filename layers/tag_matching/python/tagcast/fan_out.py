"""The first round of a batch of messages: push to active lanes, hand the rest to backlogs (architecture §3a).

Lanes are written before messages, and messages before the batch is acknowledged, so that an accident between
any two writes leaves something that a repetition of the batch completes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from tagcast.attempts import Progress, lane_state_after
from tagcast.directory import Snapshot, snapshot
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.keys import lane_key, message_key
from tagcast.lane_rows import Due, Lane, due_row, lane_of, lane_row, position
from tagcast.model import Entry, EntryState, LaneState, Message, Subscription, subscription_id
from tagcast.ports import ABSENT, Expectation, Put, Table, Update, Value, World, Write
from tagcast.rows import MessageRow, message_row_of
from tagcast.settling import write_map
from tagcast.verdicts import attempt_judged, is_judged_by_function

SHARE_S = 2.0


async def fan_out(world: World, topic: str, message_ids: Sequence[str]) -> None:
    """Bring the first round of these messages of one topic, in queue order, to its end.

    Repeating it, late or concurrently, changes no terminal entry and at most repeats pushes. Raises what the
    store raises; then nothing was acknowledged and the whole batch has to come again.
    """
    batch = _Batch(world, topic, tuple(dict.fromkeys(message_ids)), world.clock.now())
    batch.read_messages()
    batch.read_lanes()
    batch.read_subscriptions()
    await asyncio.gather(*(batch.serve(ordinal) for ordinal in batch.owed_ordinals()))
    for message_id in batch.message_ids:
        batch.close(message_id)
    for lane in batch.blocked:
        world.workflow.start(topic, lane.subscription_id, lane.generation)


@dataclass(slots=True)
class _Batch:
    world: World
    topic: str
    message_ids: tuple[str, ...]
    round_at: int
    rows: dict[str, MessageRow] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    directory: Snapshot | None = None
    settled: dict[str, dict[int, Entry]] = field(default_factory=dict)
    blocked: list[Lane] = field(default_factory=list)

    def read_messages(self) -> None:
        keys = {message_key(self.topic, message_id): message_id for message_id in self.message_ids}
        found = self.world.store.get_many(tuple(keys))
        self.rows = {keys[key]: message_row_of(row) for key, row in found.items()}

    def read_lanes(self) -> None:
        rows = self.world.store.query(Table.MESSAGES, lane_key(self.topic, "").pk)
        self.lanes = {lane.subscription_id: lane for lane in map(lane_of, rows)}

    def read_subscriptions(self) -> None:
        try:
            self.directory = snapshot(self.world, self.topic)
        except NotFoundError:
            self.directory = None

    def owed_ordinals(self) -> list[int]:
        return sorted(set().union(*(row.map.owed for row in self.rows.values())))

    def subscription(self, ordinal: int) -> Subscription | None:
        return None if self.directory is None else self.directory.by_ordinal.get(ordinal)

    def lane(self, ordinal: int) -> Lane | None:
        topic_id = "" if self.directory is None else self.directory.topic.topic_id
        return self.lanes.get(subscription_id(topic_id, ordinal))

    def owed(self, ordinal: int) -> list[MessageRow]:
        """Return, in queue order, the messages that *ordinal* is owed and that this batch has not settled."""
        rows = (self.rows[message_id] for message_id in self.message_ids if message_id in self.rows)
        return [
            row
            for row in rows
            if ordinal in row.map.owed and ordinal not in self.settled.get(row.message.message_id, {})
        ]

    def settle(self, ordinal: int, entries: Mapping[str, Entry]) -> None:
        for message_id, entry in entries.items():
            self.settled.setdefault(message_id, {})[ordinal] = entry

    async def serve(self, ordinal: int) -> None:
        """Settle what one subscription is owed of this batch, or append it to the subscription's backlog."""
        subscription = self.subscription(ordinal)
        progress = Progress()
        judged: set[str] = set()
        while True:
            owed = self.owed(ordinal)
            lane = self.lane(ordinal)
            if subscription is None or (lane is not None and lane.state is LaneState.REMOVED):
                self.settle(ordinal, {row.message.message_id: Entry(EntryState.CANCELLED) for row in owed})
                return
            self.expire(ordinal, owed, progress)
            owed = self.owed(ordinal)
            if lane is None and not progress.failures:
                first = next((place for place, row in enumerate(owed) if not row.map.round_open), len(owed))
                progress = await self.push(subscription, [row.message for row in owed[:first]], judged)
                judged |= progress.judged
                self.settle(ordinal, progress.settled)
                owed = self.owed(ordinal)
            rest = [row.message for row in owed if row.map.round_open]
            if not rest:
                return
            try:
                self.append(subscription, lane, rest, progress, judged)
            except ConditionLostError:
                self.reread(subscription)
                continue
            return

    def expire(self, ordinal: int, owed: Sequence[MessageRow], progress: Progress) -> None:
        """Settle what came to the end of its life before or while it was tried."""
        now = self.world.clock.now()
        for row in owed:
            if row.message.is_expired(now):
                failure = progress.failures.pop(row.message.message_id, None)
                entry = Entry(EntryState.EXPIRED)
                if failure is not None:
                    entry = Entry(EntryState.EXPIRED, failure.attempts, failure.ended_at, failure.outcome.detail)
                self.settle(ordinal, {row.message.message_id: entry})

    async def push(self, subscription: Subscription, messages: Sequence[Message], judged: Set[str]) -> Progress:
        deliveries = [(message, 0) for message in messages]
        unjudged = {message.message_id for message in messages} - judged
        return await attempt_judged(self.world, subscription, deliveries, unjudged, share_s=SHARE_S)

    def append(
        self,
        subscription: Subscription,
        lane: Lane | None,
        rest: Sequence[Message],
        progress: Progress,
        judged: Set[str],
    ) -> None:
        """Write the lane and the due rows of *rest* in one transaction, or raise ConditionLostError."""
        now = self.world.clock.now()
        by_function = is_judged_by_function(subscription)
        dues = []
        for place, message in enumerate(rest):
            failure = progress.failures.get(message.message_id)
            dues.append(
                Due(
                    subscription_id=subscription.subscription_id,
                    position=position(0 if lane is None else lane.appended, place),
                    message_id=message.message_id,
                    attempts=0 if failure is None else failure.attempts,
                    expires_at=message.expires_at,
                    last_attempt_at=None if failure is None else failure.ended_at,
                    last_outcome=None if failure is None else failure.outcome.detail,
                    unjudged=by_function and message.message_id not in judged,
                )
            )
        writes: list[Write] = [Put(due.key, due_row(due)) for due in dues]
        blocked: Lane | None = None
        if lane is None:
            head = progress.failures.get(rest[0].message_id)
            blocked = self.new_lane(subscription, progress, now if head is None else head.next_attempt_at, dues)
            writes.append(Put(blocked.key, lane_row(blocked), {"pk": ABSENT}))
        else:
            writes.append(_append_to(lane, dues))
        self.world.store.transact(writes)
        if blocked is not None and blocked.state is not LaneState.SUSPENDED:
            self.blocked.append(blocked)

    def new_lane(
        self, subscription: Subscription, progress: Progress, next_attempt_at: int, dues: Sequence[Due]
    ) -> Lane:
        state = lane_state_after(subscription, progress)
        asleep = state is LaneState.SUSPENDED
        return Lane(
            topic=self.topic,
            subscription_id=subscription.subscription_id,
            state=state,
            generation=self.world.dice.unique_id(self.world.clock.now()),
            appended=1,
            claim=0,
            next_attempt_at=next_attempt_at,
            wake_at=min(due.expires_at for due in dues) if asleep else next_attempt_at,
        )

    def reread(self, subscription: Subscription) -> None:
        """Read again what a lost condition proved stale: messages first, then the lane."""
        self.read_messages()
        row = self.world.store.get(lane_key(self.topic, subscription.subscription_id))
        if row is None:
            self.lanes.pop(subscription.subscription_id, None)
        else:
            self.lanes[subscription.subscription_id] = lane_of(row)

    def close(self, message_id: str) -> None:
        """Write the end of a message's first round: its entries, and the body or the list of what is retained."""
        entries = self.settled.get(message_id, {})
        row = self.rows.get(message_id)
        while row is not None:
            if not row.map.pending or not (row.map.round_open or entries.keys() & row.map.owed):
                return
            try:
                write_map(self.world, row, row.settled(entries, round_at=self.round_at))
            except ConditionLostError:
                stored = self.world.store.get(message_key(self.topic, message_id))
                row = None if stored is None else message_row_of(stored)
                continue
            return


def _append_to(lane: Lane, dues: Sequence[Due]) -> Update:
    changes: dict[str, Value] = {"appended": lane.appended + 1}
    expect = unmoved(lane)
    if lane.state in (LaneState.PAUSED, LaneState.SUSPENDED):
        # The sweep moves the instant at which it looks at a sleeping lane, and nothing else of the row.
        expect = {**expect, "wake_at": ABSENT if lane.wake_at is None else lane.wake_at}
        earliest = min(due.expires_at for due in dues)
        if lane.wake_at is None or earliest < lane.wake_at:
            woken = lane_row(Lane(lane.topic, lane.subscription_id, lane.state, lane.generation, 0, 0, None, earliest))
            changes |= {name: woken[name] for name in ("wake_at", "wake_shard")}
    return Update(lane.key, changes, expect=expect)


def unmoved(lane: Lane) -> Expectation:
    """Return the condition that a lane has the state, generation and length that were read."""
    return {"state": lane.state.value, "generation": lane.generation, "appended": lane.appended}
