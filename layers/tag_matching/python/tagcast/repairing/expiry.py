"""Expires deliveries that no worker attempts: on sleeping lanes, and in the retained lists.

All other deliveries expire where they are attempted (`tagcast.pushing.engine:drop_expired`). Sleeping lanes take turns
here, with one page of rows per turn. So no lane waits for the long backlog of another. Topics take turns, too: each
sweep continues after the last topic of the previous sweep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.isolation import at_once, each
from tagcast.delivery.dead_letter import has_dead_letter, publish_dead_letter
from tagcast.delivery.ending import TRIES_MAX, complete, end_due, end_many
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState, Subscription
from tagcast.ports import World, Write
from tagcast.registry.directory import subscription_at
from tagcast.rows import stored
from tagcast.rows.due import DUES, FailedPulls, PendingDelivery
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import postpone, wake_next
from tagcast.rows.listed import RETAINED
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.message_transitions import removal

PAGE, LANES_AT_ONCE, TOPICS_AT_ONCE = 500, 8, 32
QUIET_PAGES_MAX = 10
"""The reading of a backlog ends after 10 pages without an expired delivery.

One such page is not the end: after a change of the retention, deliveries are not in the order of their expiry.
"""
RETAINED_PAGE, TOPIC_S = 50, 20.0
REACH = 1_000
"""A due row is looked up among the first 1,000 rows of a backlog. Later rows are left to the lane."""
ALONE_MAX = 1_000
"""Up to 1,000 subscriptions are read one by one. More are found among all subscriptions of their topic."""
LEFT_S = 600
"""Retained messages are left to their lanes for 10 minutes after expiry, because lanes know attempts in flight."""


@dataclass(slots=True)
class _Backlog:
    """The progress through the backlog of a sleeping lane."""

    lane: Lane
    after: str = ""
    earliest: int | None = None
    quiet: int = 0

    def keeps(self, expires_at: int) -> None:
        self.earliest = expires_at if self.earliest is None else min(self.earliest, expires_at)


async def expire_sleeping(world: World, lanes: Collection[Lane], ends: float) -> int:
    """Expire deliveries on sleeping lanes, a page of each in turn, until *ends* (monotonic); return their number."""
    waiting = deque(_Backlog(lane) for lane in lanes)
    expired = 0

    async def serve(_: int) -> None:
        nonlocal expired
        while waiting and world.clock.monotonic() < ends:
            backlog = waiting.popleft()
            for number, done in await each(world, "a sleeping lane", [backlog], partial(_turn, world)):
                expired += number
                if not done:
                    waiting.append(backlog)

    await each(world, "sleeping lanes", range(min(LANES_AT_ONCE, len(waiting))), serve)
    begun = [backlog for backlog in waiting if backlog.after]
    await each(world, "a sleeping lane", begun, lambda backlog: _postpone(world, backlog.lane))
    return expired


async def _turn(world: World, backlog: _Backlog) -> tuple[int, bool]:
    """Expire a page of a backlog. Return the number of expired deliveries, and whether the lane is finished."""
    lane, now = backlog.lane, world.clock.now()
    page = await world.executor.run(stored.due_rows, world.store, lane.subscription_id, after=backlog.after, limit=PAGE)
    dues = await each(world, "a due row", page, at_once(DUES.value_of))
    over = [due for due in dues if due.expires_at <= now]
    ordinal = ordinal_of(lane.subscription_id)
    owners = await world.executor.run(_subscriptions_with_letters, world, lane.topic, (ordinal,)) if over else {}
    for due in dues:
        if due.expires_at > now:
            backlog.keeps(due.expires_at)
    expire = partial(expire_due, world, lane, owners.get(ordinal))
    expired = await each(world, "a due row", over, lambda due: world.executor.run(expire, due))
    if not all(expired) or len(expired) < len(over):
        backlog.keeps(now)
    backlog.quiet = 0 if over else backlog.quiet + 1
    if len(page) == PAGE and backlog.quiet < QUIET_PAGES_MAX:
        backlog.after = stored.place(page[-1])
        return sum(expired), False
    if not await world.executor.run(lambda: _write_if_unchanged(world, wake_next(lane, backlog.earliest))):
        await _postpone(world, lane)
    return sum(expired), True


def expire_due(world: World, lane: Lane, owner: Subscription | None, due: PendingDelivery) -> bool:
    """End one pending delivery as expired, with its attempts. Return whether its due row no longer exists.

    *owner* is the lane's subscription if it has dead letters for expired messages, else None. The dead letter is
    published first.
    """
    entry, ordinal = due.entry(EntryState.EXPIRED), ordinal_of(due.subscription_id)
    for _ in range(TRIES_MAX):
        known = None
        if owner is not None:
            row = stored.message_with(world.store, lane.topic, due.message_id, ordinal)
            if row is not None and row.map.is_with_lane(ordinal):
                publish_dead_letter(world, owner, row.message, entry)
                known = row
        with suppress(ConditionLostError):
            end_due(world.store, lane.topic, due, entry, known=known)
            return True
    return False


def _subscriptions_with_letters(world: World, topic: str, ordinals: Collection[int]) -> dict[int, Subscription]:
    """Return the subscriptions of *ordinals* that have dead letters for expired messages. Ordinals are never reused."""
    found: Iterable[Subscription | None] = stored.every_subscription(world.store, topic)
    if len(ordinals) <= ALONE_MAX:
        found = (subscription_at(world, topic, each) for each in sorted(ordinals))
    with suppress(NotFoundError):
        chosen = (each for each in found if each is not None and has_dead_letter(each.settings, EntryState.EXPIRED))
        return {each.ordinal: each for each in chosen if each.ordinal in ordinals}
    return {}


def _expired_entry(known: PendingDelivery | FailedPulls | None) -> Entry:
    return Entry(EntryState.EXPIRED) if known is None else known.entry(EntryState.EXPIRED)


async def _postpone(world: World, lane: Lane) -> None:
    """Move the lane after all overdue lanes. Batches that joined meanwhile do not expire earlier than now."""
    await world.executor.run(lambda: _write_if_unchanged(world, postpone(lane, world.clock.now())))


def _write_if_unchanged(world: World, move: Write) -> bool:
    """Move a lane's next check; return whether the condition of the write held."""
    try:
        world.store.write(move)
    except ConditionLostError:
        return False
    return True


async def expire_retained(world: World, after: str, ends: float) -> tuple[int, str]:
    """Expire deliveries in the retained lists, topic by topic: first the topics after *after*, then all other topics.

    Ends at *ends* (monotonic). Returns the number of expired deliveries, and the topic after which the next sweep
    continues.
    """
    expired, begun_at, around = 0, after, False
    while world.clock.monotonic() < ends:
        topics = await world.executor.run(stored.topic_names, world.store, after=after, limit=TOPICS_AT_ONCE)
        if around:
            topics = [topic for topic in topics if topic <= begun_at]
        expired += sum(await each(world, "a list of retained messages", topics, partial(_expire_list, world, ends)))
        after = topics[-1] if topics else ""
        if len(topics) < TOPICS_AT_ONCE:
            if around or not begun_at:
                break
            after, around = "", True
    return expired, after


async def _expire_list(world: World, ends: float, topic: str) -> int:
    expired, after, quiet = 0, "", 0
    ends = min(ends, world.clock.monotonic() + TOPIC_S)
    over_at = world.clock.now() - round(LEFT_S * 1000 / min(world.time_scale, 5.0))
    while world.clock.monotonic() < ends and quiet < QUIET_PAGES_MAX:
        page = await world.executor.run(stored.retained_rows, world.store, topic, after=after, limit=RETAINED_PAGE)
        over = [(each.message_id, each.section) for each in map(RETAINED.value_of, page) if each.expires_at <= over_at]
        expired += await expire_messages(world, topic, over) if over else 0
        quiet = 0 if over else quiet + 1
        if len(page) < RETAINED_PAGE:
            break
        after = stored.place(page[-1])
    return expired


async def expire_messages(world: World, topic: str, messages: Collection[tuple[str, int | None]]) -> int:
    """Expire the pending deliveries of expired messages whose first round is over; return the number of deliveries.

    Each of *messages* is a message id, with a section if the message is wide. The caller has checked that the first
    rounds are over. From then on, only a due row or failed pulls record the attempts of a pending delivery. So no
    attempts are lost if a delivery without a due row expires.
    """
    lanes = await world.executor.run(_lanes, world, topic)
    rows = await _messages(world, topic, messages)
    pending = set[int]().union(*(row.map.pending for row in rows)) & lanes.keys()
    dues: dict[tuple[int, str], PendingDelivery | None] = {}
    reading = partial(_dues, world, lanes, frozenset(message_id for message_id, _ in messages))
    for part in await each(world, "a backlog", sorted(pending), reading):
        dues |= part
    ordinals = set[int]().union(*(row.map.pending for row in rows))
    owners = await world.executor.run(_subscriptions_with_letters, world, topic, ordinals)
    settle = partial(_expire_message, world, dues, lanes.keys(), owners)
    return sum(await each(world, "a message", rows, lambda row: world.executor.run(settle, row)))


def _lanes(world: World, topic: str) -> dict[int, str]:
    """Return the subscription ids of the lanes that are not active, by ordinal."""
    return {ordinal_of(each): each for each in map(stored.place, stored.lane_rows(world.store, topic))}


async def _dues(
    world: World, lanes: Mapping[int, str], message_ids: Set[str], ordinal: int
) -> dict[tuple[int, str], PendingDelivery | None]:
    """Return the due rows of some messages in one backlog, or None for a missing row.

    Rows far back in the backlog are left out.
    """
    rows = await world.executor.run(stored.due_rows, world.store, lanes[ordinal], limit=REACH)
    whole = len(rows) < REACH
    found: dict[tuple[int, str], PendingDelivery | None] = {(ordinal, each): None for each in message_ids if whole}
    for due in await each(world, "a due row", reversed(rows), at_once(DUES.value_of)):
        if due.message_id in message_ids:
            found[ordinal, due.message_id] = due
    return found


def _expire_message(
    world: World,
    dues: Mapping[tuple[int, str], PendingDelivery | None],
    laned: Set[int],
    owners: Mapping[int, Subscription],
    known: MessageRow,
) -> int:
    """Expire and complete a message; return the number of expired deliveries.

    *dues* has due rows as :func:`_dues` returns them, *laned* the ordinals of the lanes that are not active, and
    *owners* the subscriptions with dead letters.
    """
    message, row, store = known.message, known, world.store
    for _ in range(TRIES_MAX):
        enqueued = row.map.enqueued
        within = [
            o for o in sorted(row.map.pending) if o in enqueued or o not in laned or (o, message.message_id) in dues
        ]
        found = {o: dues.get((o, message.message_id)) for o in within}
        pulls = stored.failed_pulls(store, *row.names) if enqueued else {}
        ends = {o: _expired_entry(due or pulls.get(o)) for o, due in found.items()}
        for ordinal in sorted(ends.keys() & owners.keys()):
            publish_dead_letter(world, owners[ordinal], message, ends[ordinal])
        try:
            end_many(store, row, ends, {o: due for o, due in found.items() if due})
        except ConditionLostError:
            again = stored.read_again(store, row)
            if again is None:
                break
            row = again
            continue
        if not row.map.pending - ends.keys():
            with suppress(ConditionLostError):  # The next pass of the search finds it again.
                complete(store, *row.names)
                store.write(removal(row))
        return len(ends)
    return 0


async def _messages(world: World, topic: str, messages: Collection[tuple[str, int | None]]) -> list[MessageRow]:
    """Return the existing rows of *messages* (at most 100). An unreadable row is reported and left out."""
    ids = list({message_id: None for message_id, _ in messages})
    read = await world.executor.run(stored.message_rows, world.store, topic, ids)
    rows = await each(world, "a message", read, at_once(MESSAGES.value_of))
    found = {row.message.message_id: row for row in rows}
    reads = [
        partial(stored.with_ends, world.store, found[name], section) for name, section in messages if name in found
    ]
    return list(await each(world, "a message", reads, world.executor.run))
