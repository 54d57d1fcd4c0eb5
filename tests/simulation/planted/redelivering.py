"""Bugs of redelivery, of the strategies, of operators' commands and of the sweep."""

from __future__ import annotations

from dataclasses import replace

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.first_round import RETAINED
from tests.simulation.planted.mutant import Mutant

FAILING = Aim(modes=("flapping", "down"), strategy=Strategy.BACKOFF_RETRY, restless=True)
DRAINING = Aim(
    only_these_faults=True,
    modes=("flapping",),
    rules=("all",),
    operations=("sweep", "retry_now"),
    strategy=Strategy.BACKOFF_RETRY,
    restless=True,
    steered=0.7,
)
RACING = Aim(
    faults=("task_copy", "workflow_loss", "stall"),
    modes=("flapping", "down", "slow"),
    operations=("repush", "retry_now", "pause", "resume", "skip_head", "sweep"),
    restless=True,
)
BY_HAND = Aim(
    modes=("down", "gone"),
    operations=("repush", "retry_now", "pause", "resume", "skip_head", "unsubscribe"),
    restless=True,
)
HERDED = Aim(
    faults=("herd",),
    modes=("flapping", "down"),
    operations=("retry_now", "skip_head", "pause", "resume", "unsubscribe", "sweep"),
    restless=True,
)
SLEEPING = Aim(retention_s=60, modes=("gone", "dead"), operations=("pause", "sweep"))
DEAD = Aim(modes=("dead",), retention_s=900)

LIMITED = Aim(
    faults=("queue_copy", "queue_visibility"),
    only_these_faults=True,
    modes=("healthy", "flapping"),
    max_per_second=0.5,
    restless=True,
)

ASKING = Aim(
    faults=("endpoint",),
    only_these_faults=True,
    modes=("throttling", "busy"),
    strategy=Strategy.EXPONENTIAL_DECAY_RETRY,
    retention_s=900,
    operations=("sweep",),
    steered=0.0,
    batches=True,
    batched=0.0,
)
"""Many failures beside each other, some of which ask for a time."""

MUTANTS = (
    Mutant(
        "a head is claimed whoever holds it",
        "tagcast.rows.lane_transitions:claim",
        "_same_plan(lane)",
        "{}",
        RACING,
    ),
    Mutant(
        "a stale execution goes on with the new generation",
        "tagcast.delivery.redelivery:_work",
        "lane.generation != task.generation or ",
        "",
        RACING,
    ),
    Mutant(
        "a stale claim is not fenced",
        "tagcast.rows.lane_transitions:_same_claim",
        '"state", "generation", "claim"',
        '"state", "generation"',
        Aim(faults=("stall",), modes=("slow", "down"), operations=("sweep",), restless=True, steered=0.7),
    ),
    Mutant(
        "a stale worker is not fenced at all",
        "tagcast.rows.lane_transitions:_same_claim",
        '"state", "generation", "claim"',
        '"state"',
        RACING,
    ),
    Mutant(
        "a lane is activated whatever was appended meanwhile",
        "tagcast.delivery.lease:LaneLease.finish",
        "lane_transitions.activate(replace(self.lane, appended=appended))",
        "replace(lane_transitions.activate(self.lane), expect=self.check().expect)",
        DRAINING,
    ),
    Mutant(
        "the length of a backlog is read after the backlog",
        "tagcast.delivery.redelivery:_step",
        "    appended = await lease.verify()\n    dues = await _front(lease, subscription, streak)\n",
        "    dues = await _front(lease, subscription, streak)\n    appended = await lease.verify()\n",
        DRAINING,
    ),
    Mutant(
        "an end is written by whoever pushed",
        "tagcast.delivery.lease:LaneLease.end_delivery",
        "due, entry, self.check(), known=known",
        "due, entry, known=known",
        RACING,
    ),
    Mutant(
        "a due row goes without its entry",
        "tagcast.delivery.ending:end_due",
        "write_all(store, (*gone, *end_writes(row, {ordinal: entry})))",
        "write_all(store, gone)",
        FAILING,
    ),
    Mutant(
        "a stale due row is pushed",
        "tagcast.delivery.retrying:_read_pending",
        "if row is None or not row.map.is_with_lane(ordinal):",
        "if row is None:",
        Aim(faults=("queue_copy", "queue_late_copy", "queue_visibility"), modes=("flapping", "down")),
    ),
    Mutant(
        "the counter starts anew at each redelivery",
        "tagcast.delivery.retrying:_run",
        "(each.row.message, each.due.attempts)",
        "(each.row.message, 0)",
        FAILING,
    ),
    Mutant(
        "a retry extends the life",
        "tagcast.rows.due:PendingDelivery.failed",
        "attempts=past.number,",
        "attempts=past.number, expires_at=self.expires_at + 60_000,",
        FAILING,
    ),
    Mutant(
        "a retry leaves a second due row",
        "tagcast.delivery.retrying:_Outcomes._write_failure",
        "due_change(due, due.failed(failure.past, failure.not_before))",
        "replace(due_change(replace(due, position=due.position + '0'), due.failed(failure.past, None)), expect={})",
        FAILING,
    ),
    Mutant(
        "a failure moves the lane of whoever holds it",
        "tagcast.delivery.retrying:_Outcomes._rescheduled",
        "return plan(state)",
        "return replace(plan(state), expect={})",
        RACING,
    ),
    Mutant(
        "what failed earlier is attempted as soon as it becomes the head",
        "tagcast.delivery.redelivery:head_due_at",
        "if head.attempts and not (streak.answering and is_its_turn):",
        "if False:",
        Aim(
            faults=("judge",),
            rules=("function drop", "function block"),
            modes=("dead", "flapping"),
            strategy=Strategy.BACKOFF_RETRY,
        ),
    ),
    Mutant(
        "a worker never learns of a filter function that came after its claim",
        "tagcast.delivery.redelivery:_step",
        "any(due.unjudged for due in dues) and",
        "False and",
        Aim(
            modes=("slow", "flapping"),
            operations=("refilter",),
            strategy=Strategy.BACKOFF_RETRY,
            only_these_faults=True,
        ),
    ),
    Mutant(
        "redelivery knows of no rate",
        "tagcast.pushing.engine:_take_permit",
        "rate is None or not run.deliveries",
        "True",
        LIMITED,
    ),
    Mutant(
        "two workers take the same attempts of a rate",
        "tagcast.rows.rate:free_update",
        "expect=expect",
        "expect={}",
        LIMITED,
    ),
    Mutant(
        "what is over the rate is pushed by the first round",
        "tagcast.pushing.engine:_take_permit",
        "rate is None or not run.deliveries",
        "True",
        LIMITED,
    ),
    Mutant(
        "attempts of a rate begin at once",
        "tagcast.pushing.engine:_Sender.turn",
        "await self.world.clock.pause(wait_s)",
        "pass",
        LIMITED,
    ),
    Mutant(
        "a failed attempt makes those before it forgotten",
        "tagcast.rows.due:PendingDelivery.failed",
        "history=(*self.history, past)",
        "history=(past,)",
        Aim(modes=("dead", "down")),
    ),
    Mutant(
        "what is past its life is pushed",
        "tagcast.pushing.engine:drop_expired",
        "if message.is_expired(now):",
        "if False:",
        Aim(retention_s=60, modes=("dead", "down")),
    ),
    Mutant(
        "every subscriber receives concurrently",
        "tagcast.settings:SubscriptionSettings.window",
        "return 1 if self.keeps_order else DECAY_WINDOW",
        "return DECAY_WINDOW",
        FAILING,
    ),
    Mutant(
        "delays double too early",
        "tagcast.pushing.retry:delay_s",
        "first_s << (failures - 1)",
        "first_s << failures",
        Aim(modes=("dead",), strategy=Strategy.EXPONENTIAL_DECAY_RETRY),
    ),
    Mutant(
        "an ordered head waits as long each time",
        "tagcast.pushing.retry:delay_s",
        " and policy.max_retries < RETRIES_FOR_LIFE",
        "",
        replace(DEAD, for_life=1.0, strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "the waits of an ordered head grow without a bound",
        "tagcast.pushing.retry:delay_s",
        "min(policy.interval_s_max, first_s << (failures - 1))",
        "first_s << (failures - 1)",
        replace(DEAD, for_life=1.0, strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "one retry too many",
        "tagcast.pushing.retry:delay_s",
        "if failures > policy.max_retries:",
        "if failures > policy.max_retries + 1:",
        DEAD,
    ),
    Mutant(
        "one retry too few",
        "tagcast.pushing.retry:delay_s",
        "if failures > policy.max_retries:",
        "if failures >= policy.max_retries:",
        DEAD,
    ),
    Mutant(
        "Retry-After is unbounded",
        "tagcast.pushing.retry:after_failure",
        "if next_attempt_at >= expires_at:",
        "if next_attempt_at >= expires_at and retry_after_s is None:",
        Aim(modes=("busy", "throttling")),
    ),
    Mutant(
        "Retry-After is not heard",
        "tagcast.pushing.retry:after_failure",
        "if retry_after_s is not None:",
        "if False:",
        Aim(modes=("busy", "throttling"), retention_s=900),
    ),
    Mutant(
        "Retry-After is heard of a head only",
        "tagcast.delivery.redelivery:head_due_at",
        "min(head.not_before or 0, head.expires_at)",
        "0",
        ASKING,
    ),
    Mutant(
        "what does not want to be tried yet is tried beside others",
        "tagcast.delivery.redelivery:front",
        "now >= (due.not_before or 0)",
        "True",
        ASKING,
    ),
    Mutant(
        "Retry-After is forgotten on the way into a backlog",
        "tagcast.delivery.fan_out:_dues",
        "due.failed(failure.past, failure.not_before)",
        "due.failed(failure.past, None)",
        ASKING,
    ),
    Mutant(
        "a removed lane is paused",
        "tagcast.operating.lanes:pause",
        "lane, now = _unless_removed(_lane(world, subscription), name), world",
        "lane, now = _lane(world, subscription), world",
        Aim(operations=("pause", "unsubscribe"), restless=True, steered=0.0),
    ),
    Mutant(
        "a lane is resumed whatever was appended meanwhile",
        "tagcast.operating.lanes:resume",
        "lane_transitions.activate(lane)",
        "lane_transitions.replace(lane_transitions.activate(lane), expect={})",
        Aim(
            only_these_faults=True,
            operations=("pause", "resume"),
            modes=("healthy",),
            restless=True,
            steered=0.0,
            rules=("all",),
        ),
    ),
    Mutant(
        "a pause is a plan",
        "tagcast.rows.lane_transitions:pause",
        '_update(paused, _same_generation(lane), "state", "generation", "wake_at")',
        "_update(_set_next_attempt(paused, now), _same_generation(lane), "
        '"state", "generation", "wake_at", "next_attempt_at")',
        BY_HAND,
    ),
    Mutant(
        "a head is skipped over another's lane",
        "tagcast.rows.lane_transitions:skip",
        "_update(skipped, _same_generation(lane), *sets)",
        "_update(skipped, {}, *sets)",
        Aim(operations=("skip_head", "unsubscribe"), modes=("down", "dead"), restless=True, steered=0.0),
    ),
    Mutant(
        "a skipped head stays owed",
        "tagcast.operating.lanes:_skip",
        "end_due(world.store, lane.topic, head, cancelled, write)",
        'end_due(world.store, "", head, cancelled, write)',
        BY_HAND,
    ),
    Mutant(
        "the sweep believes its index and restarts whatever that says",
        "tagcast.repairing.overdue:_look",
        "partial(stored.lane, world.store, indexed.topic, indexed.subscription_id)",
        "lambda: indexed",
        Aim(faults=("workflow_loss", "stale_index"), modes=("flapping", "down"), operations=("sweep", "retry_now")),
        ("tagcast.rows.lane_transitions:restart", "_unchanged(lane)", "{}"),
    ),
    Mutant(
        "nobody wakes a lane whose execution is lost",
        "tagcast.repairing.overdue:_look",
        "restarted = await world.executor.run(lambda: _restart(world, lane, now))",
        "restarted = 0",
        Aim(faults=("workflow_loss",), modes=("flapping", "down")),
    ),
    Mutant(
        "the sweep expires a sleeping backlog at once",
        "tagcast.repairing.expiry:_turn",
        "over = [due for due in dues if due.expires_at <= now]",
        "over = dues",
        SLEEPING,
    ),
    Mutant(
        "the sweep looks at a sleeping lane once",
        "tagcast.repairing.expiry:_turn",
        "_wake_next(world, lane, backlog.earliest)",
        "_wake_next(world, lane, None)",
        SLEEPING,
        RETAINED,
    ),
    Mutant(
        "the sweep takes a due row without its entry",
        "tagcast.repairing.expiry:expire_due",
        "end_due(world.store, lane.topic, due,",
        'end_due(world.store, "", due,',
        SLEEPING,
    ),
    Mutant(
        "the sweep forgets attempts",
        "tagcast.repairing.expiry:_expired_entry",
        "else known.entry(EntryState.EXPIRED)",
        "else Entry(EntryState.EXPIRED)",
        Aim(retention_s=60, modes=("gone", "dead", "down"), operations=("pause", "sweep")),
    ),
    Mutant(
        "the sweep puts off a sleeping lane that was joined meanwhile",
        "tagcast.rows.lane_transitions:wake_next",
        "_unchanged(lane)",
        "{}",
        Aim(retention_s=60, operations=("pause", "sweep"), modes=("gone",), restless=True, steered=0.6),
        (
            "tagcast.repairing.sweep:_parts",
            "expired, topic = await expire_retained(world, swept.progress.topic, ends)",
            'expired, topic = 0, ""',
        ),
    ),
    Mutant(
        "the sweep expires what is listed as retained",
        "tagcast.repairing.expiry:_expire_list",
        "if each.expires_at <= over_at",
        "if True",
        Aim(modes=("dead", "down"), operations=("sweep",)),
    ),
)
