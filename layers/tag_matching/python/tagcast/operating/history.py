"""The messages of a topic in the last days, newest first, with or without pending deliveries.

The service writes no list of these messages. Most ids are read from the newest files of the archive. Ids that are not
archived yet come from the list of retained messages. The messages' rows show their deliveries (docs/semantics.md,
History).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tagcast.errors import CURSOR_FAULT, InvalidRequestError
from tagcast.ids import accepted_at_of, first_id_at
from tagcast.instant import DAY_MS
from tagcast.model import Entry, EntryState, Subscription
from tagcast.operating.messages import PAGE_WITHIN_S, MessageState, MessageView, ViewsOfTopic
from tagcast.ports import ArchivedFile, World
from tagcast.registry.groups import PUBLISHED_S
from tagcast.rows import stored
from tagcast.rows.listed import RETAINED

HISTORY_S_MAX = 3 * 86_400
"""The history covers at most 3 days, because a receipt stays three days after its message's expiry."""
_FILE_MS = 300_000
"""A file is named by the arrival of its oldest record. Its newest record arrived at most this much later (ms)."""
RECENT_MAX = 1_000
READ_AT_ONCE = 25
_BEFORE_ALL = "~"
"""Sorts after every message id, so in a list of the newest first it stands before all messages."""
_CURSOR = re.compile(r"(-|[0-9]{20}) ([0-9]{20}) ([0-9]{1,15}) (\S{1,300}) (~|[0-9]{20})", re.ASCII)
_MESSAGE_ID = b'"message_id":"'


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """The criteria of messages: accepted at *since* or later, and with each value that is not None.

    *property* is a name with its value. *subscription* has a delivery of the message. *state* is a state of the whole
    message or of this delivery; if *subscription* is None, of any delivery.
    """

    since: int
    tag: str | None = None
    property: tuple[str, str] | None = None
    subscription: Subscription | None = None
    state: EntryState | MessageState | None = None

    def is_of_record(self, topic: str, fields: Mapping[str, Any]) -> bool:
        """Return whether the message of an archive record with *fields* may match. Then :meth:`is_of` decides."""
        return (
            fields["topic"] == topic
            and self._fits(fields["accepted_at"], fields.get("tags") or (), fields.get("properties") or {})
            and (self.subscription is None or self._may_have(self.subscription, fields))
        )

    def _may_have(self, subscription: Subscription, fields: Mapping[str, Any]) -> bool:
        """Return whether a record's message may have a delivery to *subscription*.

        The record of a message has no late entries. Any group may have some: its settings may have changed since its
        creation.
        """
        is_older = fields["accepted_at"] < subscription.created_at + PUBLISHED_S * 1000
        return (subscription.settings.is_group and is_older) or subscription.ordinal in fields["matched"]

    def is_of(self, view: MessageView) -> bool:
        """Return whether the message in *view* meets all criteria."""
        draft, counts = view.message.draft, view.counts or {}
        entry = None if self.subscription is None else self._entry(self.subscription, view)
        if self.state is None:
            takes_state = self.subscription is None or entry is not None
        elif isinstance(self.state, MessageState):
            takes_state = view.state is self.state
        elif self.subscription is None:
            takes_state = counts.get(self.state, 0) > 0
        else:
            takes_state = entry is not None and entry.state is self.state
        return takes_state and self._fits(view.message.accepted_at, draft.tags, draft.properties)

    def _entry(self, subscription: Subscription, view: MessageView) -> Entry | None:
        """Return the entry of *subscription*, or None. A deleted subscription with the same name does not count."""
        is_of = view.ordinals.get(subscription.name) == subscription.ordinal
        return view.subscribers.get(subscription.name) if is_of else None

    def _fits(self, accepted_at: int, tags: Collection[str], properties: Mapping[str, str]) -> bool:
        return (
            accepted_at >= self.since
            and (self.tag is None or self.tag in tags)
            and (self.property is None or properties.get(self.property[0]) == self.property[1])
        )


def _needles(topic: str, wanted: HistoryFilter) -> tuple[bytes, ...]:
    """Return texts that occur in the line of every matching record, the rarest first.

    >>> _needles("orders", HistoryFilter(0, tag="a", property=("customer", "42")))
    (b'"customer":"42"', b'"a"', b'"topic":"orders"')
    """
    parts = [f'"topic":{json.dumps(topic)}']
    if wanted.tag is not None:
        parts.append(json.dumps(wanted.tag, ensure_ascii=False))
    if wanted.property is not None:
        parts.append(":".join(json.dumps(part, ensure_ascii=False) for part in wanted.property))
    return tuple(part.encode() for part in reversed(parts))


@dataclass(frozen=True, slots=True)
class _Place:
    """The start of the next page.

    First come retained messages between *archived_id* and *recent_before* (None: these are finished). Then come ids
    below *before* in the *file* that arrived at *arrived_at*. Then come older files.
    """

    recent_before: str | None
    archived_id: str
    arrived_at: int
    file: str
    before: str

    @classmethod
    def read(cls, cursor: str) -> _Place:
        """Return the place in a cursor, or raise InvalidRequestError."""
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            raise InvalidRequestError((CURSOR_FAULT,))
        recent, archived_id, arrived_at, file, before = found.groups()
        return cls(None if recent == "-" else recent, archived_id, int(arrived_at), file, before)

    def __str__(self) -> str:
        return f"{self.recent_before or '-'} {self.archived_id} {self.arrived_at} {self.file} {self.before}"


@dataclass(frozen=True, slots=True)
class History:
    """A page of messages, and the progress of the archive. *cursor* is the place of the next page; None at the last.

    *archive_until* is the acceptance time of the newest message in the archive; None if the archive has no file of the
    last three days.
    """

    messages: tuple[MessageView, ...]
    cursor: str | None
    archive_until: int | None


def read_history(
    world: World,
    topic: str,
    wanted: HistoryFilter,
    limit: int,
    cursor: str | None,
    *,
    size: Callable[[MessageView], int] = lambda view: 0,
    size_max: int = 1,
) -> History:
    """Return at most *limit* of the *wanted* messages of a topic, after *cursor*, newest first.

    Any page may be short or empty. A page ends after :data:`PAGE_WITHIN_S`, or when the sum of the messages' *size*
    reaches *size_max* bytes. Within a file messages are sorted by acceptance; newer files come first. Raises
    NotFoundError, InvalidRequestError (the cursor) and UnavailableError (the archive).
    """
    until = world.clock.monotonic() + PAGE_WITHIN_S
    search = _Search(world, topic, wanted, limit, size, size_max, until, ViewsOfTopic(world, topic))
    place = search.begin() if cursor is None else _Place.read(cursor)
    following = search.run(place)
    return History(
        tuple(search.found), None if following is None else str(following), accepted_at_of(place.archived_id) or None
    )


@dataclass(slots=True)
class _Search:
    world: World
    topic: str
    wanted: HistoryFilter
    limit: int
    size: Callable[[MessageView], int]
    left: int
    until: float
    views: ViewsOfTopic
    found: list[MessageView] = field(default_factory=list)
    files: dict[int, Sequence[ArchivedFile]] = field(default_factory=dict)

    def begin(self) -> _Place:
        """Return the place of the first page: the newest file, and its newest message, even if both are too old."""
        now = self.world.clock.now()
        for file in self._files(now, min(self.wanted.since, now - HISTORY_S_MAX * 1000)):
            ids = [line.partition(_MESSAGE_ID)[2][:20].decode() for line in self.world.message_archive.lines(file.name)]
            newest = max(ids, default=first_id_at(0))
            return _Place(_BEFORE_ALL, newest, file.arrived_at, file.name, _BEFORE_ALL)
        return _Place(_BEFORE_ALL, first_id_at(0), 0, "-", _BEFORE_ALL)

    def run(self, place: _Place) -> _Place | None:
        """Find messages from *place* on; return the next place, or None at the end."""
        if place.recent_before is not None:
            rest = self._take(self._recent(place.archived_id, place.recent_before))
            if rest is not None:
                return replace(place, recent_before=rest)
        if place.file == "-":
            return None
        for file in self._files(place.arrived_at, self.wanted.since):
            if (file.arrived_at, file.name) > (place.arrived_at, place.file):
                continue
            before = place.before if file.name == place.file else _BEFORE_ALL
            here = _Place(None, place.archived_id, file.arrived_at, file.name, before)
            if self._is_over():
                return here
            rest = self._take([each for each in self._matching_ids(file) if each < before])
            if rest is not None:
                return replace(here, before=rest)
        return None

    def _is_over(self) -> bool:
        return self._is_full() or self.world.clock.monotonic() >= self.until

    def _is_full(self) -> bool:
        return len(self.found) >= self.limit or self.left <= 0

    def _take(self, ids: Sequence[str]) -> str | None:
        """Add the matching messages of *ids* to *found*. Return the id before which to continue, or None at the end."""
        for start in range(0, len(ids), READ_AT_ONCE):
            if start and self._is_over():
                return ids[start - 1]
            part = ids[start : start + READ_AT_ONCE]
            for view in self.views.of(part, self.wanted.subscription):  # A wide message takes seconds.
                if self.wanted.is_of(view):
                    self.found.append(view)
                    self.left -= self.size(view)
                if self._is_over() and view.message.message_id != ids[-1]:
                    return view.message.message_id
        return None

    def _recent(self, archived_id: str, before: str) -> list[str]:
        """Return the ids of retained messages newer than the archive, newest first."""
        rows = stored.retained_rows(self.world.store, self.topic, after=archived_id, limit=RECENT_MAX)
        ids = {RETAINED.value_of(row).message_id for row in rows}
        return sorted((each for each in ids if archived_id < each < before), reverse=True)

    def _files(self, until: int, since: int) -> Iterator[ArchivedFile]:
        """Yield files, newest first, from the day of *until* back to the files with records of *since*."""
        first = since - _FILE_MS
        for day in range(min(until, self.world.clock.now()) // DAY_MS, first // DAY_MS - 1, -1):
            if day not in self.files:
                self.files[day] = self.world.message_archive.files(day * DAY_MS)
            yield from (file for file in self.files[day] if file.arrived_at >= first)

    def _matching_ids(self, file: ArchivedFile) -> list[str]:
        """Return the ids of a file's messages that may match, newest first."""
        (rare, *others), ids = _needles(self.topic, self.wanted), set[str]()
        for line in self.world.message_archive.lines(file.name):
            if rare in line and all(needle in line for needle in others):  # Most lines need no parsing.
                fields = json.loads(line)
                if self.wanted.is_of_record(self.topic, fields):
                    ids.add(fields["message_id"])
        return sorted(ids, reverse=True)
