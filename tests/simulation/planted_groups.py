"""Bugs of pull groups, each with the history in which it was caught last."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

VISIT, ANSWERING = "tagcast.pulling.pull:_Visit", "tagcast.pulling.answering"
GROUP_BUGS: dict[str, tuple[Mutant, int]] = {
    mutant.name: (mutant, seed)
    for mutant, seed in (
        (
            Mutant(
                "what the queue did not take_permit counts as handed over",
                "tagcast.pushing.engine:_enqueue",
                "if message.message_id not in lost:",
                "if True:",
            ),
            3,
        ),
        (
            Mutant(
                "the first round does not say what it handed over",
                "tagcast.delivery.fan_out:Slice._plan",
                "closing, its, enqueued & within)",
                "closing, its, frozenset())",
            ),
            2,
        ),
        (
            Mutant(
                "a worker does not say what it handed over",
                "tagcast.delivery.ending:enqueue_due",
                "*beside, enqueued_put(row, ordinal))",
                "*beside)",
            ),
            2,
        ),
        (
            Mutant(
                "what stands in a backlog is not listed as retained",
                "tagcast.rows.log:round_writes",
                "beside.append(_retained_put(row))",
                "pass",
            ),
            2,
        ),
        (
            Mutant(
                "a pull gives out what has ended",
                f"{VISIT}.hand_out",
                "self.group.ordinal not in row.map.owed",
                "False",
            ),
            11,
        ),
        (
            Mutant(
                "a pull gives out what is past its life",
                f"{VISIT}.hand_out",
                "if message.is_expired(now):",
                "if False:",
            ),
            4,
        ),
        (
            Mutant(
                "retries never end",
                f"{VISIT}.hand_out",
                "if failed > self.group.settings.retry.max_retries:",
                "if False:",
            ),
            6,
        ),
        (Mutant("a handle outlives its invisible time", f"{VISIT}.hand_out", "* 1000", "* 2000"), 6),
        (
            Mutant(
                "what a member gets goes from the queue",
                f"{VISIT}.take",
                "if not self.hand_out(",
                "if self.hand_out(",
            ),
            3,
        ),
        (
            Mutant(
                "a paused group is pulled from",
                "tagcast.pulling.pull:pull",
                "if lane is not None and lane.state in (LaneState.PAUSED, LaneState.REMOVED):",
                "if False:",
            ),
            3,
        ),
        (
            Mutant(
                "a handle is good when its time is over",
                f"{ANSWERING}:_standing",
                "if now >= handle.until:",
                "if False:",
            ),
            6,
        ),
        (
            Mutant(
                "an extension shows what it should hide",
                f"{ANSWERING}:extend",
                "{each.handle.receipt: seconds for each in good}",
                "{each.handle.receipt: 0 for each in good}",
            ),
            26,
        ),
        (
            Mutant(
                "an older number of pulls is taken for the last",
                "tagcast.rows.due:last_pull",
                "if known is None or known.attempts < pulls:",
                "if known is None:",
            ),
            3,
        ),
        (
            Mutant(
                "what a removed group was owed counts as delivered",
                "tagcast.delivery.cancelling:_cancel",
                "EntryState.CANCELLED, Entry(EntryState.CANCELLED)",
                "EntryState.DELIVERED, Entry(EntryState.DELIVERED)",
            ),
            3,
        ),
        (
            Mutant(
                "what is given back long after its pull comes at once",
                f"{ANSWERING}:give_back",
                "(world.clock.now() - each.handle.pulled_at) // 1000",
                "(world.clock.now() - each.handle.pulled_at)",
            ),
            11,
        ),
        (
            Mutant(
                "of two groups that discard a message one makes a letter",
                "tagcast.delivery.dead_letter:publish_dead_letter",
                "{subscription.subscription_id} {message.message_id}",
                "{message.message_id}",
            ),
            27,
        ),
        (
            Mutant(
                "a letter is published as often as it is asked for",
                "tagcast.delivery.dead_letter:publish_dead_letter",
                "publish_by_relay(world, topic, draft, once)",
                "publish_by_relay(world, topic, draft, replace(once, key=world.dice.unique_id(world.clock.now())))",
            ),
            260,
        ),
        (
            Mutant(
                "a discard ends before its letter is published",
                "tagcast.pulling.group:end_after_pull",
                "    publish_dead_letter(",
                "    end_pulled(world, group, row, entry)\n    publish_dead_letter(",
            ),
            41,
        ),
        (
            Mutant(
                "a letter is written for what expired, too",
                "tagcast.delivery.dead_letter:has_dead_letter",
                " and settings.dead_letter_expired",
                "",
            ),
            4,
        ),
        (
            Mutant(
                "retries that were raised do not count for what was pulled before",
                f"{VISIT}.hand_out",
                "failed > self.group.settings.retry.max_retries",
                "failed > min(self.group.settings.retry.max_retries, 1)",
            ),
            6,
        ),
        (
            Mutant(
                "what is owed to nobody any more is not let go",
                "tagcast.delivery.ending:complete",
                "if row is None or not row.is_owed or row.map.owed:",
                "if True:",
            ),
            0,
        ),
    )
}
