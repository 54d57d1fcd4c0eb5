"""Queues of groups on the box: what is handed over lies in them until it ends, and they give it in order."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

from tagcast.model import Ordering

from tests.aws.histories.member_checks import Given, Held, MemberChecks
from tests.aws.queues import Queue, QueuedMessage
from tests.simulation.ledger import (
    Change,
    Ledger,
    Receipt,
    is_group,
    keeps_order,
)

if TYPE_CHECKING:
    from tests.aws.histories.history import History

OF_A_GROUP = re.compile(r".*-group-(\d{20})-(\d+)(\.fifo)?")


class GroupChecks:
    """What is handed over lies in its queue until it ends; it is given in order, to one member at a time."""

    def __init__(self, history: History, ledger: Ledger, members: MemberChecks) -> None:
        self._history, self.ledger = history, ledger
        self._queues: dict[int, Queue] = {}
        self._members = members
        self._together: tuple[int, set[str]] = (0, set())
        """What was given at the latest step at which a queue gave anything."""

    # Queues.

    def made(self, queue: Queue) -> None:
        """Watch the queue of a group."""
        found = OF_A_GROUP.fullmatch(queue.name)
        assert found is not None, queue.name
        ordinal = int(found[2])
        self._queues[ordinal] = queue
        queue.told.append(partial(self._taken, ordinal))
        queue.given.append(partial(self._gave, ordinal))
        queue.dropped.append(partial(self._dropped, ordinal))

    def removed(self, queue: Queue) -> None:
        """Check that a queue takes nothing with it that anybody could have received and cancelled."""
        for ordinal in (ordinal for ordinal, own in self._queues.items() if own is queue):
            for queued in queue.messages():
                is_pending = ordinal in self.ledger.receipts[_named(queued)].pending
                is_behind = any(other.in_flight(queue.looked_at) for other in queue.lines.get(queued.group or "", ()))
                if is_pending and not is_behind and max(queued.sent_at, queued.visible_at) < queue.looked_at:
                    self.ledger.fail(
                        "pending deliveries of a removed group are cancelled", f"{_named(queued)} of #{ordinal}"
                    )

    def waiting(self) -> list[str]:
        """Return the names of the groups whose queues hold anything."""
        present = self.ledger.subscribers
        return [present[each]["name"] for each, queue in self._queues.items() if each in present and queue.lines]

    def _taken(self, ordinal: int, queued: QueuedMessage) -> None:
        message_id = _named(queued)
        known = self.ledger.receipts.get(message_id)
        if known is None or ordinal not in known.matched:
            self.ledger.fail("matching", f"{message_id} is handed over to #{ordinal}, which it did not match")

    def _gave(self, ordinal: int, queued: QueuedMessage) -> None:
        """Check a message when its queue gives it to a process: nobody else has it, nothing stands before it."""
        ledger, message_id = self.ledger, _named(queued)
        given = Given(message_id, ordinal, queued.receives, ledger.now, queued=queued, step=ledger.stage.steps)
        ledger.attempts[message_id, ordinal].append(given)
        told = f"{message_id} is given out by the queue of #{ordinal} ({queued.receives})"
        for held in self._members.held[ordinal]:
            if held.until > ledger.now and (held.given.queued is queued or self._same_order(held, message_id, ordinal)):
                ledger.fail("a member is alone", f"{told} while {held.message_id} is held until {held.until}")
        step, beside = self._together
        if step != ledger.stage.steps:
            beside = set()
        self._together = (ledger.stage.steps, beside)
        worker = self._history.witness.acting()
        if worker is not None and worker.kind == "pull" and keeps_order(ledger.owner(ordinal)):
            self._in_order(told, message_id, ordinal, beside)
        beside.add(message_id)

    def _same_order(self, held: Held, message_id: str, ordinal: int) -> bool:
        """Say whether what is held stands in one order with a message of an ordered group, and is pending still."""
        ledger = self.ledger
        if not keeps_order(ledger.owner(ordinal)) or ordinal not in ledger.receipts[held.message_id].pending:
            return False
        return self._order_of(held.message_id) == self._order_of(message_id)

    def _order_of(self, message_id: str) -> str:
        ordering = self.ledger.stage.plan.ordering
        if ordering is Ordering.TOPIC:
            return "topic"
        key = self.ledger.accepted[message_id].get("ordering_key") if ordering is Ordering.KEY else None
        return f"key {key}" if key is not None else message_id

    def _in_order(self, told: str, message_id: str, ordinal: int, beside: set[str]) -> None:
        for earlier in self.ledger.pending_before(told, message_id, ordinal):
            if earlier not in beside:
                self._may_be_passed(told, earlier, ordinal)

    def _may_be_passed(self, told: str, earlier: str, ordinal: int) -> None:
        """Check that what is pending before a message has come to an end that is only not written yet."""
        ledger, key = self.ledger, (earlier, ordinal)
        is_over = max(ledger.latest, ledger.now) >= ledger.accepted[earlier]["expires_at"]
        if not is_over and key not in ledger.judge_no and not ledger.judge_failures[key]:
            ledger.fail("order", f"{told} while {earlier} is pending before it")

    def _dropped(self, ordinal: int, queued: QueuedMessage) -> None:
        """Check that what goes from a queue is over, or lies in it once more."""
        ledger, message_id = self.ledger, _named(queued)
        is_pending = ordinal in ledger.receipts[message_id].pending
        if is_pending and not self._lies_in(ordinal, message_id):
            ledger.fail("what was handed over lies in its queue", f"{message_id} goes from that of #{ordinal}, pending")

    def _lies_in(self, ordinal: int, message_id: str) -> bool:
        return any(_named(other) == message_id for other in self._queues[ordinal].messages())

    # Rows.

    def committed(self, changes: list[Change]) -> None:
        """Check what a write says: what is handed over is in its queue, what is delivered was acknowledged."""
        for message_id, before, now in self.ledger.around(changes):
            self._message(message_id, before, now)

    def _message(self, message_id: str, before: Receipt | None, now: Receipt) -> None:
        ledger = self.ledger
        handed = frozenset[int]() if before is None else before.handed
        pending = set(now.matched) if before is None else before.pending
        for ordinal in now.handed - handed - ledger.removed:
            if not self._lies_in(ordinal, message_id):
                ledger.fail("what was handed over lies in its queue", f"{message_id} does not in that of #{ordinal}")
        for ordinal in pending - now.pending:
            if is_group(ledger.owner(ordinal)):
                self._ended(message_id, ordinal, now)

    def _ended(self, message_id: str, ordinal: int, now: Receipt) -> None:
        state, attempts = now.terminal(ordinal) or ("", 0)
        given = self.ledger.attempts[message_id, ordinal]
        if state == "delivered" and not any(each.number == attempts and each.reply is not None for each in given):
            self.ledger.fail(
                "delivered means received", f"{message_id} #{ordinal}: nobody acknowledged pull {attempts}"
            )

    # The end.

    def at_the_end(self) -> None:
        """Check that the queues of removed groups are gone."""
        ledger, there = self.ledger, self._history.deployment.sqs.queues
        for ordinal, queue in self._queues.items():
            lane = ledger.lanes.get(f"{ledger.topic['topic_id']}.{ordinal}", {})
            if ordinal in ledger.removed and lane.get("wake_at") is None and queue.url in there:
                ledger.fail("the queue of a removed group goes", queue.name)


def _named(queued: QueuedMessage) -> str:
    [message_id] = json.loads(queued.body)["message_ids"]
    return str(message_id)
