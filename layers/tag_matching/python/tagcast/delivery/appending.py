"""The plan of one transaction: what a batch still owes a subscription joins its backlog.

See docs/architecture.md, The first round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import ceil

from tagcast.model import LaneState, Message, Subscription
from tagcast.ports import Write
from tagcast.pushing.attempts import Failure, lane_state_after
from tagcast.pushing.rate_limit import RATE
from tagcast.pushing.verdicts import is_judged_by_function
from tagcast.rows.due import PLACES, OwedDelivery, due_put, position
from tagcast.rows.lane import Lane, join_update, joined_by, lane_put


@dataclass(frozen=True, slots=True)
class Appending:
    """The writes, to be made together or not at all, and the lane whose workflow has to be started after them."""

    writes: tuple[Write, ...]
    started: Lane | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """What a batch could not end for one subscription: *messages* in their order, and what came of them so far."""

    messages: Sequence[Message]
    failures: Mapping[str, Failure]
    judged: Set[str]
    """Those to which the subscription's filter function has said yes."""
    free_at: int | None = None
    """When the next attempt may begin, if anything keeps it from beginning now."""
    reason: str | None = None
    """What does."""


def appending(subscription: Subscription, lane: Lane | None, left: Left, now: int, generation: str) -> Appending:
    """Plan how *left* joins the backlog of *subscription*; *lane* is its row as read, None while it is active.

    *generation* is the lane's new one if it becomes blocked. The writes lose their condition if the lane changed
    since it was read.
    """
    dues = _dues(subscription, lane, left)
    joining = [due_put(due) for due in dues]
    names, earliest = [due.message_id for due in dues], min(due.expires_at for due in dues)
    if lane is not None:
        return Appending((*joining, join_update(lane, names, earliest)))
    head = left.failures.get(left.messages[0].message_id)
    next_attempt_at = max(now, left.free_at or 0) if head is None else head.next_attempt_at
    state = lane_state_after(subscription, left.failures.values())
    asleep = state is LaneState.SUSPENDED
    blocked = Lane(
        topic=subscription.topic,
        subscription_id=subscription.subscription_id,
        state=state,
        generation=generation,
        appended=ceil(len(dues) / PLACES),
        claim=0,
        next_attempt_at=next_attempt_at,
        wake_at=earliest if asleep else next_attempt_at,
        joined=joined_by(b"", names),
        planned_for=None if head is None else left.messages[0].message_id,
    )
    return Appending((*joining, lane_put(blocked)), None if asleep else blocked)


def _dues(subscription: Subscription, lane: Lane | None, left: Left) -> list[OwedDelivery]:
    by_function, dues = is_judged_by_function(subscription), []
    waits = not left.failures and (lane is None or lane.state is LaneState.BLOCKED)
    by_default = None if subscription.settings.max_per_second is None else RATE
    reason = left.reason or by_default if waits else None
    for place, message in enumerate(left.messages):
        failure = left.failures.get(message.message_id)
        dues.append(
            OwedDelivery(
                subscription_id=subscription.subscription_id,
                position=position(0 if lane is None else lane.appended, place),
                message_id=message.message_id,
                attempts=0 if failure is None else failure.attempts,
                expires_at=message.expires_at,
                last_attempt_at=None if failure is None else failure.ended_at,
                last_outcome=reason if failure is None else failure.outcome.detail,
                unjudged=by_function and message.message_id not in left.judged,
                history=() if failure is None else (failure.past,),
                not_before=None if failure is None else failure.not_before,
            )
        )
    return dues
