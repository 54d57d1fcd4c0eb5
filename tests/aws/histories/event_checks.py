"""Events on the box: each change that is trouble makes one, and one only within its life; nothing else does.

Their topic stands apart from the one that all other checks look at: it has no subscriptions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tagcast.archive.events import BURST
from tagcast.rows.claim import CLAIM_ROWS

from tests.simulation.ledger import Change, Ledger

CLAIM = re.compile(r"IDEM#[^#]+#event (.+)")
"""The key of an event's claim; only the archive publishes with such names."""
TROUBLE = {"blocked", "lost_contact", "suspended"}


class EventChecks:
    """What the archive tells of trouble is published to the events topic."""

    def __init__(self, ledger: Ledger, *, is_asked_for: bool) -> None:
        self.ledger = ledger
        self._is_asked_for = is_asked_for
        self._until: dict[str, list[int]] = defaultdict(list)
        """Until when the events of a record live."""

    def committed(self, changes: list[Change]) -> None:
        """Take down new events."""
        for key, _, new in changes:
            if CLAIM.fullmatch(key.pk) and new is not None:
                accepted, earlier = CLAIM_ROWS.value_of(new).accepted, self._until[key.pk]
                if earlier and self.ledger.clocks_agree and accepted.accepted_at < earlier[-1]:
                    self.ledger.fail("events", f"{key.pk} is published twice within its life")
                earlier.append(accepted.expires_at)

    def at_the_end(self, archived: Iterable[Any]) -> None:
        """Compare with the records of the archive."""
        records = list(archived)
        wanted = {str(each.fields["record_id"]) for each in records if is_trouble(each.kind, each.fields)}
        wanted |= newly_unverified(each.fields for each in records if each.kind == "subscriptions")
        told = {CLAIM.sub(r"\1", pk) for pk in self._until}
        if invented := sorted(told - wanted):
            self.ledger.fail("events", f"{invented[0]} is told, which is no trouble")
        if self._is_asked_for and len(wanted) <= BURST and (missing := sorted(wanted - told)):
            self.ledger.fail("events", f"nobody is told of {missing[0]}")


def is_trouble(kind: str, fields: Mapping[str, Any]) -> bool:
    """Say whether a record of the archive is an event of its topic."""
    if kind == "lanes":
        before, after = fields["previous_state"], fields["state"]
        return before != after and (before in TROUBLE or after in TROUBLE)
    return kind == "deliveries" and fields["state"] in ("discarded", "expired")


def newly_unverified(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the records of subscriptions whose endpoint was verified, or another, in the version before."""
    found, before = set[str](), dict[tuple[str, int], Mapping[str, Any]]()
    settings = (each for each in records if each["part"] == "settings")
    of_settings = {(each["topic_id"], each["ordinal"], each["version"]): each for each in settings}
    for (topic_id, ordinal, _), fields in sorted(of_settings.items()):
        known = before.get((topic_id, ordinal), {})
        if "unverified" in fields and ("unverified" not in known or known["endpoint"] != fields["endpoint"]):
            found.add(str(fields["record_id"]))
        before[topic_id, ordinal] = fields
    return found
