"""Bugs of redelivery, of the strategies, of operators' commands and of the sweep."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
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
SLEEPING = Aim(retention_s=60, modes=("gone", "dead"), operations=("pause", "sweep"))
DEAD = Aim(modes=("dead",), retention_s=900)

MUTANTS = (
    Mutant(
        "a head is claimed whoever holds it",
        "tagcast.redelivery:_Worker.claim",
        "self.world.store.write(self.move(taken))",
        "self.world.store.write(self.move(taken, {}))",
        RACING,
    ),
    Mutant(
        "a stale execution goes on with the new generation",
        "tagcast.redelivery:_Worker.work",
        "if lane is None or lane.generation != self.task.generation:",
        "if lane is None:",
        RACING,
    ),
    Mutant(
        "a stale claim is not fenced",
        "tagcast.redelivery:_Worker.mine",
        '"generation": lane.generation, "claim": lane.claim}',
        '"generation": lane.generation}',
        RACING,
    ),
    Mutant(
        "a stale worker is not fenced at all",
        "tagcast.redelivery:_Worker.mine",
        'return {"state": lane.state.value, "generation": lane.generation, "claim": lane.claim}',
        'return {"state": lane.state.value}',
        RACING,
    ),
    Mutant(
        "a lane is activated whatever was appended meanwhile",
        "tagcast.redelivery:_Worker.finish",
        '{**self.mine(), "appended": appended}',
        "self.mine()",
        DRAINING,
    ),
    Mutant(
        "the length of a backlog is read after the backlog",
        "tagcast.redelivery:_Worker.step",
        "        appended = self.appended()\n        dues = self.read_dues(subscription)\n",
        "        dues = self.read_dues(subscription)\n        appended = self.appended()\n",
        DRAINING,
    ),
    Mutant(
        "an end is written by whoever pushed",
        "tagcast.redelivery:_Worker.settle",
        "                Check(self.held.key, self.mine()),\n",
        "",
        RACING,
    ),
    Mutant(
        "a due row goes without its entry",
        "tagcast.redelivery:_Worker.settle",
        "                *map_writes(before, before.settled({ordinal: entry})),\n",
        "",
        FAILING,
    ),
    Mutant(
        "a phantom is pushed",
        "tagcast.redelivery:_Worker.owed_message",
        "if row is None or ordinal_of(due.subscription_id) not in row.map.owed:",
        "if row is None:",
        Aim(faults=("queue_copy", "queue_late_copy", "queue_visibility"), modes=("flapping", "down")),
    ),
    Mutant(
        "the counter starts anew at each redelivery",
        "tagcast.redelivery:_Worker.attempt",
        "deliveries.append((message, due.attempts))",
        "deliveries.append((message, 0))",
        FAILING,
    ),
    Mutant(
        "a retry extends the life",
        "tagcast.redelivery:_Worker.write_failure",
        "attempts=failure.attempts, last_attempt_at",
        "attempts=failure.attempts, expires_at=due.expires_at + 60_000, last_attempt_at",
        FAILING,
    ),
    Mutant(
        "a retry leaves a second due row",
        "tagcast.redelivery:_Worker.write_failure",
        'Put(due.key, due_row(changed), {"attempts": due.attempts})',
        'Put(replace(due, position=due.position + "0").key, due_row(changed))',
        FAILING,
    ),
    Mutant(
        "a failure moves the lane of whoever holds it",
        "tagcast.redelivery:_Worker.rescheduled",
        "return self.move(lane)",
        "return self.move(lane, {})",
        RACING,
    ),
    Mutant(
        "what failed earlier is attempted as soon as it becomes the head",
        "tagcast.redelivery:_Worker.step",
        "if not self.answering and dues[0].attempts:",
        "if False:",
        Aim(faults=("queue_copy",), modes=("dead",), retention_s=60, strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "a worker never learns of a filter function that came after its claim",
        "tagcast.redelivery:_Worker.step",
        "any(due.unjudged for due in dues):",
        "False:",
        Aim(modes=("slow", "flapping"), operations=("refilter",), strategy=Strategy.BACKOFF_RETRY),
    ),
    Mutant(
        "what is past its life is pushed",
        "tagcast.attempts:_Course.is_over",
        "if not message.is_expired(self.world.clock.now()):",
        "if True:",
        Aim(retention_s=60, modes=("dead", "down")),
    ),
    Mutant(
        "every subscriber receives concurrently",
        "tagcast.model:Subscription.window",
        "return 1 if self.retry.strategy is Strategy.BACKOFF_RETRY else DECAY_WINDOW",
        "return DECAY_WINDOW",
        FAILING,
    ),
    Mutant(
        "delays double too early",
        "tagcast.retry:delay_s",
        "1 << min(failures - 1, 9)",
        "1 << min(failures, 9)",
        Aim(modes=("dead",), strategy=Strategy.EXPONENTIAL_DECAY_RETRY),
    ),
    Mutant(
        "one retry too many",
        "tagcast.retry:delay_s",
        "if failures > policy.max_retries:",
        "if failures > policy.max_retries + 1:",
        DEAD,
    ),
    Mutant(
        "one retry too few",
        "tagcast.retry:delay_s",
        "if failures > policy.max_retries:",
        "if failures >= policy.max_retries:",
        DEAD,
    ),
    Mutant(
        "Retry-After is unbounded",
        "tagcast.retry:after_failure",
        "if next_attempt_at >= expires_at:",
        "if next_attempt_at >= expires_at and retry_after_s is None:",
        Aim(modes=("busy", "throttling")),
    ),
    Mutant(
        "Retry-After is not heard",
        "tagcast.retry:after_failure",
        "if retry_after_s is not None:",
        "if False:",
        Aim(modes=("busy", "throttling"), retention_s=900),
    ),
    Mutant(
        "a removed lane is paused",
        "tagcast.lanes:_change",
        "lane = _unless_removed(_read(world, subscription), name)",
        "lane = _read(world, subscription)",
        Aim(operations=("pause", "unsubscribe"), restless=True, steered=0.0),
    ),
    Mutant(
        "a lane is resumed whatever was appended meanwhile",
        "tagcast.lanes:resume",
        "Delete(lane.key, lane.as_read())",
        "Delete(lane.key)",
        Aim(operations=("pause", "resume"), modes=("healthy",), restless=True),
    ),
    Mutant(
        "a head is skipped over another's lane",
        "tagcast.lanes:_skip",
        "Put(lane.key, lane_row(moved), lane.as_read())",
        "Put(lane.key, lane_row(moved))",
        BY_HAND,
    ),
    Mutant(
        "a skipped head stays owed",
        "tagcast.lanes:_skip",
        "(*writes, *map_writes(before, before.settled({subscription.ordinal: entry})))",
        "writes",
        BY_HAND,
    ),
    Mutant(
        "the sweep believes its index and restarts whatever that says",
        "tagcast.sweep:sweep",
        "lane = _current(world, lane_of(row))",
        "lane = lane_of(row)",
        Aim(faults=("workflow_loss", "stale_index"), modes=("flapping", "down"), operations=("sweep", "retry_now")),
        ("tagcast.sweep:_restart", "expect=lane.as_read()", "expect={}"),
    ),
    Mutant(
        "nobody wakes a lane whose execution is lost",
        "tagcast.sweep:sweep",
        "elif lane.wake_at <= now - grace:",
        "elif False:",
        Aim(faults=("workflow_loss",), modes=("flapping", "down")),
    ),
    Mutant(
        "the sweep expires a sleeping backlog at once",
        "tagcast.sweep:_expire_backlog",
        "over = [due for due in dues if due.expires_at <= now]",
        "over = dues",
        SLEEPING,
    ),
    Mutant(
        "the sweep looks at a sleeping lane once",
        "tagcast.sweep:_expire_backlog",
        "replace(lane, wake_at=wake_at)",
        "replace(lane, wake_at=None)",
        SLEEPING,
    ),
    Mutant(
        "the sweep takes a due row without its entry",
        "tagcast.sweep:_expire_due",
        "(Delete(due.key), *map_writes(before, before.settled({ordinal: entry})))",
        "(Delete(due.key),)",
        SLEEPING,
    ),
    Mutant(
        "the sweep expires what is listed as retained",
        "tagcast.sweep:_expire_retained",
        'if cast("int", row["expires_at"]) <= now:',
        "if True:",
        Aim(modes=("dead", "down"), operations=("sweep",)),
    ),
)
