"""The last attempts of a message's deliveries: while they are owed, and of what its receipt remembers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tagcast.instant import rfc3339
from tagcast.model import Entry, PastAttempt
from tagcast.operating.messages import message_view
from tagcast.paging import Page
from tagcast.ports import World


def list_attempts(world: World, topic: str, message_id: str, limit: int, cursor: str | None) -> Page[tuple[str, Entry]]:
    """Return the deliveries of which attempts are remembered, by the names of their subscriptions, after *cursor*.

    What got through is not among them. A page of a wide message is of one section, and may be empty before the last:
    each entry that is owed takes a read. NotFoundError when there is no message nor receipt.
    """
    section, after = _place(cursor or "")
    view = message_view(world, topic, message_id, section)
    found = {name: entry for name, entry in view.subscribers.items() if entry.history and name > after}
    names = sorted(found)[: limit + 1]
    page = tuple((name, found[name]) for name in names[:limit])
    if len(names) > limit:
        return Page(page, page[-1][0] if section == 0 else f"{section} {page[-1][0]}")
    return Page(page, None if view.next_section is None else f"{view.next_section} ")


def _place(cursor: str) -> tuple[int, str]:
    """Return the section that a cursor is of, and the name behind which it goes on.

    >>> _place("orders"), _place("7 orders"), _place("7 ")
    ((0, 'orders'), (7, 'orders'), (7, ''))
    """
    found = re.fullmatch(r"([0-9]{1,5}) (.*)", cursor, re.ASCII | re.DOTALL)
    return (0, cursor) if found is None else (int(found[1]), found[2])


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
