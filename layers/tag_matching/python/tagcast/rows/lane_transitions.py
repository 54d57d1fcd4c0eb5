"""All transitions of a lane's row. Each function returns a write with a condition.

*lane* is the lane as it was read. If its docstring names no other condition, a write fails if the lane's state or
generation changed after the read. Most writes of a worker also check the claim. A lane without a row is active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from tagcast.model import LaneState
from tagcast.queues import GroupQueue
from tagcast.rows.due import PLACES
from tagcast.rows.lane import LANES, Lane, append_joined
from tagcast.tables import ABSENT, Check, Delete, Expectation, Put, Update


def lane_put(lane: Lane) -> Put:
    """Return the write that creates the row of a lane that was active until now. It fails if the row exists."""
    return Put(lane.key, LANES.row_of(lane), {"pk": ABSENT})


def join(lane: Lane, message_ids: Sequence[str], expires_at: int) -> Update:
    """Return the write that adds *message_ids* to the backlog of *lane*. It fails if another batch joined meanwhile.

    The first of the messages expires at *expires_at*. A sleeping lane is checked then, or earlier.
    """
    joined = _append_messages(lane, message_ids)
    if not lane.state.is_asleep:
        return _update(joined, _same_length(lane), "appended", "joined")
    # If the sweep has postponed the check since the read, this time is still early enough.
    wake_at = expires_at if lane.wake_at is None else min(lane.wake_at, expires_at)
    return _update(replace(joined, wake_at=wake_at), _same_length(lane), "appended", "joined", "wake_at")


def append_after(lane: Lane, appended: int) -> Update:
    """Return the write that raises the lane's ``appended`` by one, or to *appended* if that is higher.

    Batches that join later get positions after it. The write fails if a batch joined meanwhile.
    """
    return _update(replace(lane, appended=max(lane.appended + 1, appended)), _same_length(lane), "appended")


def join_retrying(lane: Lane, message_ids: Sequence[str]) -> Update:
    """Return the write that adds messages to a lane without changing its next attempt.

    Use this write if the lane is claimed, or if its next attempt comes before the messages are due. The write fails if
    a worker changed the claim or the next attempt, or another batch joined, after *lane* was read.
    """
    joined = _append_messages(lane, message_ids)
    return _update(joined, _expect_unplanned(lane), "appended", "joined")


def join_before(
    lane: Lane, message_ids: Sequence[str], generation: str, state: LaneState, due_at: int, now: int
) -> tuple[Lane, Update]:
    """Return *lane* with *message_ids* added and the next attempt at *due_at*, and the write that stores this lane.

    The returned lane is not claimed. Use this write if the messages are due before the lane's next attempt, or if they
    change the lane's state. It fails if the claim or the next attempt changed, or another batch joined, meanwhile.
    """
    joined = _start_at(_append_messages(lane, message_ids), generation, state, due_at, now)
    return joined, _update(joined, _expect_unplanned(lane), *_STARTED, "appended", "joined")


def plan_before(lane: Lane, generation: str, state: LaneState, due_at: int, now: int) -> tuple[Lane, Update]:
    """Return *lane* with the next attempt at *due_at*, after late answers, and the write that stores this lane.

    The returned lane is not claimed. The write fails if the claim or the next attempt changed meanwhile. It does not
    fail if a batch joined, so a busy topic does not keep the lane waiting.
    """
    planned = _start_at(lane, generation, state, due_at, now)
    return planned, _update(planned, _same_plan(lane), *_STARTED)


def check_claim(lane: Lane) -> Check:
    """Return the check that a worker still has the claim of *lane*. Otherwise the worker's transaction fails."""
    return Check(lane.key, _same_claim(lane))


def claim(lane: Lane, until: int) -> tuple[Lane, Update]:
    """Return *lane* claimed until *until*, under the next claim number, and the write that stores this claim.

    A worker that has the claim extends it with the same function. The write fails if the generation, the claim, the
    state or the next attempt changed after *lane* was read.
    """
    claimed = replace(_set_next_attempt(lane, until), claim=lane.claim + 1, is_claimed=True)
    return claimed, _update(claimed, _same_plan(lane), "claim", "next_attempt_at", "wake_at", "filling")


def plan(lane: Lane, due_at: int, message_id: str | None, state: LaneState) -> Update:
    """Return the write that ends the claim and plans the next attempt at *due_at*.

    *message_id* is the message whose failure is the reason; None for another reason. *state* is the lane's new state.
    """
    planned = replace(_set_next_attempt(lane, due_at), state=state, planned_for=message_id)
    return _update(planned, _same_claim(lane), "state", "next_attempt_at", "wake_at", "planned_for", "filling")


def wait(lane: Lane, due_at: int, state: LaneState) -> Update:
    """Return the write that ends the claim; each delivery then waits for its own next attempt (INDEPENDENT_RETRY).

    The earliest of these attempts is at *due_at*. *state* is RETRYING, or LOST_CONTACT if the receiver has neither
    accepted nor refused a message since contact was lost. The write fails if a batch joined after *lane* was read,
    because the batch may have an earlier attempt.
    """
    waiting = replace(_set_next_attempt(lane, due_at), state=state, lost_since=None)
    sets = ("state", "next_attempt_at", "wake_at", "filling", "retry_all_at", "lost_since")
    return _update(waiting, _expect_unchanged(lane), *sets)


def wait_for_contact(lane: Lane, due_at: int, now: int) -> Update:
    """Return the write that moves a lane to LOST_CONTACT, or keeps it there. The next attempt, a probe, is at *due_at*.

    *now* becomes ``lost_since``, unless the lane has lost contact already.
    """
    since = lane.lost_since if lane.state is LaneState.LOST_CONTACT else None
    lost = replace(_set_next_attempt(lane, due_at), state=LaneState.LOST_CONTACT, lost_since=since or now)
    return _update(lost, _same_claim(lane), "state", "next_attempt_at", "wake_at", "filling", "lost_since")


def recover(lane: Lane) -> Update:
    """Return the write that moves a lane from LOST_CONTACT to RETRYING, after its receiver accepted a new message.

    The write fails if the lane's state, generation or claim changed after *lane* was read.
    """
    return _update(replace(lane, state=LaneState.RETRYING), _same_claim(lane), "state")


def suspend(lane: Lane, generation: str, due_at: int, message_id: str, now: int) -> Update:
    """Return the write that suspends a lane whose receiver answered a push of *message_id* with 410.

    If the lane is resumed, it continues at *due_at* or later. The next sweep after *now* finds the first expiry in the
    backlog.
    """
    stopped = replace(lane, state=LaneState.SUSPENDED, generation=generation)
    suspended = replace(_set_next_attempt(stopped, due_at), wake_at=now, planned_for=message_id)
    sets = ("state", "generation", "next_attempt_at", "wake_at", "planned_for", "filling")
    return _update(suspended, _same_claim(lane), *sets)


def activate(lane: Lane) -> Delete:
    """Return the write that activates a lane: it deletes the lane's row. The backlog must be empty.

    The write fails if a batch joined, or the lane's state, generation or claim changed, after *lane* was read.
    """
    return Delete(lane.key, _expect_unchanged(lane))


def leave_tombstone(lane: Lane) -> Update:
    """Return the write that keeps the lane of a deleted subscription as a tombstone, without further checks.

    The backlog must be empty.
    """
    return _update(replace(lane, wake_at=None), _same_claim(lane), "wake_at")


def reassign(lane: Lane, generation: str) -> Update:
    """Return the write that gives a lane to a new execution of the workflow, whose id becomes *generation*.

    The write fails if the lane's generation or claim changed meanwhile, but not if its state changed.
    """
    return _update(replace(lane, generation=generation), _expect(lane, "generation", "claim"), "generation")


def restart(lane: Lane, generation: str) -> Update:
    """Return the write that gives an overdue lane to a new execution of the workflow, under the new *generation*.

    The write fails if a batch joined, or the lane's state, generation or claim changed, after *lane* was read.
    """
    return _update(replace(lane, generation=generation), _expect_unchanged(lane), "generation")


def wake_next(lane: Lane, wake_at: int | None) -> Update:
    """Return the write that sets the time of the sweep's next check of a sleeping lane. None means no check.

    The write fails if a batch joined after *lane* was read.
    """
    return _update(replace(lane, wake_at=wake_at), _expect_unchanged(lane), "wake_at")


def postpone(lane: Lane, wake_at: int) -> Update:
    """Return the write that sets the time of the sweep's next check of a sleeping lane.

    The write does not fail if a batch joined, unless that batch changed the time of the check.
    """
    return _update(replace(lane, wake_at=wake_at), _expect(lane, "state", "generation", "wake_at"), "wake_at")


def pause(lane: Lane, generation: str, now: int) -> Update:
    """Return the write that pauses a lane. The next sweep after *now* finds the first expiry in the lane's backlog."""
    paused = replace(lane, state=LaneState.PAUSED, generation=generation, wake_at=now)
    return _update(paused, _same_generation(lane), "state", "generation", "wake_at")


def resume(lane: Lane, generation: str, state: LaneState, due_at: int) -> tuple[Lane, Update]:
    """Return *lane* as resumed in *state*, with its next attempt at *due_at*, and the write that stores this lane.

    The lane stays claimed if its claim ends at *due_at* or later, because an attempt may still run.
    """
    is_claimed = lane.is_claimed and (lane.next_attempt_at or 0) >= due_at
    planned = replace(lane, next_attempt_at=due_at, wake_at=due_at, is_claimed=is_claimed)
    resumed = replace(planned, state=state, generation=generation)
    return resumed, _update(resumed, _same_plan(lane), "state", "generation", "next_attempt_at", "wake_at")


def retry_now(lane: Lane, generation: str, now: int) -> tuple[Lane, Update]:
    """Return *lane* with its next attempt at *now*, without a claim, and the write that stores this lane.

    Under INDEPENDENT_RETRY all deliveries that were attempted before *now* are due.
    """
    hurried = replace(_set_next_attempt(lane, now), generation=generation, planned_for=None, retry_all_at=now)
    sets = ("generation", "next_attempt_at", "wake_at", "planned_for", "retry_all_at")
    return hurried, _update(hurried, _same_plan(lane), *sets)


def skip(lane: Lane, generation: str, now: int) -> tuple[Lane, Update]:
    """Return *lane* after its head was skipped, and the write that stores this lane.

    The next delivery is due at *now*. A sleeping lane keeps the time of its next check. If it is still claimed, it also
    keeps the claim and its end, because an attempt may still run.
    """
    skipped, sets = replace(lane, generation=generation, planned_for=None), ["generation", "planned_for"]
    if not lane.state.is_asleep:
        skipped = _set_next_attempt(skipped, now)
        sets += ["next_attempt_at", "wake_at"]
    elif not lane.is_claimed:
        skipped = replace(skipped, next_attempt_at=now)
        sets += ["next_attempt_at"]
    return skipped, _update(skipped, _same_generation(lane), *sets)


def remove(lane: Lane, generation: str, now: int, ttl: int, queue: GroupQueue | None) -> tuple[Lane, Update]:
    """Return *lane* as the tombstone of a deleted subscription, and the write that stores the tombstone.

    From *now* on a worker cancels the backlog. The tombstone expires at *ttl* (seconds). *queue* is the queue of a
    deleted group; None for any other subscription.
    """
    removed = replace(lane, state=LaneState.REMOVED, generation=generation, ttl=ttl, queue=queue)
    tombstone = replace(_set_next_attempt(removed, now), planned_for=None)
    sets = ("state", "generation", "next_attempt_at", "wake_at", "ttl", "queue", "planned_for")
    return tombstone, _update(tombstone, _same_generation(lane), *sets)


def _append_messages(lane: Lane, message_ids: Sequence[str]) -> Lane:
    """Return the lane with more messages. *appended* grows even without messages, to show a change in the backlog."""
    appended = lane.appended + max(1, ceil(len(message_ids) / PLACES))
    return replace(lane, appended=appended, joined=append_joined(lane.joined, message_ids))


def _set_next_attempt(lane: Lane, due_at: int) -> Lane:
    """Return the unclaimed lane with its next attempt and check at *due_at*."""
    return replace(lane, next_attempt_at=due_at, wake_at=due_at, is_claimed=False)


def _start_at(lane: Lane, generation: str, state: LaneState, due_at: int, now: int) -> Lane:
    """Return the lane under a new *generation*, unclaimed, with its next attempt at *due_at*."""
    lost_since = now if state is LaneState.LOST_CONTACT else lane.lost_since
    planned = replace(_set_next_attempt(lane, due_at), state=state, generation=generation)
    return replace(planned, lost_since=lost_since, wake_at=now if state.is_asleep else due_at)


_STARTED = ("state", "generation", "next_attempt_at", "wake_at", "lost_since")


def _update(lane: Lane, expect: Expectation, *sets: str) -> Update:
    """Return the write of the attributes *sets* of *lane*. Other attributes stay unchanged.

    A write of *wake_at* also writes the shard. A write of *next_attempt_at* also writes whether the lane is claimed.
    """
    names = (*sets, *(beside for name, beside in _BESIDE.items() if name in sets))
    row = LANES.row_of(lane)
    changes = {name: row[name] for name in names if name in row}
    return Update(lane.key, changes, tuple(name for name in names if name not in row), expect)


def _same_generation(lane: Lane) -> Expectation:
    """Return the condition that state and generation are unchanged. Batches may have joined."""
    return _expect(lane, "state", "generation")


def _same_claim(lane: Lane) -> Expectation:
    """Return the condition that state and worker (generation and claim) are unchanged. Batches may have joined."""
    return _expect(lane, "state", "generation", "claim")


def _same_plan(lane: Lane) -> Expectation:
    """Return the condition that state, worker and next attempt are unchanged. Batches may have joined."""
    return _expect(lane, "state", "generation", "claim", "next_attempt_at")


def _same_length(lane: Lane) -> Expectation:
    """Return the condition that state, generation and *appended* are unchanged."""
    return _expect(lane, "state", "generation", "appended")


def _expect_unplanned(lane: Lane) -> Expectation:
    """Return the condition that state, worker, next attempt and *appended* are unchanged."""
    return _expect(lane, "state", "generation", "claim", "next_attempt_at", "appended")


def _expect_unchanged(lane: Lane) -> Expectation:
    """Return the condition that state, worker and *appended* are unchanged, so no batch joined."""
    return _expect(lane, "state", "generation", "claim", "appended")


_BESIDE = {"wake_at": "wake_shard", "next_attempt_at": "is_claimed"}


def _expect(lane: Lane, *names: str) -> Expectation:
    row = LANES.row_of(lane)
    return {name: row.get(name, ABSENT) for name in names}
