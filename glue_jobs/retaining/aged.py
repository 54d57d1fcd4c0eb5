"""Erases the parts of messages that are due by their age.

This is not in the job's own script, because workers cannot load a class from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tagcast.instant import rfc3339

from glue_jobs.auditing import history
from glue_jobs.auditing.audit_matching import FiltersByTopic
from glue_jobs.erasing.contents import COLUMNS, Part, forget_parts
from glue_jobs.erasing.places import Eraser
from glue_jobs.io.messages_read import body_of

Until = Mapping[Part, str]
"""Maps each part to the last day whose messages lose it."""


@dataclass(frozen=True)
class AgedErasure(Eraser):
    """Erases the due parts of each record, and records the verdicts of the filters that read these parts.

    *until* maps each part to the last day whose messages lose the part. *filters* has each topic's filter versions.
    """

    until: Until
    filters: Mapping[str, Sequence[history.FilterInForce]]

    @cached_property
    def _topics(self) -> FiltersByTopic:
        return FiltersByTopic(self.filters)

    def erase_record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return *record* without its due parts, or None if it has none."""
        day, gone = rfc3339(record["accepted_at"])[:10], record.get("hashes") or {}
        going = [part for part in due(self.until, day) if part not in gone and _has(record, part)]
        if not going:
            return None
        properties = tuple((record.get("properties") or {}).items())
        body = body_of(record.get("body"), record.get("body_base64"))
        known = (tuple(record.get("tags") or ()), record.get("routing_key"), properties, body)
        filters, life = self._topics[str(record.get("topic"))], (record["accepted_at"], record["expires_at"])
        audited = filters.filters_to_audit(record["subscriptions_version"], record.get("matched") or (), *life)
        names = filters.names_of(known, tuple(gone), going, audited)
        return forget_parts(record, going, matching=sorted({*(record.get("matching") or ()), *names}))

    def must_erase_damaged(self, line: str, arrived: str) -> bool:
        """Return whether a part is due for messages of the day *arrived*. The message's own day is unknown."""
        return bool(due(self.until, arrived))


def _has(record: Mapping[str, Any], part: Part) -> bool:
    return any(record.get(name) is not None for name in COLUMNS[part])


def due(until: Until, day: str) -> list[Part]:
    """Return the parts to erase from the messages that were accepted on *day*.

    *until* maps each part to the last day whose messages lose the part.

    >>> due({Part.BODY: "2026-11-20"}, "2026-11-20"), due({Part.BODY: "2026-11-20"}, "2026-11-21")
    ([<Part.BODY: 'body'>], [])
    """
    return [part for part, last in until.items() if day <= last]
