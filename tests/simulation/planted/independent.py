"""Bugs of deliveries of which none waits for another."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

ALONE = Aim(
    strategy=Strategy.EXPONENTIAL_DECAY_RETRY,
    rules=("all",),
    modes=("refusing", "flapping", "down"),
    retention_s=900,
    independent=1.0,
    batched=0.0,
)
CALM = Aim(
    faults=("endpoint",),
    only_these_faults=True,
    strategy=Strategy.EXPONENTIAL_DECAY_RETRY,
    rules=("all",),
    modes=("refusing", "flapping", "slow", "hanging"),
    operations=("sweep",),
    retention_s=900,
    restless=True,
    independent=1.0,
    batched=0.0,
)
ANYHOW = Aim(strategy=Strategy.EXPONENTIAL_DECAY_RETRY, independent=1.0)

MUTANTS = (
    Mutant(
        "one message that is refused stops the others",
        "tagcast.pushing.engine:_Sender.stops_after",
        "return not (failure.outcome.refused and self.run.subscription.settings.is_independent)",
        "return True",
        ALONE,
    ),
    Mutant(
        "a refusal loses contact",
        "tagcast.pushing.engine:independent_state_after",
        "if not got_through and not all(failure.outcome.refused for failure in failures):",
        "if failures and not got_through:",
        ALONE,
    ),
    Mutant(
        "contact is never lost",
        "tagcast.pushing.engine:independent_state_after",
        "if not got_through and not all(failure.outcome.refused for failure in failures):",
        "if not got_through and not failures:",
        ALONE,
    ),
    Mutant(
        "a first round pushes although contact is lost",
        "tagcast.delivery.fan_out:SubscriptionRound.may_be_pushed",
        "self.lane.state is LaneState.RETRYING",
        "self.lane.state in (LaneState.RETRYING, LaneState.LOST_CONTACT)",
        ALONE,
    ),
    Mutant(
        "an independent delivery is tried whenever its lane is",
        "tagcast.pushing.retry:retry_at",
        "return min(planned_at, due.expires_at)",
        "return 0",
        ALONE,
    ),
    Mutant(
        "a failed delivery keeps its place in the backlog",
        "tagcast.delivery.retrying:_Outcomes._move_failures",
        ".planned(failure.next_attempt_at)",
        ".planned(int(due.position))",
        ALONE,
    ),
    Mutant(
        "what is due sooner waits for what is due later",
        "tagcast.delivery.fan_out:_plan_independent_join",
        "(state is LaneState.RETRYING and next_at <= due_at)",
        "state is LaneState.RETRYING",
        CALM,
    ),
    Mutant(
        "what joins a claimed lane is not told to its worker",
        "tagcast.rows.lane_transitions:join_retrying",
        "_unplanned(lane)",
        "_same_length(lane)",
        CALM,
    ),
    Mutant(
        "a worker plans without what joined behind its last look",
        "tagcast.rows.lane_transitions:wait",
        "_unchanged(lane)",
        "_same_claim(lane)",
        CALM,
    ),
    Mutant(
        "a push that is under way is made by others, too",
        "tagcast.delivery.fan_out:_dues",
        "replace(due, not_before=this.held_until).planned(this.held_until)",
        "due.planned(now)",
        CALM,
    ),
    Mutant(
        "a delivery that somebody else ended is moved all the same",
        "tagcast.rows.due:due_reschedule",
        "return due_delete_as_read(known), due_put(changed)",
        "return due_delete(known), due_put(changed)",
        ANYHOW,
    ),
)
