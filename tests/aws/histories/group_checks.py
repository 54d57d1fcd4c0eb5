"""Groups on the box: what their queues give to whom, what members are told, and that nothing is lost in between."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from tagcast.model import Ordering

from tests.aws.http_api import Answer
from tests.aws.queues import Queue, QueuedMessage
from tests.simulation.ledger import (
    Attempt,
    Change,
    Ledger,
    Receipt,
    Reply,
    Row,
    body_in,
    is_group,
    keeps_order,
    ordinal_in,
)

if TYPE_CHECKING:
    from tests.aws.histories.history import History

OF_A_GROUP = re.compile(r".*-group-(\d{20})-(\d+)(\.fifo)?")
UNANSWERED = (429, 500, 502, 503, 504)
TOLD = {"ack": "acknowledged", "nack": "returned", "extend": "extended"}
OVER = ("already_acknowledged", "over", "expired", "unknown")
MARGIN_MS = 2_000
"""Whoever asks so shortly before a time is over may be told either."""


@dataclass(eq=False)
class Given(Attempt):
    """A message as a group's queue gave it to a process, perhaps to be lost on its way to a member."""

    queued: QueuedMessage | None = None
    step: int = 0
    arrived: bool = False
    """Whether a member got it."""


@dataclass(frozen=True)
class Pulling:
    """A pull of a member: so many messages, to be alone with them so long."""

    group: str
    most: int
    invisible_s: int
    asked_at: int


@dataclass(eq=False)
class Held:
    """A message in a member's hands: nobody else gets it before *until*, its handle is worth nothing after *good*."""

    group: str
    given: Given
    handle: str
    until: int
    good: int
    sayings: int = 0

    @property
    def message_id(self) -> str:
        return self.given.message_id

    @property
    def key(self) -> tuple[str, int]:
        return self.given.message_id, self.given.ordinal


@dataclass(frozen=True)
class Saying:
    """What a member says of what it has, and how long it was promised to be alone with each when it said so."""

    verb: str
    group: str
    held: tuple[Held, ...]
    seconds: int
    asked_at: int


class GroupChecks:
    """What is handed over lies in its queue until it ends; members get what is theirs, in order, and nobody else."""

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._history, self.ledger = history, ledger
        self._queues: dict[int, Queue] = {}
        self._held: dict[int, list[Held]] = defaultdict(list)
        """What members of a group have, by its ordinal."""
        self._paused_since: dict[int, int] = {}
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
                is_owed = ordinal in self.ledger.receipts[_named(queued)].owed
                is_behind = any(other.in_flight(queue.looked_at) for other in queue.lines.get(queued.group or "", ()))
                if is_owed and not is_behind and max(queued.sent_at, queued.visible_at) < queue.looked_at:
                    self.ledger.fail("what a removed group is owed is cancelled", f"{_named(queued)} of #{ordinal}")

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
        for held in self._held[ordinal]:
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
        """Say whether what is held stands in one order with a message of an ordered group, and is owed still."""
        ledger = self.ledger
        if not keeps_order(ledger.owner(ordinal)) or ordinal not in ledger.receipts[held.message_id].owed:
            return False
        return self._order_of(held.message_id) == self._order_of(message_id)

    def _order_of(self, message_id: str) -> str:
        ordering = self.ledger.stage.plan.ordering
        if ordering is Ordering.TOPIC:
            return "topic"
        key = self.ledger.accepted[message_id].get("ordering_key") if ordering is Ordering.KEY else None
        return f"key {key}" if key is not None else message_id

    def _in_order(self, told: str, message_id: str, ordinal: int, beside: set[str]) -> None:
        ledger = self.ledger
        if ledger.stage.plan.ordering is Ordering.NONE:
            return
        own = next(name for name, whom in ledger.queued(message_id).items() if ordinal in whom)
        if own not in ledger.group_of:
            ledger.fail("order", f"{told}, which is not in its order yet")
        for name in ledger.queue_order[ledger.group_of[own]]:
            if name == own:
                return
            earlier = name.partition("#")[0]
            is_his = ordinal in ledger.queued(earlier)[name]
            if is_his and ordinal in ledger.receipts[earlier].owed and earlier not in beside:
                self._may_be_passed(told, earlier, ordinal)

    def _may_be_passed(self, told: str, earlier: str, ordinal: int) -> None:
        """Check that what is owed before a message has come to an end that is only not written yet."""
        ledger, key = self.ledger, (earlier, ordinal)
        is_over = max(ledger.latest, ledger.now) >= ledger.accepted[earlier]["expires_at"]
        if not is_over and key not in ledger.judge_no and not ledger.judge_failures[key]:
            ledger.fail("order", f"{told} while {earlier} is owed before it")

    def _dropped(self, ordinal: int, queued: QueuedMessage) -> None:
        """Check that what goes from a queue is over, or lies in it once more."""
        ledger, message_id = self.ledger, _named(queued)
        is_owed = ordinal in ledger.receipts[message_id].owed
        if is_owed and not self._lies_in(ordinal, message_id):
            ledger.fail("what was handed over lies in its queue", f"{message_id} goes from that of #{ordinal}, owed")

    def _lies_in(self, ordinal: int, message_id: str) -> bool:
        return any(_named(other) == message_id for other in self._queues[ordinal].messages())

    # Rows.

    def committed(self, changes: list[Change]) -> None:
        """Check what a write says: what is handed over is in its queue, what is delivered was acknowledged."""
        for key, old, new in changes:
            if key.pk.startswith("MSG#") and key.sk != "TALLY" and new is not None and "matched" in new:
                self._message(old, new)
            if key.pk.startswith("LANES#") and (new or {}).get("state") != (old or {}).get("state"):
                self._paused_since[ordinal_in(key.sk)] = self.ledger.now

    def _message(self, old: Row | None, new: Row) -> None:
        ledger, message_id = self.ledger, new["message_id"]
        if "bounds" in new:
            return
        now = Receipt.of(new)
        before = Receipt.unwritten(now.matched) if old is None else Receipt.of(old)
        for ordinal in now.handed - before.handed - ledger.removed:
            if not self._lies_in(ordinal, message_id):
                ledger.fail("what was handed over lies in its queue", f"{message_id} does not in that of #{ordinal}")
        for ordinal in before.owed - now.owed:
            if is_group(ledger.owner(ordinal)):
                self._ended(message_id, ordinal, now)

    def _ended(self, message_id: str, ordinal: int, now: Receipt) -> None:
        state, attempts = now.terminal(ordinal) or ("", 0)
        given = self.ledger.attempts[message_id, ordinal]
        if state == "delivered" and not any(each.number == attempts and each.reply is not None for each in given):
            self.ledger.fail(
                "delivered means received", f"{message_id} #{ordinal}: nobody acknowledged pull {attempts}"
            )

    # Members.

    def pulled(self, asked: Pulling, answer: Answer) -> Sequence[Held]:
        """Check what a member got; return it."""
        if answer.status in (*UNANSWERED, 404):
            return ()
        if answer.status != 200:
            self._surprised(f"a pull of {asked.group}", answer)
        messages = answer.value["messages"]
        ids = [each["message_id"] for each in messages]
        if len(ids) > asked.most or len(set(ids)) < len(ids):
            self.ledger.fail("pulls", f"a pull of {asked.most} from {asked.group} got {ids}")
        return [self._got(asked, each) for each in messages]

    def _got(self, asked: Pulling, message: dict[str, Any]) -> Held:
        ledger, message_id = self.ledger, message["message_id"]
        told = f"a member of {asked.group} got {message_id} ({message['attempt']})"
        given = self._given(asked, message)
        if given is None:
            ledger.fail("matching", f"{told}, which no queue of that group gave")
        given.arrived = True
        row, owner = ledger.accepted[message_id], ledger.owner(given.ordinal)
        had = (message["body"].encode(), message["tags"], message["ordering_key"])
        if had != (body_in(row), row.get("tags", []), row.get("ordering_key")):
            ledger.fail("immutable", f"{told} with other content")
        if ledger.clocks_agree and given.began_at >= row["expires_at"]:
            ledger.fail("7 life", f"{told} after its expiry")
        if given.number > owner["max_retries"] + 1:
            ledger.fail("attempts and gaps", f"{told} of {owner['max_retries'] + 1}")
        if ledger.ended_at.get((message_id, given.ordinal), given.step) < given.step:
            ledger.fail("5 what has ended is given to nobody", told)
        self._not_paused(told, given, asked)
        hidden_ms = 1000 * asked.invisible_s
        held = Held(asked.group, given, message["receipt_handle"], given.began_at + hidden_ms, ledger.now + hidden_ms)
        self._held[given.ordinal].append(held)
        return held

    def _given(self, asked: Pulling, message: dict[str, Any]) -> Given | None:
        """Return what a queue gave that a member may have got with this pull; of several the latest."""
        for (message_id, ordinal), attempts in self.ledger.attempts.items():
            if message_id != message["message_id"] or self.ledger.owner(ordinal)["name"] != asked.group:
                continue
            for each in reversed(attempts):
                is_it = isinstance(each, Given) and each.number == message["attempt"] and not each.arrived
                if is_it and each.began_at >= asked.asked_at:
                    assert isinstance(each, Given)
                    return each
        return None

    def _not_paused(self, told: str, given: Given, asked: Pulling) -> None:
        lane = self.ledger.lanes.get(f"{self.ledger.topic['topic_id']}.{given.ordinal}", {})
        if lane.get("state") == "paused" and self._paused_since[given.ordinal] < asked.asked_at:
            self.ledger.fail("a paused group gives nothing", told)

    def said(self, saying: Saying) -> None:
        """Take down what a member is about to say: from now on others may get what it gives up."""
        ledger = self.ledger
        for held in saying.held:
            if saying.group != held.group:
                continue
            held.sayings += 1
            is_good = saying.asked_at < held.good or not ledger.clocks_agree
            if saying.verb == "ack" and is_good and held.given.reply is None:
                held.given.reply, held.given.ended_at = Reply(200, "acknowledged", 0), ledger.now
            hidden_ms = 1000 * saying.seconds if saying.verb == "extend" else 0
            held.until = min(held.until, ledger.now + hidden_ms)

    def told(self, saying: Saying, answer: Answer) -> None:
        """Check what a member is told of what it said."""
        if answer.status in (*UNANSWERED, 404):
            return
        if answer.status != 200:
            self._surprised(f"{saying.verb} of {saying.group}", answer)
        results = answer.value["results"]
        if [each["receipt_handle"] for each in results] != [each.handle for each in saying.held]:
            self.ledger.fail("members are told", f"{saying} was answered {results}")
        for held, result in zip(saying.held, results, strict=True):
            self._one_told(saying, held, result)

    def _one_told(self, saying: Saying, held: Held, result: dict[str, Any]) -> None:
        ledger, status = self.ledger, result["status"]
        terminal = ledger.receipts[held.message_id].terminal(held.given.ordinal)
        told = f"{saying.verb} of {held.message_id} ({held.given.number}) to {saying.group} is {status}: {terminal}"
        if saying.group != held.group or held.given.ordinal in ledger.removed:
            holds = saying.group == held.group or status == "unknown"
        elif status == "acknowledged":
            holds = terminal == ("delivered", held.given.number) and held.given.reply is not None
        elif status == "already_acknowledged":
            holds = terminal is not None and terminal[0] == "delivered"
        elif status == "over":
            holds = terminal is not None and terminal[0] != "delivered"
        elif status == "expired":
            holds = held.sayings > 1 or not ledger.clocks_agree or ledger.now >= held.good - MARGIN_MS
        else:
            holds = status == TOLD[saying.verb]
        if not holds:
            ledger.fail("members are told", told)
        if status == "returned" and held.sayings == 1:
            held.until = saying.asked_at + 1000 * saying.seconds
        if status == "extended":
            held.handle = result["new_receipt_handle"]
            held.until = saying.asked_at + 1000 * saying.seconds
            held.good = ledger.now + 1000 * saying.seconds

    def _surprised(self, told: str, answer: Answer) -> NoReturn:
        self.ledger.fail("no surprise", f"{told} was answered {answer.status}: {answer.body[:200]!r}")

    # The end.

    def at_the_end(self) -> None:
        """Check that the queues of removed groups are gone."""
        ledger, there = self.ledger, self._history.deployment.sqs.queues
        for ordinal, queue in self._queues.items():
            lane = ledger.lanes.get(f"{ledger.topic['topic_id']}.{ordinal}", {})
            if ordinal in ledger.removed and lane.get("wake_at") is None and queue.url in there:
                ledger.fail("the queue of a removed group goes", queue.name)


def _named(queued: QueuedMessage) -> str:
    return str(json.loads(queued.body)["message_id"])
