"""The end of a history: everything is settled, the receipts add up, and the API says the same."""

from collections import Counter

from tagcast.errors import NotFoundError
from tagcast.operating import messages as messages_use_case
from tagcast.ports import Key, Table

from tests.simulation.ledger import Ledger, Receipt, Row, is_group

TAKING_TIME = ("slow", "hanging", "dripping")
ASLEEP = ("paused", "suspended", "removed")


class QuiescenceChecks:
    """Liveness, conservation, isolation, and the time to live."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.outlived: set[str] = set()  # Messages of which the time to live has taken a row, days after their end.

    def unsettled(self) -> str:
        """Say what is not settled yet; empty if everything is."""
        ledger = self.ledger
        for message_id, known in ledger.receipts.items():
            if known.pending_count:
                return f"{message_id} still has pending {sorted(known.pending)}"
            own = ledger.stage.row(Key(Table.MESSAGES, f"MSG#{ledger.stage.plan.topic}#{message_id}", "MSG"))
            if own is not None and own["pending"]:
                return f"{message_id} has nothing pending and was not released"
        for sid, number in ledger.dues_of.items():
            if number:
                return f"{number} due rows of {sid} in the backlog"
        for sid, lane in ledger.lanes.items():
            overdue = lane["state"] == "removed" and lane.get("wake_at") is not None and lane["wake_at"] < ledger.now
            if lane["state"] not in ASLEEP or overdue:
                return f"lane {sid} is {lane['state']}"
        return ""

    def at_the_end(self) -> Counter[str]:
        """Check that nothing is lost or counted twice; return the numbers of entries by state."""
        ledger = self.ledger
        topic = ledger.stage.plan.topic
        for message_id, answer in ledger.acknowledged.items():
            key = Key(Table.MESSAGES, f"MSG#{topic}#{message_id}", "MSG")
            if message_id not in self.outlived and ledger.stage.row(key) is None:
                ledger.fail("1 accepted", f"{message_id} was acknowledged and is lost")
            if answer.matched != len(ledger.receipts[message_id].matched):
                ledger.fail("conservation", f"{message_id}: told {answer.matched}")
        totals: Counter[str] = Counter()
        offered = 0
        for message_id, known in ledger.receipts.items():
            present = ledger.registry[ledger.accepted[message_id]["subscriptions_version"]]
            offered += len(present)
            totals["unmatched"] += len(present.keys() - known.matched)
            for ordinal in known.matched:
                terminal = known.terminal(ordinal)
                if terminal is None:
                    ledger.fail("conservation", f"{message_id} #{ordinal} has no end")
                totals[terminal[0]] += 1
            if message_id not in self.outlived:
                self._same_as_told(message_id, known)
        if sum(totals.values()) != offered:
            ledger.fail("conservation", f"{offered} messages × subscriptions, but {dict(totals)}")
        self._isolated()
        return totals

    def removed_by_ttl(self, key: Key, old: Row) -> None:
        """Invariant 7: the time to live takes nothing that is pending or still needed."""
        ledger = self.ledger
        kind = key.pk.partition("#")[0]
        if kind == "MSG" and old.get("pending"):
            ledger.fail("7 life", f"TTL takes {old['message_id']}, which is pending")
        if kind == "MSG":
            self.outlived.add(key.pk.rpartition("#")[2])
        if kind == "RETAINED":
            ledger.fail("7 life", f"TTL takes {key.sk} from the list of what is retained")
        if kind == "DUE" and ordinal_pending(ledger, key):
            ledger.fail("7 life", f"TTL takes the due row {key.sk}, which is pending")
        if kind == "LANES" and ledger.dues_of[key.sk]:
            ledger.fail("7 life", f"TTL takes lane {key.sk} before its backlog")
        if kind == "IDEM" and ledger.clocks_agree and old["expires_at"] > ledger.now:
            ledger.fail("idempotency", f"TTL takes {key.pk} before its end")

    def _same_as_told(self, message_id: str, known: Receipt) -> None:
        world, topic = self.ledger.stage.world(), self.ledger.stage.plan.topic
        told: list[tuple[str, int]] = []
        section: int | None = 0
        while section is not None:
            try:
                view = messages_use_case.message_view(world, topic, message_id, section)
            except NotFoundError:
                self.ledger.fail("conservation", f"{message_id} is not found")
            if view.body is not None:
                self.ledger.fail("2 content", f"{message_id} shows a body")
            told += ((entry.state.value, entry.attempts) for entry in view.subscribers.values())
            section = view.next_section
        told.sort()
        stored = sorted(known.terminal(ordinal) or ("none", 0) for ordinal in known.matched)
        if told != stored:
            self.ledger.fail("conservation", f"{message_id}: told {told}, stored {stored}")

    def _isolated(self) -> None:
        """Check the attempts if only endpoints misbehaved: each subscriber without commands got those of its strategy.

        Healthy ones among them got everything at the first attempt.
        """
        ledger, plan = self.ledger, self.ledger.stage.plan
        if plan.faults - {"other_form", "ttl"}:
            return
        touched = {action.subscriber for action in plan.actions if action.kind not in ("publish", "repush", "sweep")}
        repushed = any(action.kind == "repush" for action in plan.actions)
        for (message_id, ordinal), pushes in ledger.attempts.items():
            owner = ledger.owner(ordinal)
            alone = not repushed and owner["name"] not in touched and not is_group(owner)
            counted = sum(push.counts for push in pushes)
            if alone and counted > ledger.attempts_max(message_id, ordinal):
                ledger.fail("attempts and gaps", f"{message_id} was pushed to #{ordinal} {counted} times")
        healthy = {subscriber.name for subscriber in plan.subscribers if subscriber.mode == "healthy"} - touched
        fine = [("delivered", 1), ("filtered", 0)]
        slow = any(subscriber.mode in TAKING_TIME for subscriber in plan.subscribers)
        if slow or plan.section_max < len(
            plan.subscribers
        ):  # Sections are served one by one, and few fit into a batch.
            fine.append(("expired", 0))  # A life of a minute may end while earlier batches wait for their slowest push.
        limited = {each.name for each in plan.subscribers if each.settings.max_per_second is not None}
        for message_id, known in ledger.receipts.items():
            for ordinal in known.matched:
                state, name = known.terminal(ordinal), ledger.owner(ordinal)["name"]
                if name in limited and state == ("expired", 0):  # Its own rate may be too low for a life of a minute.
                    continue
                if name in healthy and state not in fine:
                    ledger.fail("isolation", f"{message_id} #{ordinal} ended {state}")


def ordinal_pending(ledger: Ledger, due: Key) -> bool:
    """Say whether the entry of a due row is pending."""
    known = ledger.receipts.get(due.sk.partition("#")[2])
    return known is not None and int(due.pk.rpartition(".")[2]) in known.pending
