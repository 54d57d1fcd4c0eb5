"""Bugs of pull groups, each with the history in which it was caught last."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

VISIT, ANSWERING = "tagcast.pulling.pull:_Visit", "tagcast.pulling.answering"
GROUP_BUGS: dict[str, tuple[Mutant, int]] = {
    mutant.name: (mutant, seed)
    for mutant, seed in (
        (
            Mutant(
                "what the queue did not take counts as handed over",
                "tagcast.pushing.handing:hand_over",
                "if message.message_id not in lost:",
                "if True:",
            ),
            0,
        ),
        (
            Mutant(
                "the first round does not say what it handed over",
                "tagcast.delivery.round_end:RoundEnd._ending",
                "handed=handed)",
                "handed=frozenset())",
            ),
            0,
        ),
        (
            Mutant(
                "a worker does not say what it handed over",
                "tagcast.delivery.outcomes:_ending",
                "handed={ordinal}",
                "handed=frozenset()",
            ),
            2,
        ),
        (
            Mutant(
                "what was handed over is listed as retained",
                "tagcast.state_map:StateMap.is_retained",
                "bool(self.owed - self.handed)",
                "bool(self.owed)",
            ),
            0,
        ),
        (
            Mutant(
                "a pull gives out what has ended",
                f"{VISIT}.hand_out",
                "self.group.ordinal not in row.map.owed",
                "False",
            ),
            0,
        ),
        (
            Mutant(
                "a pull gives out what is past its life",
                f"{VISIT}.hand_out",
                "if message.is_expired(now):",
                "if False:",
            ),
            0,
        ),
        (
            Mutant(
                "retries never end",
                f"{VISIT}.hand_out",
                "if failed > self.group.settings.retry.max_retries:",
                "if False:",
            ),
            3,
        ),
        (Mutant("a handle outlives its invisible time", f"{VISIT}.hand_out", "* 1000", "* 2000"), 0),
        (
            Mutant(
                "what a member gets goes from the queue",
                f"{VISIT}.take",
                "if not self.hand_out(",
                "if self.hand_out(",
            ),
            0,
        ),
        (
            Mutant(
                "a paused group is pulled from",
                "tagcast.pulling.pull:pull",
                "if lane is not None and lane.state in (LaneState.PAUSED, LaneState.REMOVED):",
                "if False:",
            ),
            2,
        ),
        (
            Mutant(
                "a handle is good when its time is over",
                f"{ANSWERING}:_standing",
                "if now >= handle.until:",
                "if False:",
            ),
            0,
        ),
        (
            Mutant(
                "an extension shows what it should hide",
                f"{ANSWERING}:extend",
                "{each.handle.receipt: seconds for each in good}",
                "{each.handle.receipt: 0 for each in good}",
            ),
            19,
        ),
        (
            Mutant(
                "an older number of pulls is taken for the last",
                "tagcast.rows.pulled:last_pull",
                "if known is None or known.attempts < pulls:",
                "if known is None:",
            ),
            3,
        ),
        (
            Mutant(
                "what a removed group was owed counts as delivered",
                "tagcast.delivery.emptying:_cancel",
                "EntryState.CANCELLED",
                "EntryState.DELIVERED",
            ),
            13,
        ),
    )
}
