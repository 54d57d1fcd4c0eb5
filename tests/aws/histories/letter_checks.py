"""Dead letters on the box: each delivery that is given up makes one, and one only within its life.

Their topic stands apart from the one that all other checks look at: it has no subscriptions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from tagcast.delivery.dead_letter import DEAD_LETTER_FROM, DEAD_LETTER_OF
from tagcast.rows.message import MESSAGES

from tests.simulation.ledger import Change, Ledger, Receipt, Row

LETTERS, EVENTS = "letters", "events"


class LetterChecks:
    """What subscriptions that name a dead-letter topic give up is published there."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._accepted: dict[tuple[str, str], list[int]] = defaultdict(list)
        """Until when letters of a message and a subscription live."""

    def committed(self, changes: list[Change]) -> list[Change]:
        """Take down new letters; return the changes that are about anything else."""
        for key, old, new in changes:
            if key.pk.startswith(f"MSG#{LETTERS}#") and key.sk == "MSG" and old is None and new is not None:
                self._new(new)
        rest = [change for change in changes if not stands_apart(change[0].pk, change[0].sk)]
        for message_id, before, after in self.ledger.around(rest):
            if before is not None:
                self._given_up(message_id, before, after)
        return rest

    def _new(self, row: Row) -> None:
        ledger, letter = self.ledger, MESSAGES.value_of(row).message
        message_id = letter.properties[DEAD_LETTER_OF]
        topic, _, name = letter.properties[DEAD_LETTER_FROM].partition("/")
        told = f"the letter of {message_id} by {topic}/{name}"
        if topic != ledger.stage.plan.topic or message_id not in ledger.receipts:
            ledger.fail("letters", f"{told}, which never was")
        earlier = self._accepted[message_id, name]
        if earlier and ledger.clocks_agree and letter.accepted_at < earlier[-1]:
            ledger.fail("letters", f"{told} is published twice within its life")
        earlier.append(letter.expires_at)

    def _given_up(self, message_id: str, before: Receipt, after: Receipt) -> None:
        for ordinal in before.pending - after.pending - self.ledger.removed:
            owner = self.ledger.owner(ordinal)
            state, _ = after.terminal(ordinal) or ("", 0)
            of_states = ("discarded", "expired") if "dead_letter_expired" in owner else ("discarded",)
            has_letters = owner.get("dead_letter_topic") == LETTERS and state in of_states
            if has_letters and not self._accepted[message_id, owner["name"]]:
                self.ledger.fail("letters", f"{message_id} ends {state} for {owner['name']} without one")


def stands_apart(pk: str, sk: str) -> bool:
    """Say whether a row is of the topic of letters or of that of events."""
    return any(topic in pk.split("#") or sk.partition("#")[0] == topic for topic in (LETTERS, EVENTS))


def is_told_apart(line: str) -> bool:
    """Say whether a line of the archive is about a letter or an event."""
    fields: dict[str, Any] = json.loads(line)
    return fields.get("topic") in (LETTERS, EVENTS)
