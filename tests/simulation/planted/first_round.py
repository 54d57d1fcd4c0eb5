"""Bugs of the first round: fan-out, filter functions, the queue's and the stream's consumers."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

FAILING = Aim(modes=("flapping", "down", "dead"), strategy=Strategy.BACKOFF_RETRY)
RACING = Aim(
    faults=("queue_copy", "queue_visibility", "queue_late_copy"),
    modes=("flapping", "down"),
    strategy=Strategy.BACKOFF_RETRY,
    restless=True,
)
LOSING = Aim(faults=("send_loss", "error"), rate=0.08)
AWAY = Aim(faults=("queue_outage",))
LOST = Aim(faults=("send_loss", "stream_loss"), rate=0.08)
JUDGED = Aim(faults=("judge",), rules=("function drop", "function block"))

RETAINED = (
    "tagcast.repairing.sweep:_parts",
    "expired, topic = await expire_retained(world, swept.progress.topic, ends)",
    'expired, topic = 0, ""',
)
"""The second who would expire what a sleeping lane owes."""

MUTANTS = (
    Mutant(
        "messages are closed before lanes are written",
        "tagcast.delivery.fan_out:_SlicedBatch._deliver",
        "works = [this.deliver_all(",
        "closed = {each: replace(one, is_served=True) for each, one in this.rounds.items()}\n"
        "        await replace(this, rounds=closed).write()\n"
        "        works = [this.deliver_all(",
        FAILING,
    ),
    Mutant(
        "a batch is acknowledged before its messages are written",
        "tagcast.delivery.fan_out:_SlicedBatch._deliver",
        "self.before = this",
        "self.before = replace(this, rows=dict(list(this.rows.items())[1:]))",
    ),
    Mutant(
        "a round ends although a backlog could not be written",
        "tagcast.delivery.fan_out:Slice._plan",
        "for each in came if each.is_served}",
        "for each in came}",
        Aim(faults=("error", "throttle"), rate=0.08, modes=("down", "flapping")),
    ),
    Mutant(
        "what one of many updates did not write counts as written",
        "tagcast.delivery.fan_out:Slice.write",
        "if not is_done",
        "if False",
        Aim(faults=("error", "throttle", "queue_copy"), rate=0.08),
    ),
    Mutant(
        "what the last part of a batch came to is never written",
        "tagcast.delivery.fan_out:fan_out",
        "await batch.write()",
        "pass",
        Aim(parted=1.0),
    ),
    Mutant(
        "a batch that failed is acknowledged",
        "functions.fan_out.app:handle",
        "for name in records if name in again)",
        "for name in ())",
        Aim(faults=("error",), rate=0.08),
    ),
    Mutant(
        "a batch that comes twice joins a backlog twice",
        "tagcast.delivery.fan_out:SubscriptionRound.remainder",
        "self.open()",
        "self.owed()",
        RACING,
    ),
    Mutant(
        "a lane does not name what joined it last",
        "tagcast.rows.lane_transitions:_append_messages",
        ", joined=append_joined(lane.joined, message_ids))",
        ")",
        RACING,
    ),
    Mutant(
        "a lane is blocked over another's row",
        "tagcast.delivery.fan_out:plan_join",
        "lane_transitions.lane_put(blocked)",
        "replace(lane_transitions.lane_put(blocked), expect={})",
        RACING,
    ),
    Mutant(
        "a batch joins a backlog whatever was appended meanwhile",
        "tagcast.rows.lane_transitions:_same_length",
        '"state", "generation", "appended"',
        '"state", "generation"',
        RACING,
    ),
    Mutant(
        "a batch joins a lane that was activated meanwhile",
        "tagcast.rows.lane_transitions:_same_length",
        'return _expect(lane, "state", "generation", "appended")',
        "return {}",
        RACING,
    ),
    Mutant(
        "the sweep looks at a sleeping lane no earlier for what joins it",
        "tagcast.rows.lane_transitions:join",
        "expires_at if lane.wake_at is None else min(lane.wake_at, expires_at)",
        "lane.wake_at",
        Aim(retention_s=60, operations=("pause", "sweep"), modes=("gone",), restless=True, steered=0.6),
        RETAINED,
    ),
    Mutant(
        "a lane that is not active is pushed to",
        "tagcast.delivery.fan_out:SubscriptionRound.may_be_pushed",
        "return lets and not self.failures",
        "return not self.failures",
        FAILING,
    ),
    Mutant(
        "the first failure is not counted",
        "tagcast.delivery.fan_out:_dues",
        "due.failed(failure.past, failure.not_before)",
        "replace(due.failed(failure.past, failure.not_before), attempts=0)",
        Aim(only_these_faults=True, modes=("dead", "down"), strategy=Strategy.BACKOFF_RETRY, operations=("sweep",)),
    ),
    Mutant(
        "messages behind a failed one are pushed",
        "tagcast.pushing.engine:_Sender.may_go_on",
        "self.is_stopped or self.run.is_left",
        "self.run.is_left",
        FAILING,
        ("tagcast.pushing.engine:_Sender.send", "if self.is_stopped or self.run.is_left:", "if self.run.is_left:"),
    ),
    Mutant(
        "any answer is a success",
        "tagcast.pushing.engine:_result",
        "if outcome.delivered:",
        "if outcome.delivered or not outcome.gone:",
        FAILING,
    ),
    Mutant(
        "a redirect is a success",
        "tagcast_aws.endpoints.http:outcome",
        "if 200 <= status <= 299:",
        "if 200 <= status <= 399:",
        Aim(modes=("redirecting",)),
    ),
    Mutant(
        "a 410 is a failure like any other",
        "tagcast_aws.endpoints.http:outcome",
        "status == 410",
        "False",
        Aim(modes=("gone",)),
    ),
    Mutant(
        "a filter function's no is a yes",
        "tagcast.pushing.engine:_apply_verdicts",
        "            if yes:",
        "            if True:",
        JUDGED,
    ),
    Mutant(
        "a filter function that fails lets through",
        "tagcast.pushing.engine:_apply_verdicts",
        "return run.deliveries[: run.deliveries.index(asked[0])]",
        "return run.deliveries",
        JUDGED,
    ),
    Mutant(
        "a failure of a filter function always drops",
        "tagcast.pushing.engine:_apply_verdicts",
        'if function.on_error == "drop":',
        "if True:",
        JUDGED,
    ),
    Mutant(
        "one order of the topic goes through many groups of the queue",
        "tagcast.queues:queue_group",
        "    if ordering is Ordering.TOPIC:\n        return _digest(topic)",
        "    if ordering is Ordering.TOPIC:\n        return message_id",
        RACING,
    ),
    Mutant(
        "the relay sends nothing again",
        "tagcast.repairing.relay:relay",
        "if row.map.waiting or row.packs:",
        "if False:",
        LOSING,
    ),
    Mutant(
        "the relay drops what the queue did not take",
        "tagcast.repairing.relay:relay",
        "        list_unsent(world, entry, expiries[entry])",
        "        pass",
        LOSING,
    ),
    Mutant(
        "the relay reports nothing as failed",
        "functions.relay.app:handle",
        '[{"itemIdentifier": record_id} for record_id in relay(world, arrivals)]',
        '[{"itemIdentifier": record_id} for record_id in relay(world, arrivals)][:0]',
        Aim(faults=("workflow_loss",), modes=("flapping", "down")),
        (
            "tagcast.repairing.overdue:_look",
            "restarted = await world.executor.run(lambda: _restart(world, lane, now))",
            "restarted = 0",
        ),
    ),
    Mutant(
        "the sweep forgets what the queue still does not take",
        "tagcast.repairing.relay:_resend",
        "[row for entry, row in listed if entry not in lost]",
        "[row for _, row in listed]",
        AWAY,
    ),
    Mutant(
        "nobody sends what is listed",
        "tagcast.repairing.relay:_resend",
        "await world.executor.run(partial(sending.send, [entry for entry, _ in listed]))",
        "[entry for entry, _ in listed]",
        AWAY,
    ),
    Mutant(
        "nobody searches for rounds that never ended",
        "tagcast.repairing.search:_send_again",
        "if not entries:",
        "if True:",
        LOST,
    ),
    Mutant(
        "the search forgets how far it came",
        "tagcast.repairing.search:search",
        "        known = replace(known, cursor=found.cursor)\n        if found.cursor is None:\n",
        "        if True:\n",
        LOST,
    ),
)
