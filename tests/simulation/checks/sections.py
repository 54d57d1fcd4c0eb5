"""Wide messages: the sections of their maps, each as a receipt of its own, and what the other rows say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tagcast.ports import Key, Table

from tests.simulation.baton import Worker
from tests.simulation.checks.messages import MessageChecks
from tests.simulation.ledger import Change, Ledger, Receipt, Row, body_in, ordinals_in


class SectionChecks:
    """Invariants 1, 2, 3 and 7 on each write of a message whose map is kept in sections."""

    def __init__(self, ledger: Ledger, messages: MessageChecks) -> None:
        self.ledger = ledger
        self._messages = messages

    def committed(self, worker: Worker | None, changes: Sequence[Change], ended: Mapping[tuple[str, int], int]) -> None:
        """Check all that one write or transaction changed of one wide message."""
        message_id = changes[0][0].pk.rpartition("#")[2]
        main = self.ledger.stage.row(self._key(message_id, "MSG"))
        assert main is not None
        for key, old, new in changes:
            if new is not None and key.sk == "MSG":
                self._own(worker, message_id, old, new)
        for key, old, new in changes:
            if new is not None and key.sk.startswith("SECTION#"):
                self._section(worker, message_id, int(key.sk.partition("#")[2]), old, new, ended)
        self._whole(message_id, main)

    def _own(self, worker: Worker | None, message_id: str, old: Row | None, new: Row) -> None:
        """Check the row of the message itself: who matched stays, and it may only come to its end."""
        ledger = self.ledger
        matched = ordinals_in(new["matched"])
        if old is None:
            bounds = sorted(ordinals_in(new["bounds"]))
            ends = [*bounds[1:], 10**9]
            members = [{o for o in matched if low <= o < high} for low, high in zip(bounds, ends, strict=True)]
            most = ledger.stage.plan.section_max
            if (
                len(members) < 2
                or not all(1 <= len(each) <= most for each in members)
                or set().union(*members) != matched
            ):
                ledger.fail("2 sections", f"{message_id}: {matched} in sections of {members}")
            ledger.sections[message_id] = {n: Receipt.unwritten(each) for n, each in enumerate(members)}
            self._messages.accepted(worker, new, Receipt.unwritten(matched))
        elif ordinals_in(new["matched"]) != ordinals_in(old["matched"]) or new["bounds"] != old["bounds"]:
            ledger.fail("immutable", f"{message_id}: whom it matched changed")

    def _section(
        self,
        worker: Worker | None,
        message_id: str,
        number: int,
        old: Row | None,
        new: Row,
        ended: Mapping[tuple[str, int], int],
    ) -> None:
        ledger = self.ledger
        before, now = ledger.sections[message_id][number], Receipt.of(new)
        name = f"{message_id}#{number:05d}"
        self._messages.consistent(name, now, new)
        self._messages.changed(worker, before, now, new if old is None else old, new)
        self._messages.attempts_kept(worker, before, now, message_id, ended)
        ledger.sections[message_id][number] = now

    def _whole(self, message_id: str, main: Mapping[str, object]) -> None:
        """Check what the rows of a message say together after a write, and remember it as one receipt."""
        ledger = self.ledger
        sections = ledger.sections[message_id]
        owed = {number for number, each in sections.items() if each.owed}
        tally = ledger.stage.row(self._key(message_id, "TALLY"))
        over = set() if tally is None else ordinals_in(tally["ended"])
        if over != sections.keys() - owed:
            ledger.fail("2 tally", f"{message_id}: over {over}, owed in {owed}")
        if (body_in(main) is not None, bool(main["pending"]), main["round"] == "open") != (bool(owed),) * 3:
            ledger.fail("2 content", f"{message_id}: owed in {owed}, but {sorted(main)}, pending {main['pending']}")
        known = [sections[number] for number in sorted(sections)]
        ledger.receipts[message_id] = Receipt(
            matched=set().union(*(each.matched for each in known)),
            owed=set().union(*(each.owed for each in known)),
            finished={o: at for each in known for o, at in each.finished.items()},
            exceptions={o: entry for each in known for o, entry in each.exceptions.items()},
            pending=sum(len(each.owed) for each in known),
            is_open=any(each.is_open for each in known),
            has_body=bool(owed),
            version=sum(each.version for each in known),
            handed=frozenset().union(*(each.handed for each in known)),
        )

    def _key(self, message_id: str, sk: str) -> Key:
        return Key(Table.MESSAGES, f"MSG#{self.ledger.stage.plan.topic}#{message_id}", sk)
