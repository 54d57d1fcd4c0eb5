"""All transitions of a lane's row: writer, states, and the write. The simulations accept no other change.

A lane without a row is active.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tagcast.model import LaneState
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import (
    activate,
    append_after,
    claim,
    join,
    join_before,
    join_retrying,
    lane_put,
    leave_tombstone,
    pause,
    plan,
    plan_before,
    postpone,
    reassign,
    recover,
    remove,
    restart,
    resume,
    retry_now,
    skip,
    suspend,
    wait,
    wait_for_contact,
    wake_next,
)
from tagcast.tables import Write


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition between states by one function of the service. *write* returns its write for a lane.

    An empty *after* means that the state stays.
    """

    name: str
    by: str
    before: frozenset[LaneState]
    after: frozenset[LaneState]
    write: Callable[[Lane], Write]

    def example(self, state: LaneState) -> Write:
        """Return an example of the write, for a lane in *state*, which must be in *before*."""
        return self.write(Lane("t", "s.1", state, "1", 1, 1, 1, 1))


_ACTIVE, _PAUSED = frozenset({LaneState.ACTIVE}), frozenset({LaneState.PAUSED})
_SUSPENDED, _REMOVED = frozenset({LaneState.SUSPENDED}), frozenset({LaneState.REMOVED})
_BLOCKED, _LOST = frozenset({LaneState.BLOCKED}), frozenset({LaneState.LOST_CONTACT})
_RETRYING, _SAME = frozenset({LaneState.RETRYING}), frozenset[LaneState]()
_PUSHES_NEW = _RETRYING | _LOST
_AWAKE, _ASLEEP = _BLOCKED | _LOST | _RETRYING, _PAUSED | _SUSPENDED

TRANSITIONS = (
    Transition("a first round failed", "fan_out", _ACTIVE, _AWAKE | _SUSPENDED, lane_put),
    Transition("a batch joins", "fan_out", _AWAKE, _SAME, lambda lane: join(lane, ["1"], 1)),
    Transition("a batch joins", "fan_out", _ASLEEP, _SAME, lambda lane: join(lane, ["1"], 1)),
    Transition("a batch joins, due later", "fan_out", _PUSHES_NEW, _SAME, lambda lane: join_retrying(lane, ["1"])),
    Transition(
        "a batch joins, due sooner",
        "fan_out",
        _PUSHES_NEW,
        _AWAKE | _SUSPENDED,
        lambda lane: join_before(lane, ["1"], "2", LaneState.BLOCKED, 1, 1)[1],
    ),
    Transition("contact is back", "fan_out", _LOST, _RETRYING, recover),
    Transition(
        "a late answer",
        "fan_out",
        _BLOCKED | _RETRYING,
        _SAME,
        lambda lane: plan_before(lane, "2", lane.state, 1, 1)[1],
    ),
    Transition(
        "a late success",
        "fan_out",
        _LOST,
        _RETRYING,
        lambda lane: plan_before(lane, "2", LaneState.RETRYING, 1, 1)[1],
    ),
    Transition(
        "no answer came",
        "fan_out",
        _BLOCKED | _PUSHES_NEW,
        _LOST,
        lambda lane: plan_before(lane, "2", LaneState.LOST_CONTACT, 1, 1)[1],
    ),
    Transition("every late answer is written", "fan_out", _BLOCKED | _PUSHES_NEW, _ACTIVE, activate),
    Transition("claim", "retry", _AWAKE | _REMOVED, _SAME, lambda lane: claim(lane, 1)[1]),
    Transition("plan the next attempt", "retry", _AWAKE, _AWAKE, lambda lane: plan(lane, 1, "1", lane.state)),
    Transition("each waits for itself", "retry", _AWAKE, _RETRYING, lambda lane: wait(lane, 1, LaneState.RETRYING)),
    Transition("each waits, unanswered", "retry", _LOST, _SAME, lambda lane: wait(lane, 1, lane.state)),
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
    Transition("pause", "manage", _AWAKE, _PAUSED, lambda lane: pause(lane, "2", 1)),
    Transition("resume", "manage", _ASLEEP, _AWAKE, lambda lane: resume(lane, "2", LaneState.BLOCKED, 1)[1]),
    Transition("resume, nothing is pending", "manage", _ASLEEP, _ACTIVE, activate),
    Transition("retry now", "manage", _AWAKE, _SAME, lambda lane: retry_now(lane, "2", 1)[1]),
    Transition("skip", "manage", _AWAKE, _SAME, lambda lane: skip(lane, "2", 1)[1]),
    Transition("skip", "manage", _ASLEEP, _SAME, lambda lane: skip(lane, "2", 1)[1]),
    Transition("independent no longer", "manage", _AWAKE | _ASLEEP, _SAME, lambda lane: append_after(lane, 7)),
    Transition("a group begins earlier", "manage", _ACTIVE, _BLOCKED, lane_put),
    Transition("unsubscribe", "manage", _ACTIVE, _REMOVED, lane_put),
    Transition("unsubscribe", "manage", _AWAKE | _ASLEEP, _REMOVED, lambda lane: remove(lane, "2", 1, 1, None)[1]),
)
