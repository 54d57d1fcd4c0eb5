"""The last attempts of a message's deliveries: while they are owed, and of what its receipt remembers."""

from __future__ import annotations

from collections.abc import Mapping

from tagcast.instant import rfc3339
from tagcast.model import Entry, PastAttempt
from tagcast.operating.messages import message_view
from tagcast.paging import Page
from tagcast.ports import World


def list_attempts(world: World, topic: str, message_id: str, limit: int, cursor: str | None) -> Page[tuple[str, Entry]]:
    """Return the deliveries of which attempts are remembered, by the names of their subscriptions, after *cursor*.

    What got through is not among them. NotFoundError when there is no message nor receipt.
    """
    found: dict[str, Entry] = {}
    section: int | None = 0
    while section is not None:  # It ends: behind the last section comes none.
        view = message_view(world, topic, message_id, section)
        found |= {name: entry for name, entry in view.subscribers.items() if entry.history and name > (cursor or "")}
        section = view.next_section
    names = sorted(found)[: limit + 1]
    page = tuple((name, found[name]) for name in names[:limit])
    return Page(page, page[-1][0] if len(names) > limit else None)


def attempt_json(past: PastAttempt) -> Mapping[str, object]:
    """Return an attempt as people are shown it; what there is not is left out.

    >>> attempt_json(PastAttempt(2, 1_500, 20, "timeout after 5 s"))
    {'attempt': 2, 'ended_at': '1970-01-01T00:00:01.500Z', 'took_ms': 20, 'outcome': 'timeout after 5 s'}
    """
    shown: dict[str, object] = {
        "attempt": past.number,
        "ended_at": rfc3339(past.ended_at),
        "took_ms": past.took_ms,
        "outcome": past.outcome,
    }
    if past.status is not None:
        shown["status"] = past.status
    if past.response:
        shown["response"] = past.response
    return shown
