"""The promises of the service, checked from outside at every commit, at every push and at the end."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tagcast.archive.record import RowChange as ArchivedChange
from tagcast.model import Message, Ordering, Subscription
from tagcast.ports import Key

from tests.simulation.baton import Worker
from tests.simulation.checks.archive import ArchiveChecks
from tests.simulation.checks.attempts import AttemptChecks
from tests.simulation.checks.lanes import LaneChecks
from tests.simulation.checks.messages import MessageChecks
from tests.simulation.checks.publishing import PublishingChecks
from tests.simulation.checks.quiescence import QuiescenceChecks
from tests.simulation.checks.registry import RegistryChecks
from tests.simulation.ledger import Change, Ledger, Stage, ordinal_in, queued_name
from tests.simulation.plan import Action
from tests.simulation.rules import judged_yes

BOTH = {"in_order", "apart"}


class Checks:
    """All checks of one history over one ledger."""

    def __init__(self, stage: Stage) -> None:
        self.ledger = Ledger(stage)
        self.archive = ArchiveChecks(self.ledger)
        self.quiescence = QuiescenceChecks(self.ledger)
        self.attempts = AttemptChecks(self.ledger)
        self.producers = PublishingChecks(self.ledger)
        self._lanes = LaneChecks(self.ledger)
        self._messages = MessageChecks(self.ledger)
        self._registry = RegistryChecks(self.ledger)

    def clock_read(self, worker: Worker, seen: int) -> None:
        worker.latest = max(worker.latest, seen)
        self.ledger.latest = max(self.ledger.latest, seen)

    def enqueued(self, body: str) -> None:
        """Take down what the queue took: an order is that in which it took its messages for the first time."""
        ledger, said = self.ledger, json.loads(body)
        for message_id in said.get("message_ids") or [said["message_id"]]:
            if message_id not in ledger.accepted:
                ledger.fail("1 accepted", f"{message_id} is queued and was never stored")
            group = {
                Ordering.TOPIC: "topic",
                Ordering.KEY: ledger.accepted[message_id].get("ordering_key") or message_id,
                Ordering.NONE: message_id,
            }[ledger.stage.plan.ordering]
            name = queued_name(message_id, said.get("section"))
            if name not in ledger.group_of and said.get("audience") != "apart":
                ledger.group_of[name] = group
                ledger.queue_order[group].append(name)

    def served(self, bodies: Iterable[str]) -> None:
        """Record what a consumer acknowledged: the first round is over for the subscriptions of these entries."""
        ledger = self.ledger
        for said in map(json.loads, bodies):
            for message_id in said.get("message_ids") or [said["message_id"]]:
                section = said.get("section")
                halves = ledger.served[message_id, section]
                halves.update(BOTH & {said.get("audience")} or BOTH)
                known = ledger.receipts[message_id] if section is None else ledger.sections[message_id][section]
                if halves == BOTH and known.is_open and known.pending:
                    ledger.fail("a round ends", f"{message_id} was acknowledged and its first round is open")

    def operating(self, action: Action) -> None:
        if action.kind == "skip_head":
            self.ledger.skipped.add(action.subscriber)

    def operated(self, worker: Worker) -> None:
        """Take down that an operator was told that the change is made."""
        ledger = self.ledger
        ledger.told_version = max(ledger.told_version, ledger.version_by.get(worker.name, 0))

    def judged(self, subscription: Subscription, messages: Sequence[Message], answer: tuple[bool, ...] | None) -> None:
        for message in messages:
            key = (message.message_id, subscription.ordinal)
            if answer is None:
                self.ledger.judge_failures[key] += 1
            elif judged_yes(message.draft):
                self.ledger.judge_yes.add(key)
            else:
                self.ledger.judge_no.add(key)

    def message_read(self, worker: Worker, message_ids: Iterable[str]) -> None:
        """Take down who read which messages: rows that say what is pending, not the tally of a wide one."""
        if worker.read_first_at is None:
            worker.read_first_at = self.ledger.stage.steps
        for message_id in message_ids:
            worker.read_at[message_id] = self.ledger.stage.steps

    def committed(self, worker: Worker | None, changes: list[Change]) -> None:
        """Check one committed write or transaction as a whole."""
        before = self.ledger.version
        self._registry.committed(changes)
        if worker is not None and self.ledger.version > before:
            self.ledger.version_by[worker.name] = self.ledger.version
        message_ids: dict[str, None] = {}
        sids: dict[str, None] = {}
        ended: dict[tuple[str, int], int] = {}
        claimed = False
        for key, old, new in changes:
            if old != new:  # A write that changes nothing leaves no record in a stream.
                self.archive.committed(ArchivedChange(old, new, self.ledger.now))
            if key.pk.startswith("LANES#"):
                sids[key.sk] = None
                claimed |= self._lanes.lane(worker, key.sk, old, new)
            elif key.pk.startswith("DUE#"):
                sid = key.pk.removeprefix("DUE#")
                sids[sid] = None
                message_ids[message_id := key.sk.partition("#")[2]] = None
                if old is not None and new is None:
                    ended[message_id, ordinal_in(sid)] = old["attempts"]
                self._lanes.due(sid, key.sk, old, new)
        self._lanes.fenced(worker, changes, claimed)
        for changed in self._messages_in(changes):
            message_ids[changed[0][0].pk.rpartition("#")[2]] = None
            self._messages.committed(worker, changed, ended)
        self._lanes.schedule(worker, changes)
        self._lanes.independent(worker, changes)
        self._lanes.backlogs(sids, message_ids)

    @staticmethod
    def _messages_in(changes: list[Change]) -> list[list[Change]]:
        """Return what changed of each message."""
        found: dict[str, list[Change]] = {}
        for change in changes:
            if change[0].pk.startswith("MSG#"):
                found.setdefault(change[0].pk, []).append(change)
        return list(found.values())

    def removed_by_ttl(self, key: Key, old: dict[str, Any]) -> None:
        self.quiescence.removed_by_ttl(key, old)
        self.archive.committed(ArchivedChange(old, None, self.ledger.now, removed_by_ttl=True))
        sid = key.pk.removeprefix("DUE#")
        if key.pk.startswith("DUE#") and self.ledger.dues[sid, key.sk.partition("#")[2]].pop(key.sk, False):
            self.ledger.dues_of[sid] -= 1
        if key.pk.startswith("LANES#"):
            self.ledger.lanes.pop(key.sk, None)

    def at_the_end(self) -> Counter[str]:
        self.archive.at_the_end()
        return self.quiescence.at_the_end()
