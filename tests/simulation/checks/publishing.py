"""What a producer is told, against what is stored."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tagcast.model import Draft, Ordering

from tests.simulation.baton import Worker
from tests.simulation.ledger import Ledger, Row, body_in, keeps_order
from tests.simulation.plan import Action


class PublishingChecks:
    """Invariant 1: accepted means stored, once."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._claims: dict[str, tuple[Any, str, int]] = {}
        """By key and place: the first answer, what was asked for, and when it was answered."""
        self._stopped: dict[str, set[str]] = {}
        """The groups of the queue in which an entry failed, by the name of the worker that sent it."""

    def sending(self, worker: Worker | None, groups: Sequence[str]) -> None:
        """Nothing goes on behind an entry of its order that was not taken."""
        if worker is None:
            return
        if behind := self._stopped.get(worker.name, set()).intersection(groups):
            self.ledger.fail("order", f"{worker.name} sends behind what the queue did not take of {sorted(behind)}")

    def not_taken(self, worker: Worker | None, groups: Sequence[str]) -> None:
        if worker is not None:
            self._stopped.setdefault(worker.name, set()).update(groups)

    def watch(self, worker: Worker, action: Action, publish: Callable[[], Any]) -> Any:
        """Publish, and check what the producer is told."""
        ledger = self.ledger
        is_known_at_once = not ledger.stage.plan.topic_known_s
        version, began = ledger.version if is_known_at_once else ledger.told_version, ledger.now
        ledger.asked[worker.name] = len(action.drafts)
        answers = publish()
        if len(answers) != len(action.drafts):
            ledger.fail("1 accepted", "not every draft was answered")
        if action.idempotency is None:
            stored = [message_id for message_id, row in ledger.accepted.items() if row["by"] == worker.name]
            told = [answer.message_id for answer in answers]
            if stored != told:
                ledger.fail("1 accepted once", f"stored as {stored}, answered {told}")
            self._in_its_order(told)
        if len({answer.message_id for answer in answers}) < len(answers):
            ledger.fail("1 accepted once", f"two drafts are one message: {[each.message_id for each in answers]}")
        for place, (answer, draft) in enumerate(zip(answers, action.drafts, strict=True)):
            self._told(answer, draft)
            matched_by = ledger.accepted[answer.message_id]["subscriptions_version"]
            if action.idempotency is None and matched_by < version:
                ledger.fail("no match missed", f"{answer.message_id} was matched by version {matched_by} < {version}")
            if action.idempotency is not None and ledger.clocks_agree:
                self._idempotent(action, place, answer, began)
        return answers

    def _in_its_order(self, told: Sequence[str]) -> None:
        """Check that the messages of one order were queued in the order of their request.

        A message has a queue entry for each section. The entry of a section without ordered subscriptions has no order.
        """
        ledger = self.ledger
        turns = {
            name: turn
            for turn, each in enumerate(told)
            if "unordered" not in ledger.accepted[each]
            for name, ordinals in ledger.queued(each).items()
            if name in ledger.group_of and _is_kept_in_order(ledger, ordinals)
        }
        for group in {ledger.group_of[each] for each in turns}:
            order = [each for each in dict.fromkeys(ledger.queue_order[group]) if each in turns]
            if [turns[each] for each in order] != sorted(turns[each] for each in order):
                self.ledger.fail("order", f"{told} were queued as {ledger.queue_order[group]}")

    def _told(self, answer: Any, draft: Draft) -> None:
        ledger, message_id = self.ledger, answer.message_id
        row = ledger.accepted.get(message_id)
        if row is None:
            ledger.fail("1 accepted", f"{message_id} was acknowledged and is nowhere")
        ledger.acknowledged[message_id] = answer
        if body_in(row) not in (None, draft.body) or row.get("tags") != (list(draft.tags) or None):
            ledger.fail("1 accepted", f"{message_id} is another message than was asked for at its place")
        if (answer.expires_at, answer.accepted_at) != (row["expires_at"], row["accepted_at"]):
            ledger.fail("1 accepted", f"{message_id}: the answer and the row differ")
        if answer.matched != len(ledger.receipts[message_id].matched):
            ledger.fail("1 accepted", f"{message_id}: told matched {answer.matched}")
        if answer.matched:
            acknowledged_in_order(ledger, row)

    def _idempotent(self, action: Action, place: int, answer: Any, began: int) -> None:
        name = f"{action.idempotency}#{place}"
        earlier = self._claims.get(name)
        fingerprint = str([draft.body for draft in action.drafts])
        if earlier is not None and earlier[0].expires_at > self.ledger.now and earlier[1] == fingerprint:
            first = earlier[0]
            was_live = answer.accepted_at < first.accepted_at and answer.expires_at > began
            if first.message_id != answer.message_id and not was_live:  # Another one began after the end of its claim.
                self.ledger.fail("idempotency", f"{name}: {first.message_id} and {answer.message_id}")
            if earlier[2] < began and first.message_id == answer.message_id and not answer.is_replay:
                self.ledger.fail("idempotency", f"{name}: {answer.message_id} is answered again as if it were new")
        elif earlier is None or earlier[0].expires_at <= began:
            self._claims[name] = (answer, fingerprint, self.ledger.now)


def acknowledged_in_order(ledger: Ledger, row: Row) -> None:
    """Check that a message was acknowledged after the queue took its entries for ordered subscriptions."""
    message_id, ordering = row["message_id"], ledger.stage.plan.ordering
    if ordering is Ordering.NONE or (ordering is Ordering.KEY and row.get("ordering_key") is None):
        return
    for name, ordinals in ledger.queued(message_id).items():
        if _is_kept_in_order(ledger, ordinals) and ledger.group_of.get(name, message_id) == message_id:
            ledger.fail("order", f"{name} has an order and was acknowledged before the queue took it there")


def _is_kept_in_order(ledger: Ledger, ordinals: Iterable[int]) -> bool:
    return any(keeps_order(ledger.owner(each)) for each in ordinals)
