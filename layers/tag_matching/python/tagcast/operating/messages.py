"""Use cases of messages: the full state map of one message, and the list of retained messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tagcast.errors import ConflictError, NotFoundError
from tagcast.ids import subscription_id
from tagcast.instant import rfc3339
from tagcast.model import Entry, EntryState, Message, PastAttempt, Subscription, Topic
from tagcast.operating.subscription_names import keep_names, kept_names, subscription_names
from tagcast.ports import Row, World
from tagcast.pushing.circuit import as_waiting
from tagcast.registry.directory import read_topic
from tagcast.registry.filter_history import versions_in_force
from tagcast.rows import stored
from tagcast.rows.codec import dense
from tagcast.rows.due import FailedPulls, PendingDelivery
from tagcast.rows.keys import message_key
from tagcast.rows.listed import RETAINED
from tagcast.rows.message import MessageRow, section_number_of
from tagcast.rows.subscription import FilterVersion
from tagcast.tables import Page

FAILING = frozenset((EntryState.BLOCKED, EntryState.DISCARDED, EntryState.EXPIRED))
"""States that need attention: pending after a failure, or given up."""
PAGE_ENTRIES_MAX = 1_000
FOUND_AT_ONCE = 100
READ_ROWS = 10
PAGE_WITHIN_S = 4.0
"""A page of messages ends after this time, even if it has few. A section of a wide message takes up to 1,000 reads."""
FRONT_ROWS, FRONT_ROWS_MAX = 200, 1_000
"""The rows that are read of each backlog: for lists and wide messages, and for the view of one message."""
ALL_ROWS_MAX, HEAD_ROWS = 10_000, 10
"""After 10,000 rows in all, a request reads only 10 rows of each further backlog."""


class MessageState(StrEnum):
    """The state of a whole message (docs/semantics.md, The state map)."""

    RETAINED = "retained"
    KEPT = "kept"
    DELETED = "deleted"
    EXPIRED = "expired"
    UNMATCHED = "unmatched"


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message or its receipt, with one entry per matched subscription, failures first.

    The view of a wide message has the entries of one section; *next_section* is the next section or None. *counts*
    cover the entries of all sections. *ordinals* has the ordinal of each entry.
    """

    message: Message
    body: bytes | None
    state: MessageState
    subscribers: Mapping[str, Entry]
    filter_errors: tuple[str, ...]
    filter_error_count: int
    next_section: int | None = None
    counts: Mapping[EntryState, int] | None = None
    ordinals: Mapping[str, int] = field(default_factory=dict)


def message_view(
    world: World, topic: str, message_id: str, section: int = 0, only: Collection[EntryState] = ()
) -> MessageView:
    """Return the message or its receipt. Raises NotFoundError if both are gone.

    The view of a wide message has the entries of one *section*; a number that is too high means the last section. The
    view of the first section also has the counts. With *only*, the view has only entries in these states, of *section*
    and the sections after it, until it has about 1,000 entries.
    """
    owner = read_topic(world, topic)
    row = read_message(world, topic, message_id)
    backlogs = BacklogFront(world, owner.topic_id, FRONT_ROWS if row.is_wide else FRONT_ROWS_MAX)
    if not row.is_wide:
        return _select(_of_part(backlogs, owner, row), only)
    if only or section == 0:
        return _of_sections(backlogs, owner, stored.sections(world.store, row), section, only)
    return _of_part(backlogs, owner, stored.with_ends(world.store, row, min(section, len(row.bounds) - 1)))


def find_message(world: World, message_id: str, is_open: Callable[[str], bool] = lambda topic: True) -> str:
    """Return the topic that has a message; search only topics for which *is_open* is true.

    Raises NotFoundError if no topic has it. Raises ConflictError if several topics have it, because an id is unique
    only within its topic.
    """
    topics = [name for name, _ in stored.topic_ids(world.store) if is_open(name)]
    found: list[str] = []
    for start in range(0, len(topics), FOUND_AT_ONCE):
        topics_by_key = {message_key(topic, message_id): topic for topic in topics[start : start + FOUND_AT_ONCE]}
        found += (topics_by_key[key] for key in world.store.get_many(tuple(topics_by_key)))
    if not found:
        raise NotFoundError("message", message_id)
    if len(found) > 1:
        raise ConflictError(f"several topics have a message {message_id}: {', '.join(found)}")
    return found[0]


def _select(view: MessageView, only: Collection[EntryState]) -> MessageView:
    """Return the view of a whole message with its counts and the selected entries."""
    counts = Counter(entry.state for entry in view.subscribers.values())
    chosen = {name: entry for name, entry in view.subscribers.items() if not only or entry.state in only}
    return replace(view, counts=counts, subscribers=chosen)


def _of_part(backlogs: BacklogFront, owner: Topic, row: MessageRow, only: Collection[int] | None = None) -> MessageView:
    """Return the view of a narrow message or one section, with the entries of the ordinals *only*, or all entries.

    A late entry has a name, but no version of its filter was in force when the message was accepted.
    """
    chosen = row.map.matched if only is None else only
    versions = versions_in_force(backlogs.world, row.message.topic, row.subscriptions_version, chosen)
    return _view(backlogs, row, _names(backlogs.world, owner, chosen, versions), versions, chosen)


def _of_sections(
    backlogs: BacklogFront, owner: Topic, parts: Sequence[MessageRow], section: int, only: Collection[EntryState]
) -> MessageView:
    """Return the first section with the counts of all sections.

    With *only*, return the entries in these states instead, from *section* on.
    """
    states = _states_of_parts(backlogs, parts)
    counts = _counts(states) if section == 0 else None
    if not only:
        return replace(_of_part(backlogs, owner, parts[0]), counts=counts)
    entries, ordinals = dict[str, Entry](), dict[str, int]()
    at = min(section, len(parts) - 1)
    view = _of_part(backlogs, owner, parts[at], ())
    while at < len(parts):
        chosen = [ordinal for ordinal, state in states[at].items() if state in only]
        if entries and len(entries) + len(chosen) > PAGE_ENTRIES_MAX:
            break
        if chosen:
            found = _of_part(backlogs, owner, parts[at], chosen)
            for name in entries.keys() & found.subscribers.keys():  # A late entry of a later subscription of this name.
                entries[f"{name}#{ordinals[name]}"] = entries.pop(name)
            entries |= found.subscribers
            ordinals |= found.ordinals
        at += 1
    return replace(view, subscribers=entries, counts=counts, next_section=at if at < len(parts) else None)


def _states_of_parts(backlogs: BacklogFront, parts: Sequence[MessageRow]) -> list[dict[int, EntryState]]:
    pulls = _pulls(backlogs.world, next((part for part in parts if part.map.enqueued), parts[0]))
    return [_states(backlogs, part, pulls) for part in parts]


def _counts(states: Iterable[Mapping[int, EntryState]]) -> Mapping[EntryState, int]:
    return Counter(state for part in states for state in part.values())


def _states(backlogs: BacklogFront, row: MessageRow, pulls: Mapping[int, FailedPulls]) -> dict[int, EntryState]:
    """Return the states of a part of a map, without the reads that a full entry needs."""
    expired = row.message.is_expired(backlogs.now)
    waiting = (row.map.waiting | row.map.enqueued) - pulls.keys()
    return {
        ordinal: row.map.entry(ordinal).state
        if ordinal not in row.map.pending
        else EntryState.EXPIRED
        if expired
        else EntryState.PENDING
        if ordinal in waiting
        else EntryState.BLOCKED
        for ordinal in sorted(row.map.matched)
    }


def read_message(world: World, topic: str, message_id: str) -> MessageRow:
    """Return the stored message, with its state map if it is narrow, or raise NotFoundError."""
    row = stored.accepted(world.store, topic, message_id)
    if row is None:
        raise NotFoundError("message", message_id)
    return row if row.is_wide else stored.with_ends(world.store, row, None)


def list_retained(
    world: World, topic: str, limit: int, cursor: str | None, *, size: Callable[[MessageView], int], size_max: int
) -> Page[MessageView]:
    """Return the messages pending after their first round, oldest first, after *cursor*.

    A wide message appears once for each section with pending deliveries, with the entries of that section. A page has
    at most *limit* messages, ends after :data:`PAGE_WITHIN_S`, and ends before the sum of their *size* exceeds
    *size_max* bytes. A larger message is a page of its own. Rows are read a few at a time, because each may be large.
    """
    until = world.clock.monotonic() + PAGE_WITHIN_S
    views = ViewsOfTopic(world, topic)
    listed = stored.retained_rows(world.store, topic, after=cursor or "", limit=limit + 1)
    shown: list[MessageView] = []
    total, last = 0, None
    for place, row in _rows(world, topic, listed[:limit]):
        view = None if row is None else views.as_read(row)
        if view is not None and view.state is MessageState.RETAINED:
            total += size(view)
            if shown and total > size_max:
                break
            shown.append(view)
        last = place
        if world.clock.monotonic() >= until:
            break
    return Page(tuple(shown), last if listed and last != stored.place(listed[-1]) else None)


def _rows(world: World, topic: str, listed: Sequence[Row]) -> Iterator[tuple[str, MessageRow | None]]:
    for start in range(0, len(listed), READ_ROWS):
        part = [(stored.place(row), RETAINED.value_of(row)) for row in listed[start : start + READ_ROWS]]
        found = stored.messages(world.store, topic, list({each.message_id: None for _, each in part}))
        for place, each in part:
            row = found.get(each.message_id)
            yield place, None if row is None else stored.with_ends(world.store, row, each.section)


def _names(
    world: World, topic: Topic, ordinals: Collection[int], versions: Mapping[int, FilterVersion]
) -> Mapping[int, str]:
    """Return the names of *ordinals*; take them from *versions* as far as possible."""
    keep_names(world, topic.topic_id, {ordinal: version.name for ordinal, version in versions.items()})
    return subscription_names(world, topic.name, topic.topic_id, ordinals)


class ViewsOfTopic:
    """Builds views of many messages of one topic. It reads each name and each backlog only once."""

    def __init__(self, world: World, topic: str) -> None:
        self._world, self._topic = world, topic
        self._owner = read_topic(world, topic)
        self._backlogs = BacklogFront(world, self._owner.topic_id)

    def as_read(self, row: MessageRow) -> MessageView:
        """Return the view of *row*: a narrow message, or one section of a wide message.

        The states in separate rows of the message must be merged into *row* (:func:`tagcast.rows.stored.with_ends`).
        """
        versions: Mapping[int, FilterVersion] = {}
        if row.is_wide:  # Avoid reading all names of its topic, which may be many megabytes.
            unknown = row.map.matched - kept_names(self._world, self._owner.topic_id, row.map.matched).keys()
            versions = versions_in_force(self._world, row.message.topic, row.subscriptions_version, unknown)
        return _view(self._backlogs, row, _names(self._world, self._owner, row.map.matched, versions), None)

    def of(self, message_ids: Sequence[str], owner: Subscription | None = None) -> Iterator[MessageView]:
        """Yield the views of at most 100 messages, with the counts of their entries; missing messages are left out.

        The view of a wide message shows the section with the subscription *owner*; without *owner*, the first section.
        """
        found = stored.messages(self._world.store, self._topic, message_ids)
        for row in (found[each] for each in message_ids if each in found):
            if row.is_wide:
                parts = stored.sections(self._world.store, row)
                shown = 0 if owner is None else section_number_of(row, owner.ordinal)
                counts = _counts(_states_of_parts(self._backlogs, parts))
                yield replace(self.as_read(parts[shown]), counts=counts)
            else:
                yield _select(self.as_read(stored.with_ends(self._world.store, row, None)), ())


class BacklogFront:
    """The fronts of a topic's backlogs: the first *rows_max* due rows of each, read at most once.

    Due rows are sorted by position, so a row cannot be read by its message id. Deliveries behind a front are shown
    without attempts, although they may have some under INDEPENDENT_RETRY.
    """

    def __init__(self, world: World, topic_id: str, rows_max: int = FRONT_ROWS) -> None:
        self.world, self.now = world, world.clock.now()
        self._topic_id, self._rows_max, self._left = topic_id, rows_max, ALL_ROWS_MAX
        self._dues: dict[int, dict[str, PendingDelivery]] = {}

    def due(self, ordinal: int, message_id: str) -> PendingDelivery | None:
        """Return the due row of one entry; None if the row is not in the front of the backlog."""
        if ordinal not in self._dues:
            limit = self._rows_max if self._left > 0 else HEAD_ROWS
            dues = stored.dues(self.world.store, subscription_id(self._topic_id, ordinal), limit=limit)
            self._left -= len(dues)
            self._dues[ordinal] = {due.message_id: due for due in reversed(as_waiting(dues, dues[0] if dues else None))}
        return self._dues[ordinal].get(message_id)


def _view(
    backlogs: BacklogFront,
    row: MessageRow,
    known: Mapping[int, str],
    versions: Mapping[int, FilterVersion] | None,
    only: Collection[int] | None = None,
) -> MessageView:
    entries, ordinals = dict[str, Entry](), dict[str, int]()
    pulls, expired = _pulls(backlogs.world, row), row.message.is_expired(backlogs.now)
    shown = sorted(row.map.matched if only is None else only)
    # Two may have one name: a deleted subscription, and a group that was created again and got older messages.
    newest = {known.get(ordinal): ordinal for ordinal in shown}
    for ordinal in shown:
        entry = _entry(backlogs, row, ordinal, pulls)
        if versions is not None and ordinal in versions and ordinal not in row.map.added_later:
            entry = replace(entry, filter_version=versions[ordinal].version)
        name = known.get(ordinal, "")
        shown_as = name if name and newest[name] == ordinal else f"{name}#{ordinal}"
        entries[shown_as], ordinals[shown_as] = entry, ordinal
    following = 1 if row.section is None else row.section + 1
    return MessageView(
        message=row.message,
        body=row.message.draft.body if row.has_body and not expired else None,
        state=_state(row, expired=expired),
        subscribers=dict(sorted(entries.items(), key=lambda named: named[1].state not in FAILING)),
        filter_errors=row.filter_errors,
        filter_error_count=row.filter_error_count,
        next_section=following if following < len(row.bounds) else None,
        ordinals=ordinals,
    )


def entry_view(world: World, row: MessageRow, ordinal: int) -> Entry | None:
    """Return the entry of *ordinal* without its filter version; None if this subscription did not match the message.

    Only the backlog of this subscription is read.
    """
    if ordinal not in row.map.matched:
        return None
    backlogs = BacklogFront(world, read_topic(world, row.message.topic).topic_id, FRONT_ROWS_MAX)
    return _entry(backlogs, row, ordinal, _pulls(world, row))


def _pulls(world: World, row: MessageRow) -> Mapping[int, FailedPulls]:
    return stored.failed_pulls(world.store, *row.names) if row.map.enqueued else {}


def _state(row: MessageRow, *, expired: bool) -> MessageState:
    if row.map.pending_count or (row.is_wide and row.is_pending):
        return MessageState.EXPIRED if expired else MessageState.RETAINED
    if row.is_kept and row.has_body and not expired:
        return MessageState.KEPT
    return MessageState.DELETED if row.map.matched else MessageState.UNMATCHED


def _entry(backlogs: BacklogFront, row: MessageRow, ordinal: int, pulls: Mapping[int, FailedPulls]) -> Entry:
    """Return one entry with the current attempts from its due row or pulls. The clock, not the TTL, decides expiry.

    A late entry includes the time at which it was added, and the filter version that matched.
    """
    in_map, expired = row.map, row.message.is_expired(backlogs.now)
    is_enqueued, late = ordinal in in_map.enqueued, in_map.added_later.get(ordinal)
    if ordinal not in in_map.pending:
        entry = in_map.entry(ordinal)
    elif known := pulls.get(ordinal) if is_enqueued else backlogs.due(ordinal, row.message.message_id):
        entry = known.entry(EntryState.EXPIRED if expired else EntryState.BLOCKED)
    else:
        waits = EntryState.PENDING if is_enqueued or ordinal in in_map.waiting else EntryState.BLOCKED
        entry = Entry(EntryState.EXPIRED if expired else waits)
    return entry if late is None else replace(entry, filter_version=late.filter_version, added_at=late.added_at)


def list_attempts(world: World, topic: str, message_id: str, limit: int, cursor: str | None) -> Page[tuple[str, Entry]]:
    """Return the deliveries with stored attempts, by subscription name, after *cursor*.

    Successful deliveries are not included. A page of a wide message covers one section, because each pending entry
    takes a read. A page before the last may be empty. Raises NotFoundError if the message and its receipt were deleted.
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
    """Return the section in a cursor, and the name after which it continues.

    >>> _place("orders"), _place("7 orders"), _place("7 ")
    ((0, 'orders'), (7, 'orders'), (7, ''))
    """
    found = re.fullmatch(r"([0-9]{1,5}) (.*)", cursor, re.ASCII | re.DOTALL)
    return (0, cursor) if found is None else (int(found[1]), found[2])


def attempt_json(past: PastAttempt) -> Mapping[str, object]:
    """Return an attempt as JSON for display, without missing values.

    >>> attempt_json(PastAttempt(2, 1_500, 20, "timeout after 5 s"))
    {'attempt': 2, 'ended_at': '1970-01-01T00:00:01.500Z', 'took_ms': 20, 'outcome': 'timeout after 5 s'}
    """
    return dense(
        {
            "attempt": past.number,
            "ended_at": rfc3339(past.ended_at),
            "took_ms": past.took_ms,
            "outcome": past.outcome,
            "status": past.status,
            "response": past.response or None,
        }
    )
