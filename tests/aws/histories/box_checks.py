"""The promises of the service on the box: those of the quick simulation, and what only whole AWS can show."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, cast

from tagcast.model import Draft, Push
from tagcast.ports import Key

from tests.aws.calls import Call
from tests.aws.environments import Environment
from tests.aws.histories.answers import AnswerChecks, Asked
from tests.aws.histories.archived import FirehoseChecks
from tests.aws.histories.asked import has_events
from tests.aws.histories.entries import EntryChecks
from tests.aws.histories.event_checks import EventChecks
from tests.aws.histories.group_checks import GroupChecks
from tests.aws.histories.letter_checks import LetterChecks, stands_apart
from tests.aws.histories.member_checks import MemberChecks
from tests.aws.http_api import Answer
from tests.aws.lambdas import Ended
from tests.aws.network import Request
from tests.aws.queues import QueuedMessage
from tests.aws.throughput import Throughput
from tests.simulation.baton import Worker
from tests.simulation.checks import Checks
from tests.simulation.checks.attempts import AttemptChecks
from tests.simulation.ledger import Attempt, Change, Row, Stage, ordinal_in
from tests.simulation.plan import Action

if TYPE_CHECKING:
    from tests.aws.histories.history import History

CALLS_MAX = 4_000
"""More calls in one invocation are a loop without an end."""
WAIT_MAX_MS = 3_000
"""A healthy receiver may wait this long in a batch for what is not its own."""
CONNECTING_MS = 3_000
"""An attempt may leave its process this much later than it was begun."""
OWN_MS = 100
"""What a push takes besides its receiver: connecting, resolving, the writes behind it."""


class BoxChecks(Checks):
    """All checks of one history."""

    def __init__(self, history: History) -> None:
        super().__init__(cast("Stage", history))
        self._history = history
        self.attempts = AttemptChecks(self.ledger, CONNECTING_MS)
        self._answers = AnswerChecks(self.ledger)
        self._entries = EntryChecks(self.ledger)
        self.archive = self._archive = FirehoseChecks(self.ledger, history.deployment)
        self._strangers = history.deployment.functions.strangers
        self.members = MemberChecks(self.ledger)
        self.groups = GroupChecks(history, self.ledger, self.members)
        self._letters = LetterChecks(self.ledger)
        self._events = EventChecks(self.ledger, is_asked_for=has_events(history.plan.seed))
        self._calls: dict[str, Counter[Any]] = {}
        self._senders: dict[int, tuple[str, Attempt]] = {}
        touched = {action.subscriber for action in history.plan.actions}
        self._healthy = {
            each.name for each in history.plan.subscribers if each.mode == "healthy" and each.name not in touched
        }

    # Producers.

    def producer_asks(self, action: Action) -> Asked:
        return self._answers.asked(action)

    def producer_told(self, asked: Asked, single: bool, answer: Answer) -> None:
        self._history.note("{} publish is answered {}", asked.action.number, answer.status)
        self._answers.told(asked, single, answer)

    # Tables and queues.

    def committed(self, worker: Worker | None, changes: list[Change]) -> None:
        self._events.committed(changes)
        changes = self._letters.committed(changes)
        if not changes:
            return
        self._entries.before(worker, changes)
        super().committed(worker, changes)
        self.members.committed(changes)
        self.groups.committed(changes)

    def removed_by_ttl(self, key: Key, old: Row) -> None:
        if not stands_apart(key.pk, key.sk):
            super().removed_by_ttl(key, old)

    def queued(self, message: QueuedMessage) -> None:
        self.enqueued(message.body)

    # Invocations.

    def calling(self, worker: Worker, environment: Environment, call: Call) -> None:
        """Check a request before its effect."""
        self._check_origin(worker, environment, call.operation)
        match call.service:
            case "dynamodb":
                self._reads(worker, call)
            case "lambda" if self._history.plan.faults and call["FunctionName"] in self._strangers:
                self._may_fail(json.loads(call["Payload"]))
        made = self._calls.setdefault(worker.name, Counter())
        made["all"] += 1
        if made["all"] > CALLS_MAX:
            self.ledger.fail("every loop ends", f"{worker.name} made {CALLS_MAX} calls")

    def _check_origin(self, worker: Worker, environment: Environment, what: str) -> None:
        origin = environment.origin()
        if origin is not None and origin is not environment.invocation:
            self.ledger.fail("nothing outlives its invocation", f"{worker.name}: a {what} of {origin.label}")

    def invocation_ended(self, worker: Worker, ended: Ended) -> None:
        """Check how an invocation ended."""
        self._calls.pop(worker.name, None)
        if ended.error == "Function.ResponseSizeTooLarge":
            self.ledger.fail("no surprise", f"{worker.name}: {ended.error}")
        if isinstance(ended.fault, AssertionError | TypeError | KeyError | AttributeError | IndexError | NameError):
            self.ledger.fail("no surprise", f"{worker.name} raised {ended.fault!r}")

    def _may_fail(self, event: Any) -> None:
        """Take it that no verdicts come of a call: it may be lost on either way, or come too late."""
        for ordinal, owner in self.ledger.subscribers.items():
            if owner["name"] == event["subscription"]:
                for each in event["messages"]:
                    self.ledger.judge_failures[each["message_id"], ordinal] += 1

    def _reads(self, worker: Worker, call: Call) -> None:
        keys: list[Any] = []
        if call.operation == "GetItem":
            keys = [call["Key"]]
        elif call.operation == "BatchGetItem":
            keys = [key for request in call["RequestItems"].values() for key in request["Keys"]]
        names = [(key["pk"]["S"], key["sk"]["S"]) for key in keys]
        named = [pk.rpartition("#")[2] for pk, sk in names if pk.startswith("MSG#") and sk == "MSG"]
        self.message_read(worker, named)

    # Pushes.

    def push_sent(self, worker: Worker, environment: Environment, request: Request) -> list[Attempt]:
        """Check a push when it leaves its process; return the attempts that it makes."""
        ledger, headers = self.ledger, request.headers
        self._check_origin(worker, environment, f"push of {headers.get('webhook-id')}")
        content, name = json.loads(request.body), headers["x-tagcast-subscription"]
        is_batch = "x-tagcast-batch" in headers
        contents = {each["message_id"]: each for each in content} if is_batch else {headers["webhook-id"]: content}
        message_id = next(iter(contents))
        known = ledger.receipts.get(message_id)
        matched = [] if known is None else [o for o in known.matched if ledger.owner(o)["name"] == name]
        present = [ordinal for ordinal, owner in ledger.subscribers.items() if owner["name"] == name]
        if not matched and not present:
            ledger.fail("matching", f"{worker.name} pushes {message_id} to {name}, which is not there")
        ordinal = (matched or present)[0]
        self._waited_for_others(worker, environment, name, message_id)
        if "unverified" in ledger.owner(ordinal):
            ledger.fail("asked before", f"{worker.name} pushes {message_id} to {name}, whose endpoint has not agreed")
        sender = replace(worker, skew_ms=min(self._sent_at(each, headers) for each in contents) - ledger.now)
        subscription: Any = _SeenSubscription(ledger.topic["topic_id"], ordinal, name)
        seen = [cast("Push", _SeenPush(subscription, headers, *each)) for each in contents.items()]
        if is_batch and len(contents) != len(content):
            ledger.fail("batches", f"{worker.name} pushes a message twice to {name}: {request.body!r}")
        checks, size = self.attempts, len(request.body)
        attempts = checks.together(sender, seen, size) if is_batch else [checks.begins(sender, seen[0])]
        for attempt in attempts:
            self._join(worker, attempt, ledger.attempts[attempt.message_id, ordinal])
        return attempts

    def _join(self, worker: Worker, attempt: Attempt, made: list[Attempt]) -> None:
        """Count a request once that the adapter sends again, since the kept connection of the first one was dead."""
        sender = self._senders[id(attempt)] = (worker.name, attempt)
        for earlier in made[:-1][-1:]:
            known = self._senders.get(id(earlier), ("", earlier))[0]
            reset = earlier.reply is not None and earlier.reply.status is None
            if known == sender[0] and earlier.number == attempt.number and reset:
                made.remove(earlier)

    def _waited_for_others(self, worker: Worker, environment: Environment, name: str, message_id: str) -> None:
        """Where nothing but receivers misbehaves, a healthy one waits in the first round for nobody but itself."""
        plan, invocation = self._history.plan, environment.invocation
        if plan.faults or worker.kind != "fan_out" or invocation is None or name not in self._healthy:
            return
        own = [attempt for known, attempt in self._senders.values() if known == worker.name]
        own_ms = sum(
            attempt.reply.took_ms + OWN_MS
            for attempt in own
            if attempt.reply is not None and self.ledger.owner(attempt.ordinal)["name"] == name
        )
        waited_ms = self.ledger.now - invocation.began_at - own_ms
        if waited_ms > WAIT_MAX_MS:
            self.ledger.fail("isolation", f"{message_id} to {name} waited {waited_ms} ms for others in {worker.name}")

    def _sent_at(self, message_id: str, headers: dict[str, str]) -> int:
        """Return when the sender said it sent, by its own clock: connecting takes time, and it may stand still then."""
        said = 1000 * int(headers["webhook-timestamp"])
        row = self.ledger.accepted.get(message_id)
        jumps = "jump" in self._history.plan.faults
        return min(said, row["expires_at"] - 1) if jumps and row is not None else said

    def not_reached(self, name: str | None) -> None:
        """Hear that an attempt may end without a push: of one of the entries pending of *name*, or of any.

        No connection was made, or the process stood still until the time of the attempt was over.
        """
        for message_id, known in self.ledger.receipts.items():
            for ordinal in known.pending:
                if name in (None, self.ledger.owner(ordinal)["name"]):
                    self.ledger.judge_failures[message_id, ordinal] += 1

    def asked_judge(self, ordinal: int, message: Any, fails: bool) -> None:
        """Hear of a verdict that a filter function is about to give."""
        subscription: Any = _SeenSubscription(self.ledger.topic["topic_id"], ordinal, "")
        super().judged(subscription, [message], None if fails else (True,))

    # The end.

    def at_the_end(self) -> Counter[str]:
        self._denied()
        for table in self._history.deployment.tables.values():  # The checks read it all at one instant.
            table.throughput = Throughput(read_rate=inf, key_read_rate=inf)
        totals = super().at_the_end()
        self._entries.at_the_end(self._history.deployment)
        self.groups.at_the_end()
        if self._archive.is_whole():
            self._events.at_the_end(self._archive.records())
        return totals

    def _denied(self) -> None:
        """AccessDenied anywhere is a failure."""
        box = self._history.deployment.box
        for role, action, resource in box.calls:
            if not box.allows(role, action, resource):
                self.ledger.fail("roles suffice", f"{role} may not {action} on {resource}")


class _SeenSubscription:
    def __init__(self, topic_id: str, ordinal: int, name: str) -> None:
        self.ordinal, self.name = ordinal, name
        self.subscription_id = f"{topic_id}.{ordinal}"
        assert ordinal_in(self.subscription_id) == ordinal


class _SeenMessage:
    def __init__(self, message_id: str, content: Any) -> None:
        self.message_id = message_id
        self.draft = Draft(content["body"].encode(), tags=tuple(content["tags"]))


class _SeenPush:
    """A push as its receiver sees it, in the shape in which the shared checks look at one."""

    def __init__(self, subscription: _SeenSubscription, headers: dict[str, str], message_id: str, content: Any) -> None:
        self.subscription = subscription
        self.message = _SeenMessage(message_id, content)
        self.attempt = int(headers["x-tagcast-attempt"])
