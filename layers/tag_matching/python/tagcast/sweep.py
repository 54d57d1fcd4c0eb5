"""The sweep: lanes that nobody woke in time, and messages past their life, are brought to where they belong."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from tagcast.errors import ConditionLostError
from tagcast.keys import due_key, lane_key, message_key, retained_key
from tagcast.lane_rows import Due, Lane, due_of, lane_of, lane_row
from tagcast.lanes import ASLEEP
from tagcast.model import Entry, EntryState, ordinal_of
from tagcast.ports import Delete, Put, Table, Update, World
from tagcast.rows import WAKE_SHARDS, message_row_of
from tagcast.settling import map_writes

OVERDUE_GRACE_S = 15
LANES_MAX, RETAINED_MAX = 500, 100
LEFT_S = 600
"""So long after its end what is listed as retained is left to its lanes: they know of attempts and of ends."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: lanes restarted, entries expired, and the age of the oldest overdue head in seconds."""

    restarted: int = 0
    expired: int = 0
    oldest_overdue_s: float = 0.0


def sweep(world: World) -> Swept:
    """Restart overdue lanes under a new generation; expire what is past its life on sleeping ones and in the list."""
    now = world.clock.now()
    grace = round(OVERDUE_GRACE_S * 1000 / min(world.time_scale, 5.0))
    restarted = expired = 0
    oldest = 0.0
    for shard in range(WAKE_SHARDS):
        for row in world.store.lanes_to_wake(shard, now, LANES_MAX):
            lane = _current(world, lane_of(row))
            if lane is None or lane.wake_at is None or lane.wake_at > now:
                continue
            if lane.state in ASLEEP:
                expired += _expire_backlog(world, lane, now)
            elif lane.wake_at <= now - grace:
                oldest = max(oldest, (now - lane.wake_at) / 1000)
                restarted += _restart(world, lane, now)
    return Swept(restarted, expired + _expire_retained(world, now), oldest)


def _current(world: World, lane: Lane) -> Lane | None:
    row = world.store.get(lane_key(lane.topic, lane.subscription_id))
    return None if row is None else lane_of(row)


def _restart(world: World, lane: Lane, now: int) -> int:
    fresh = replace(lane, generation=world.dice.unique_id(now))
    try:
        world.store.write(Update(lane.key, {"generation": fresh.generation}, expect=lane.as_read()))
    except ConditionLostError:
        return 0
    world.workflow.start(fresh.topic, fresh.subscription_id, fresh.generation)
    return 1


def _expire_backlog(world: World, lane: Lane, now: int) -> int:
    """Expire the due rows past their life, row by row: expiry is not monotone when retention changes."""
    pk = due_key(lane.subscription_id, "", "").pk
    dues = [due_of(row) for row in world.store.query(Table.MESSAGES, pk)]
    over = [due for due in dues if due.expires_at <= now]
    for due in over:
        _expire_due(world, lane.topic, due)
    wake_at = min((due.expires_at for due in dues if due.expires_at > now), default=None)
    with suppress(ConditionLostError):  # Somebody moved the lane; the next sweep looks again.
        world.store.write(Put(lane.key, lane_row(replace(lane, wake_at=wake_at)), lane.as_read()))
    return len(over)


def _expire_due(world: World, topic: str, due: Due) -> None:
    while True:  # It ends: each round that loses is one that somebody else won.
        stored = world.store.get(message_key(topic, due.message_id))
        before = None if stored is None else message_row_of(stored)
        ordinal = ordinal_of(due.subscription_id)
        if before is None or ordinal not in before.map.owed:
            world.store.write(Delete(due.key))
            return
        entry = due.ending(EntryState.EXPIRED)
        try:
            world.store.transact((Delete(due.key), *map_writes(before, before.settled({ordinal: entry}))))
        except ConditionLostError:
            continue
        return


def _expire_retained(world: World, now: int) -> int:
    expired = 0
    for topic_row in world.store.query(Table.REGISTRY, "TOPICS"):
        topic = cast("str", topic_row["sk"])
        listed = world.store.query(Table.MESSAGES, retained_key(topic, "").pk, limit=RETAINED_MAX)
        for row in listed:
            if cast("int", row["expires_at"]) <= now - LEFT_S * 1000:
                expired += _expire_message(world, topic, cast("str", row["sk"]))
    return expired


def _expire_message(world: World, topic: str, message_id: str) -> int:
    while True:  # It ends: each round that loses is one that somebody else won.
        stored = world.store.get(message_key(topic, message_id))
        before = None if stored is None else message_row_of(stored)
        if before is None or not before.map.owed:
            world.store.write(Delete(retained_key(topic, message_id)))
            return 0
        after = before.settled({ordinal: Entry(EntryState.EXPIRED) for ordinal in before.map.owed})
        try:
            world.store.transact(map_writes(before, after))
        except ConditionLostError:
            continue
        return before.map.pending
