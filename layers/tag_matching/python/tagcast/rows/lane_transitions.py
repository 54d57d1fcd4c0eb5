"""Every way in which the row of a lane changes: the write of each, and its condition.

A lane without a row is active. :data:`TRANSITIONS` lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tagcast.model import LaneState
from tagcast.queues import GroupQueue
from tagcast.rows.due import PLACES
from tagcast.rows.lane import LANES, Lane, joined_by
from tagcast.tables import ABSENT, Check, Delete, Expectation, Put, Update, Write


def lane_put(lane: Lane) -> Put:
    """Return the write of the row of a lane that was active: it is blocked, paused, filled or removed."""
    return Put(lane.key, LANES.row_of(lane), {"pk": ABSENT})


def join(lane: Lane, message_ids: Sequence[str], expires_at: int) -> Update:
    """Return the write with which messages join the backlog of a lane; the first of them expires at *expires_at*."""
    joined = _grown(lane, message_ids)
    if not lane.state.is_asleep:
        return _update(joined, _same_length(lane), "appended", "joined")
    # Meanwhile the sweep may only put off its next look at a sleeping lane: this one is early enough then, too.
    wake_at = expires_at if lane.wake_at is None else min(lane.wake_at, expires_at)
    return _update(replace(joined, wake_at=wake_at), _same_length(lane), "appended", "joined", "wake_at")


def join_retrying(lane: Lane, message_ids: Sequence[str]) -> Update:
    """Return the write with which messages join a lane whose worker, or next attempt, comes early enough for them.

    It is lost to a worker that planned the next attempt without them.
    """
    joined = _grown(lane, message_ids)
    return _update(joined, _unplanned(lane), "appended", "joined")


def join_before(
    lane: Lane, message_ids: Sequence[str], generation: str, state: LaneState, due_at: int, now: int
) -> tuple[Lane, Update]:
    """Return the lane that messages join which are due before its next attempt, or after which it is in *state*.

    Nobody has claimed it. Without messages it only goes on at *due_at*.
    """
    lost_since = now if state is LaneState.LOST_CONTACT and lane.state is not state else lane.lost_since
    planned = replace(_planned(_grown(lane, message_ids), due_at), state=state, generation=generation)
    joined = replace(planned, lost_since=lost_since, wake_at=now if state.is_asleep else due_at)
    sets = ("state", "generation", "appended", "joined", "next_attempt_at", "wake_at", "lost_since")
    return joined, _update(joined, _unplanned(lane), *sets)


def check_claim(lane: Lane) -> Check:
    """Return the part of a transaction that lets it fail for a worker that lost the lane."""
    return Check(lane.key, _same_claim(lane))


def claim(lane: Lane, until: int) -> tuple[Lane, Update]:
    """Return the lane whose head a worker takes, or keeps, until then, and the write.

    The worker before it may have planned the next attempt since the lane was read.
    """
    claimed = replace(_planned(lane, until), claim=lane.claim + 1, is_claimed=True)
    return claimed, _update(claimed, _same_plan(lane), "claim", "next_attempt_at", "wake_at", "filling")


def plan(lane: Lane, due_at: int, message_id: str | None, state: LaneState) -> Update:
    """Return the write of a lane that goes on at *due_at*, after a failure of *message_id* if that is set."""
    planned = replace(_planned(lane, due_at), state=state, planned_for=message_id)
    return _update(planned, _same_claim(lane), "state", "next_attempt_at", "wake_at", "planned_for", "filling")


def wait(lane: Lane, due_at: int) -> Update:
    """Return the write of a lane whose deliveries wait each for its own next attempt, the first of them at *due_at*.

    It is lost to a batch that joined since the backlog was read: that may be due before.
    """
    waiting = replace(_planned(lane, due_at), state=LaneState.RETRYING)
    return _update(waiting, _unchanged(lane), "state", "next_attempt_at", "wake_at", "filling")


def wait_for_contact(lane: Lane, due_at: int, now: int) -> Update:
    """Return the write of a lane whose receiver takes nothing: at *due_at* one delivery is attempted."""
    since = lane.lost_since if lane.state is LaneState.LOST_CONTACT else None
    lost = replace(_planned(lane, due_at), state=LaneState.LOST_CONTACT, lost_since=since or now)
    return _update(lost, _same_claim(lane), "state", "next_attempt_at", "wake_at", "filling", "lost_since")


def suspend(lane: Lane, generation: str, due_at: int, message_id: str, expires_at: int) -> Update:
    """Return the write of a lane that stops because its receiver is gone; its head, *message_id*, expires then.

    A resume goes on at *due_at* or later.
    """
    stopped = replace(lane, state=LaneState.SUSPENDED, generation=generation)
    suspended = replace(_planned(stopped, due_at), wake_at=expires_at, planned_for=message_id)
    sets = ("state", "generation", "next_attempt_at", "wake_at", "planned_for", "filling")
    return _update(suspended, _same_claim(lane), *sets)


def activate(lane: Lane) -> Delete:
    """Return the write with which an empty lane is active again, unless anything joined it since it was read."""
    return Delete(lane.key, _unchanged(lane))


def leave_tombstone(lane: Lane) -> Update:
    """Return the write of the tombstone of a lane that nobody has to look at any more."""
    return _update(replace(lane, wake_at=None), _same_claim(lane), "wake_at")


def reassign(lane: Lane, generation: str) -> Update:
    """Return the write that gives a lane to a new execution, unless another worker took it, whatever its state."""
    return _update(replace(lane, generation=generation), _expect(lane, "generation", "claim"), "generation")


def restart(lane: Lane, generation: str) -> Update:
    """Return the write that gives a lane that nobody works on to a new execution."""
    return _update(replace(lane, generation=generation), _unchanged(lane), "generation")


def wake_next(lane: Lane, wake_at: int | None) -> Update:
    """Return the write that moves the next look at a lane that is asleep (None: nobody has to look)."""
    return _update(replace(lane, wake_at=wake_at), _unchanged(lane), "wake_at")


def postpone(lane: Lane, wake_at: int) -> Update:
    """Return the write that moves the next look at a lane that is asleep, whatever joined it since it was read."""
    return _update(replace(lane, wake_at=wake_at), _same_look(lane), "wake_at")


def pause(lane: Lane, generation: str, now: int) -> Update:
    """Return the write of a lane that stops because a person said so. The next sweep looks for its first expiry."""
    paused = replace(lane, state=LaneState.PAUSED, generation=generation, wake_at=now)
    return _update(paused, _same_generation(lane), "state", "generation", "wake_at")


def resume(lane: Lane, generation: str, state: LaneState, due_at: int) -> tuple[Lane, Update]:
    """Return the lane that goes on at *due_at*, and the write."""
    resumed = replace(_planned(lane, due_at), state=state, generation=generation)
    return resumed, _update(resumed, _same_plan(lane), "state", "generation", "next_attempt_at", "wake_at")


def retry_now(lane: Lane, generation: str, now: int) -> tuple[Lane, Update]:
    """Return the lane whose head is attempted at once, and the write."""
    hurried = replace(_planned(lane, now), generation=generation, planned_for=None, retry_all_at=now)
    sets = ("generation", "next_attempt_at", "wake_at", "planned_for", "retry_all_at")
    return hurried, _update(hurried, _same_plan(lane), *sets)


def skip(lane: Lane, generation: str, now: int) -> tuple[Lane, Update]:
    """Return the lane without its head, and the write. When to look at one that is asleep is for others to say."""
    if lane.state.is_asleep:
        skipped = replace(lane, generation=generation)
        return skipped, _update(skipped, _same_generation(lane), "generation")
    skipped = replace(_planned(lane, now), generation=generation, planned_for=None)
    sets = ("generation", "next_attempt_at", "wake_at", "planned_for")
    return skipped, _update(skipped, _same_generation(lane), *sets)


def remove(lane: Lane, generation: str, now: int, ttl: int, queue: GroupQueue | None) -> tuple[Lane, Update]:
    """Return the tombstone of the lane of a removed subscription, and the write; *queue* is that of a group."""
    removed = replace(lane, state=LaneState.REMOVED, generation=generation, ttl=ttl, queue=queue)
    tombstone = replace(_planned(removed, now), planned_for=None)
    sets = ("state", "generation", "next_attempt_at", "wake_at", "ttl", "queue", "planned_for")
    return tombstone, _update(tombstone, _same_generation(lane), *sets)


def _grown(lane: Lane, message_ids: Sequence[str]) -> Lane:
    """Return the lane that messages joined; of none its length still tells that something moved in its backlog."""
    appended = lane.appended + max(1, ceil(len(message_ids) / PLACES))
    return replace(lane, appended=appended, joined=joined_by(lane.joined, message_ids))


def _planned(lane: Lane, due_at: int) -> Lane:
    """Return the lane that nobody has claimed, and that somebody looks at then."""
    return replace(lane, next_attempt_at=due_at, wake_at=due_at, is_claimed=False)


def _update(lane: Lane, expect: Expectation, *sets: str) -> Update:
    """Return the write that gives a lane's row these attributes of *lane* and leaves all others as they are.

    The shard goes with the instant of the next look, and whether the lane is claimed with that of the next attempt.
    """
    names = (*sets, *(beside for name, beside in _BESIDE.items() if name in sets))
    row = LANES.row_of(lane)
    changes = {name: row[name] for name in names if name in row}
    return Update(lane.key, changes, tuple(name for name in names if name not in row), expect)


def _same_generation(lane: Lane) -> Expectation:
    """Return the condition that nobody blocked, resumed or skipped since this was read; batches may have joined."""
    return _expect(lane, "state", "generation")


def _same_claim(lane: Lane) -> Expectation:
    """Return the condition that the lane is still whose it was; batches may have joined."""
    return _expect(lane, "state", "generation", "claim")


def _same_plan(lane: Lane) -> Expectation:
    """Return the condition that the lane is still whose it was, and nobody planned its next attempt since."""
    return _expect(lane, "state", "generation", "claim", "next_attempt_at")


def _same_length(lane: Lane) -> Expectation:
    """Return the condition that the lane has the state, generation and length that were read."""
    return _expect(lane, "state", "generation", "appended")


def _unplanned(lane: Lane) -> Expectation:
    """Return the condition that nobody planned the next attempt, nor appended, since this was read."""
    return _expect(lane, "state", "generation", "claim", "next_attempt_at", "appended")


def _same_look(lane: Lane) -> Expectation:
    """Return the condition that nobody resumed the lane, nor moved the look at it, since this was read."""
    return _expect(lane, "state", "generation", "wake_at")


def _unchanged(lane: Lane) -> Expectation:
    """Return the condition that nobody blocked, appended, claimed or resumed since this was read."""
    return _expect(lane, "state", "generation", "claim", "appended")


_BESIDE = {"wake_at": "wake_shard", "next_attempt_at": "is_claimed"}


def _expect(lane: Lane, *names: str) -> Expectation:
    row = LANES.row_of(lane)
    return {name: row.get(name, ABSENT) for name in names}


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition by one function of the service, between states; *write* returns its write for a lane.

    Where *after* is empty the lane keeps its state.
    """

    name: str
    by: str
    before: frozenset[LaneState]
    after: frozenset[LaneState]
    write: Callable[[Lane], Write]

    def example(self, state: LaneState) -> Write:
        """Return its write of a lane in one of the states before."""
        return self.write(Lane("t", "s.1", state, "1", 1, 1, 1, 1))


_ACTIVE, _PAUSED = frozenset({LaneState.ACTIVE}), frozenset({LaneState.PAUSED})
_SUSPENDED, _REMOVED = frozenset({LaneState.SUSPENDED}), frozenset({LaneState.REMOVED})
_BLOCKED, _LOST = frozenset({LaneState.BLOCKED}), frozenset({LaneState.LOST_CONTACT})
_RETRYING, _SAME = frozenset({LaneState.RETRYING}), frozenset[LaneState]()
_AWAKE, _ASLEEP = _BLOCKED | _LOST | _RETRYING, _PAUSED | _SUSPENDED

TRANSITIONS = (
    Transition("a first round failed", "fan_out", _ACTIVE, _AWAKE | _SUSPENDED, lane_put),
    Transition("a batch joins", "fan_out", _AWAKE, _SAME, lambda lane: join(lane, ["1"], 1)),
    Transition("a batch joins", "fan_out", _ASLEEP, _SAME, lambda lane: join(lane, ["1"], 1)),
    Transition("a batch joins, due later", "fan_out", _RETRYING, _SAME, lambda lane: join_retrying(lane, ["1"])),
    Transition(
        "a batch joins, due sooner",
        "fan_out",
        _RETRYING,
        _AWAKE | _SUSPENDED,
        lambda lane: join_before(lane, ["1"], "2", LaneState.BLOCKED, 1, 1)[1],
    ),
    Transition(
        "a late answer",
        "fan_out",
        _BLOCKED | _RETRYING,
        _SAME,
        lambda lane: join_before(lane, (), "2", lane.state, 1, 1)[1],
    ),
    Transition(
        "no answer came",
        "fan_out",
        _BLOCKED | _RETRYING,
        _LOST,
        lambda lane: join_before(lane, (), "2", LaneState.LOST_CONTACT, 1, 1)[1],
    ),
    Transition("claim", "retry", _AWAKE | _REMOVED, _SAME, lambda lane: claim(lane, 1)[1]),
    Transition("plan the next attempt", "retry", _AWAKE, _AWAKE, lambda lane: plan(lane, 1, "1", lane.state)),
    Transition("each waits for itself", "retry", _AWAKE, _RETRYING, lambda lane: wait(lane, 1)),
    Transition("contact is lost", "retry", _AWAKE, _LOST, lambda lane: wait_for_contact(lane, 1, 1)),
    Transition("give the claim back", "retry", _REMOVED, _SAME, lambda lane: plan(lane, 1, None, lane.state)),
    Transition("answer 410", "retry", _AWAKE, _SUSPENDED, lambda lane: suspend(lane, "2", 1, "1", 1)),
    Transition("the backlog is empty", "retry", _AWAKE, _ACTIVE, activate),
    Transition("the backlog is empty", "retry", _REMOVED, _SAME, leave_tombstone),
    Transition("continue as new", "retry", _AWAKE | _REMOVED, _SAME, lambda lane: reassign(lane, "2")),
    Transition("restart", "sweep", _AWAKE | _REMOVED, _SAME, lambda lane: restart(lane, "2")),
    Transition("look at it later", "sweep", _ASLEEP, _SAME, lambda lane: wake_next(lane, 1)),
    Transition("look at it later, whatever joined", "sweep", _ASLEEP, _SAME, lambda lane: postpone(lane, 1)),
    Transition("pause", "manage", _ACTIVE, _PAUSED, lane_put),
    Transition("pause", "manage", _AWAKE | _SUSPENDED, _PAUSED, lambda lane: pause(lane, "2", 1)),
    Transition("resume", "manage", _ASLEEP, _AWAKE, lambda lane: resume(lane, "2", LaneState.BLOCKED, 1)[1]),
    Transition("resume, nothing is owed", "manage", _ASLEEP, _ACTIVE, activate),
    Transition("retry now", "manage", _AWAKE, _SAME, lambda lane: retry_now(lane, "2", 1)[1]),
    Transition("skip", "manage", _AWAKE, _SAME, lambda lane: skip(lane, "2", 1)[1]),
    Transition("skip", "manage", _ASLEEP, _SAME, lambda lane: skip(lane, "2", 1)[1]),
    Transition("a group begins earlier", "manage", _ACTIVE, _BLOCKED, lane_put),
    Transition("unsubscribe", "manage", _ACTIVE, _REMOVED, lane_put),
    Transition("unsubscribe", "manage", _AWAKE | _ASLEEP, _REMOVED, lambda lane: remove(lane, "2", 1, 1, None)[1]),
)
