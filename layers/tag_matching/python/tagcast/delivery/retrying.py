"""Attempts on what stands first in a backlog: read what is still owed, push it, write what came of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.backlog import Streak
from tagcast.delivery.lane_hold import LaneHold
from tagcast.delivery.outcomes import Outcomes
from tagcast.errors import ConditionLostError
from tagcast.model import Entry, EntryState, LaneState, Subscription
from tagcast.ports import Write
from tagcast.pushing.attempts import Delivery, Failure, Progress, lane_state_after
from tagcast.pushing.circuit import CIRCUIT, Passage
from tagcast.pushing.course import Share, take_requests
from tagcast.pushing.push_slots import PushSlots
from tagcast.pushing.verdicts import attempt_judged, judging_s
from tagcast.rows.due import OwedDelivery, due_change
from tagcast.rows.message import MessageRow
from tagcast.settings import UNVERIFIED


class Retried(Enum):
    """What came of attempts on the front of a backlog."""

    WRITTEN = auto()
    """Whatever was attempted has ended; more may stand behind it."""
    PLANNED = auto()
    """The head failed, and its next attempt is planned."""
    OVERTAKEN = auto()
    """They were made, but a condition of what was to be written of them was lost."""


async def retry(
    hold: LaneHold, subscription: Subscription, dues: Sequence[OwedDelivery], streak: Streak
) -> tuple[Retried, Streak]:
    """Attempt *dues* under a claim that lasts, and say how the receiver does; what is not owed any more is dropped."""
    if subscription.settings.unverified is not None:
        if hold.world.clock.now() < dues[0].expires_at:
            await hold.release(dues[0].expires_at, *_told(dues[0], UNVERIFIED))
            return Retried.PLANNED, streak
        dues = dues[:1]
    await _keep_claim(hold, subscription)
    passage = await _passage(hold, subscription, dues[0], streak)
    if passage.until is not None:
        return Retried.PLANNED, streak
    deliveries, known, rows = await _still_owed(hold, dues[:1] if passage.probe else dues)
    if not deliveries:
        await passage.tell()
        return Retried.WRITTEN, replace(streak, answering=False)
    unjudged = {due.message_id for due in dues if due.unjudged}
    grant = None
    async with PushSlots(hold.world.clock) as slots:
        if subscription.settings.max_per_second:
            deliveries, grant = await take_requests(hold.world, subscription, deliveries, slots.bytes)
            if not grant.count:
                await passage.tell()
                await hold.release(grant.free_at)
                return Retried.PLANNED, streak
        share = Share(slots, _share_s(hold, subscription), passage, streak.answered, grant)
        progress = await attempt_judged(hold.world, subscription, deliveries, unjudged, share)
    known |= {each: replace(known[each], unjudged=False) for each in progress.judged}
    unwritten = _attempted(known, progress)
    came = Retried.PLANNED if progress.failures else Retried.WRITTEN
    streak = _streak_after(streak, progress)
    try:
        if subscription.settings.batching is not None:
            await _write_together(hold, known, rows, progress, unwritten)
        await _write(hold, subscription, known, rows, progress, unwritten)
    except ConditionLostError:
        came = Retried.OVERTAKEN
    finally:
        if unwritten:  # Whoever comes next makes these attempts once more.
            hold.world.telemetry.count("OutcomesLost", len(unwritten))
    await passage.tell()
    return came, streak


async def _passage(hold: LaneHold, subscription: Subscription, head: OwedDelivery, streak: Streak) -> Passage:
    """Return the way to the host; release the lane until it may ask again, if that is shut.

    A lane asks whose head got no answer the last time or was kept from an attempt, or whose head before it did under
    this claim. No other lane asks. What is over only has to end.
    """
    passage = Passage(hold.world, subscription)
    if is_in_doubt := _is_in_doubt(head):
        passage.doubt()
    has_failed = is_in_doubt or not streak.answering
    if has_failed and passage.is_doubtful and hold.world.clock.now() < head.expires_at:
        await passage.ask(subscription.settings.timeout_s + judging_s(subscription), head.last_attempt_at)
        if passage.until is not None:
            await hold.release(min(passage.until, head.expires_at), *_told(head, CIRCUIT))
    return passage


def _told(head: OwedDelivery, reason: str) -> tuple[Write, ...]:
    """Return the write that tells why *head* waits, unless it says so already."""
    return () if head.last_outcome == reason else (due_change(head, replace(head, last_outcome=reason)),)


def _is_in_doubt(due: OwedDelivery) -> bool:
    """Say whether a delivery waits for its host to answer, or has no answer of HTTP to its last attempt."""
    answered = bool(due.history) and due.history[-1].status is not None
    return due.last_outcome == CIRCUIT or (due.attempts > 0 and not answered)


async def _keep_claim(hold: LaneHold, subscription: Subscription) -> None:
    """Prolong the claim if it might end before an attempt does."""
    attempt_s = subscription.settings.timeout_s + judging_s(subscription) + 1
    if hold.claimed_until - hold.world.clock.now() < attempt_s * 1000:
        await hold.claim(subscription.settings.timeout_s)


async def _still_owed(
    hold: LaneHold, dues: Sequence[OwedDelivery]
) -> tuple[list[Delivery], dict[str, OwedDelivery], dict[str, MessageRow]]:
    """Return the deliveries that are still owed, with the attempts made, and both their rows by message."""
    rows: dict[str, MessageRow] = {}

    async def look(due: OwedDelivery) -> None:
        if (row := await Outcomes(hold).owing(due)) is not None:
            rows[due.message_id] = row

    if len(dues) == 1:
        await look(dues[0])
    elif faults := await side_by_side([look(due) for due in dues]):
        raise faults[0]
    known = {due.message_id: due for due in dues if due.message_id in rows}
    deliveries = [(rows[message_id].message, due.attempts) for message_id, due in known.items()]
    return deliveries, known, rows


def _share_s(hold: LaneHold, subscription: Subscription) -> float:
    """Return for how long attempts may start: they end before this claim does, and none starts after the budget."""
    claim_s = (hold.claimed_until - hold.world.clock.now()) / 1000
    return min(hold.left_s(), claim_s - subscription.settings.timeout_s - judging_s(subscription) - 1)


def _streak_after(streak: Streak, progress: Progress) -> Streak:
    got_through = len(progress.handed)
    got_through += sum(entry.state is EntryState.DELIVERED for entry in progress.settled.values())
    return Streak(bool(got_through) or not progress.settled, streak.answered or bool(got_through), got_through)


def _attempted(known: Mapping[str, OwedDelivery], progress: Progress) -> set[str]:
    """Return the deliveries to which an attempt was made that is not written yet."""
    ended = {each for each, entry in progress.settled.items() if entry.attempts > known[each].attempts}
    return ended | progress.failures.keys()


async def _write_together(
    hold: LaneHold,
    known: Mapping[str, OwedDelivery],
    rows: Mapping[str, MessageRow],
    progress: Progress,
    unwritten: set[str],
) -> None:
    """Write the ends of a batch, several at once where nobody is in the way; take from *progress* what is written."""
    ends = [(known[each], known[each].as_last_seen(entry), rows[each]) for each, entry in progress.settled.items()]
    for message_id in await Outcomes(hold).end_together(ends if len(ends) > 1 else ()):
        progress.judged.discard(message_id)
        del progress.settled[message_id]
        unwritten.discard(message_id)


async def _write(
    hold: LaneHold,
    subscription: Subscription,
    known: Mapping[str, OwedDelivery],
    rows: Mapping[str, MessageRow],
    progress: Progress,
    unwritten: set[str],
) -> None:
    """Write what came of the attempts, ends before failures; take from *unwritten* what is kept."""
    outcomes = Outcomes(hold)
    marked: list[OwedDelivery] = []
    for message_id, entry in progress.settled.items():
        due = known[message_id]
        standing = await outcomes.end(due, due.as_last_seen(entry), patient=False, known=rows[message_id])
        if standing is None or standing.ended:
            unwritten.discard(message_id)
        if standing is not None:
            marked.append(standing)
    for due in (known[each] for each in known if each in progress.handed):
        await outcomes.end(due, Entry(EntryState.PENDING), patient=True, known=rows[due.message_id])
    waiting = progress.judged - progress.settled.keys() - progress.failures.keys() - progress.handed
    for due in (known[each] for each in known if each in waiting):
        await outcomes.write_yes(due)
    failed = [due for message_id, due in known.items() if message_id in progress.failures]
    for due in failed[1:]:
        await outcomes.write_failure(due, progress.failures[due.message_id], hold.check())
        unwritten.discard(due.message_id)
    for head in failed[:1]:
        failure = progress.failures[head.message_id]
        move = _rescheduled(hold, subscription, failure, head, progress)
        await outcomes.write_failure(head, failure, move)
        unwritten.discard(head.message_id)
        hold.is_claimed = False
    for due in marked:
        await outcomes.end(due, due.ending(EntryState.EXPIRED), patient=True)


def _rescheduled(
    hold: LaneHold, subscription: Subscription, failure: Failure, head: OwedDelivery, progress: Progress
) -> Write:
    """Return the lane's write after its head failed: the next attempt, or suspension after a 410."""
    state = lane_state_after(subscription, progress.failures.values())
    planned = replace(hold.planned(failure.next_attempt_at, head.message_id), state=state)
    if state is LaneState.SUSPENDED:
        generation = hold.world.dice.unique_id(hold.world.clock.now())
        planned = replace(planned, generation=generation, wake_at=head.expires_at)
    return hold.move(planned)
