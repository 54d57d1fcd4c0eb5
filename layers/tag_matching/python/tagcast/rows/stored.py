"""Reads values from the tables: ``stored.lane(...)``, ``stored.accepted(...)``, ``stored.dues(...)``.

Some functions return raw rows, which the caller decodes one by one. So one corrupt row does not hide the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tagcast.membership import Member, Registration
from tagcast.model import Entry, Subscription, Topic
from tagcast.ports import Store
from tagcast.queues import Audience
from tagcast.rows import keys
from tagcast.rows.due import DUES, PULLED, FailedPulls, PendingDelivery
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.member import MEMBERS, REGISTRATIONS
from tagcast.rows.message import MESSAGES, MessageRow, members_of, memberships, parts_of, section_number_of
from tagcast.rows.message_transitions import ENDS, LATE, ROUNDS, RoundRow
from tagcast.rows.shadow import SHADOWS, Shadow
from tagcast.rows.state_map import AddedLater, StateMap
from tagcast.rows.subscription import FILTER_VERSIONS, SUBSCRIPTIONS, FilterVersion
from tagcast.rows.topic import TOPICS, names_changed
from tagcast.rows.values import number, text
from tagcast.tables import Key, Row, Table

accepted = MESSAGES.read
"""Returns an accepted message, and if it is narrow also its first rounds; None after its receipt expired."""
lane, topic, subscription = LANES.read, TOPICS.read, SUBSCRIPTIONS.read
"""Return a lane (None while it is active), a topic or a subscription (None if it is missing)."""
KEYS_AT_ONCE = 100
ORDINAL_MAX = 10**10 - 1
"""The largest ordinal that a key can contain."""
ROWS_AT_ONCE = 1_000
"""The most rows of one read. A subscription has up to 70 KB, so all of a large topic may not fit into memory."""


def closed_message(store: Store, topic: str, message_id: str) -> MessageRow | None:
    """Return a message with its whole state map, or None.

    None means that the message's receipt expired, or that the message is wide and certainly has a pending delivery. The
    second is found by a sample of the deliveries, without reading all ends.
    """
    pk = keys.message_key(topic, message_id).pk
    rounds = store.query(Table.MESSAGES, pk, sk_from="MSG")
    if not rounds or rounds[0]["sk"] != "MSG":
        return None
    row = MESSAGES.value_of(rounds[0])
    if row.is_wide and _is_surely_pending(store, row, rounds[1:]):
        return None
    return fold_rows(row, [*rounds[1:], *store.query(Table.MESSAGES, pk, sk_to="LATE$")])


def _is_surely_pending(store: Store, row: MessageRow, rounds: Sequence[Row]) -> bool:
    """Return whether a section has no row of its round, or one of 100 sampled deliveries has no end.

    Without this check, each batch of ends of a message with 100,000 failures would read all earlier ends again.
    """
    if len(rounds) < len(row.bounds):
        return True
    closed = [done for each in rounds if (done := ROUNDS.value_of(each).round) is not None]
    pending = sorted(row.map.matched.difference(*((*done.finishes, *done.ended) for done in closed)))
    samples = pending[:: -(1 + len(pending) // KEYS_AT_ONCE)]
    return len(_all(store, [keys.end_key(*row.names, ordinal) for ordinal in samples])) < len(samples)


def fold_rows(row: MessageRow, beside: Iterable[Row]) -> MessageRow:
    """Return the message or section *row* with the states from *beside*, the message's separate rows.

    If *row* is a section, rows of other sections are ignored.
    """
    ends: dict[int, Entry] = {}
    enqueued, late = set[int](), dict[int, AddedLater]()
    rounds: dict[int, dict[Audience, RoundRow]] = {}
    for each in beside:
        match text(each, "sk").partition("#")[0]:
            case "END":
                ends[number(each, "ordinal")] = ENDS.value_of(each).entry
            case "ENQUEUED":
                enqueued.add(number(each, "ordinal"))
            case "LATE":
                late[number(each, "ordinal")] = LATE.value_of(each).added
            case "ROUND":
                done = ROUNDS.value_of(each)
                rounds.setdefault(done.section, {})[done.audience] = done
    if not row.is_wide:
        if not (ends or enqueued or late):
            return row
        return replace(row, map=StateMap.fold(parts_of(row, row.rounds), ends, enqueued, late))
    if row.section is not None:
        one, is_last = _with_rounds(row, rounds.get(row.section, {})), row.section == len(row.bounds) - 1
        late = late if is_last else {}
        ends = {each: end for each, end in ends.items() if each in row.map.matched or each in late}
        return replace(one, map=StateMap.fold(parts_of(one, one.rounds), ends, enqueued, late))
    sections = [_with_rounds(one, rounds.get(at, {})) for at, one in enumerate(_sections(row))]
    parts = [part for one in sections for part in parts_of(one, one.rounds)]
    return replace(row, map=StateMap.fold(parts, ends, enqueued, late))


def _section(row: MessageRow, section: int) -> MessageRow:
    return _with_members(row, section, members_of(row, section))


def _sections(row: MessageRow) -> list[MessageRow]:
    """Return all sections of a wide message whose whole map was read."""
    return [_with_members(row, at, members) for at, members in enumerate(memberships(row))]


def _with_members(row: MessageRow, section: int, members: frozenset[int]) -> MessageRow:
    return replace(row, section=section, map=row.map.within(members), in_order=row.in_order & members)


def _with_rounds(row: MessageRow, found: Mapping[Audience, RoundRow]) -> MessageRow:
    """Return a section with its rounds, taken from *found*."""
    rounds = {each: found[each].round if each in found else None for each in row.audiences}
    return replace(row, rounds=rounds, partial={each: one.partial for each, one in found.items()})


def message_with(store: Store, topic: str, message_id: str, ordinal: int) -> MessageRow | None:
    """Return a message with the current entry of *ordinal*; None if the message is missing.

    Of a wide message, the result is the section with this entry. Separate rows are read only for this entry, so other
    entries may have an earlier state.
    """
    return messages_with(store, topic, (message_id,), ordinal).get(message_id)


def messages_with(store: Store, topic: str, message_ids: Sequence[str], ordinal: int) -> dict[str, MessageRow]:
    """Return the results of :func:`message_with` for at most 100 messages, by id, in the order of *message_ids*.

    Missing messages are left out.
    """
    of_each = {
        message_id: (
            keys.message_key(topic, message_id),
            keys.end_key(topic, message_id, ordinal),
            keys.enqueued_key(topic, message_id, ordinal),
        )
        for message_id in message_ids
    }
    found = _all(store, [key for three in of_each.values() for key in three])
    rows = {each: MESSAGES.value_of(found[three[0]]) for each, three in of_each.items() if three[0] in found}
    more: dict[str, list[Key]] = {}
    for each, row in rows.items():
        if row.is_wide:
            rows[each] = row = _section(row, section_number_of(row, ordinal))
            more[each] = _round_keys(row)
        if row.late and ordinal not in row.map.matched:
            more.setdefault(each, []).append(keys.late_key(topic, each, ordinal))
    found |= _all(store, [key for some in more.values() for key in some])
    return {
        each: fold_rows(row, [found[key] for key in (*of_each[each][1:], *more.get(each, ())) if key in found])
        for each, row in rows.items()
    }


def _round_keys(row: MessageRow) -> list[Key]:
    assert row.section is not None
    return [keys.round_key(*row.names, row.section, each.value) for each in row.audiences]


def _all(store: Store, wanted: Sequence[Key]) -> dict[Key, Row]:
    found: dict[Key, Row] = {}
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        found |= store.get_many(wanted[start : start + KEYS_AT_ONCE])
    return found


def read_again(store: Store, row: MessageRow) -> MessageRow | None:
    """Return the present state of the message or section *row*, including ends; None if its receipt expired."""
    found = accepted(store, *row.names)
    return None if found is None else with_ends(store, found, row.section)


def read_addressed(store: Store, topic: str, message_ids: Sequence[str], number: int | None) -> dict[str, MessageRow]:
    """Return the messages of a queue entry by id, at most 100, in the given order; missing ones are left out.

    *number* is the entry's section. If it is None, only narrow messages are returned; otherwise each value is this
    section of a wide message. Rows of single deliveries are read only if the message has late entries, or ends from
    before the round was closed.
    """
    rows = messages(store, topic, message_ids)
    if number is None:
        rows = {each: row for each, row in rows.items() if not row.is_wide}
    else:
        rows = {each: _section(row, number) for each, row in rows.items() if number < len(row.bounds)}
        for each, row in rows.items():
            rows[each] = fold_rows(row, store.get_many(_round_keys(row)).values())
    for each, row in rows.items():
        if row.late or any(row.partial.values()):
            rows[each] = _with_ends(store, row)
    return rows


def messages(store: Store, topic: str, message_ids: Sequence[str]) -> dict[str, MessageRow]:
    """Return at most 100 messages by id, without their separate rows, in the given order; missing ones are left out."""
    wanted = {message_id: keys.message_key(topic, message_id) for message_id in message_ids}
    found = store.get_many(tuple(wanted.values()))
    return {message_id: MESSAGES.value_of(found[key]) for message_id, key in wanted.items() if key in found}


def _with_ends(store: Store, row: MessageRow) -> MessageRow:
    """Return *row*, a message or one section, with the states from all its separate rows."""
    low, high = keys.end_key(*row.names, 0), keys.message_key(*row.names)
    if row.is_wide and row.section is None:
        return fold_rows(row, store.query(Table.MESSAGES, low.pk))
    if row.section is None:
        return fold_rows(row, store.query(Table.MESSAGES, low.pk, sk_from=low.sk, sk_to=high.sk))
    first, *behind = row.bounds[row.section : row.section + 2]
    last = behind[0] - 1 if behind else ORDINAL_MAX
    # The rounds first: the write that closes a round must know all ends that the round's row counts.
    rows = list(store.get_many(_round_keys(row)).values())
    for key_of in (keys.end_key, keys.enqueued_key):
        rows += _between(store, key_of(*row.names, first), key_of(*row.names, last))
    if not behind:  # The last section has the late entries.
        rows += _between(store, *keys.all_like(replace(low, sk="LATE#")))
    return fold_rows(row, rows)


def with_ends(store: Store, row: MessageRow, section: int | None) -> MessageRow:
    """Return a message, or one *section* of a wide message, with the states from all its separate rows."""
    return _with_ends(store, row if section is None else _section(row, section))


def sections(store: Store, row: MessageRow, *, rounds_only: bool = False) -> list[MessageRow]:
    """Return all sections of a wide message, or the narrow message as the only item.

    With *rounds_only*, the rows of single deliveries of a wide message are not read, only its rounds.
    """
    if not row.is_wide:
        return [_with_ends(store, row)]
    rows: list[list[Row]] = [[] for _ in row.bounds]
    own = keys.message_key(*row.names)
    for each in store.query(own.table, own.pk, sk_from=own.sk if rounds_only else ""):
        kind, _, place = text(each, "sk").partition("#")
        if kind == "ROUND":
            rows[int(place.partition("#")[0])].append(each)
        elif kind != "MSG":
            rows[section_number_of(row, int(place))].append(each)
    return [fold_rows(one, its) for one, its in zip(_sections(row), rows, strict=True)]


def message_rows(store: Store, topic: str, message_ids: Sequence[str]) -> list[Row]:
    """Return the existing rows of at most 100 messages."""
    return list(store.get_many([keys.message_key(topic, message_id) for message_id in message_ids]).values())


def lanes(store: Store, topic: str, subscription_ids: Iterable[str]) -> dict[str, Lane]:
    """Return the lanes of these subscriptions by subscription id, without active lanes.

    The result may contain other lanes of the topic, because one query of all lanes costs less than a read of each. If
    many lanes of the topic are not active, only these subscriptions are read.
    """
    rows = store.query(Table.MESSAGES, keys.lane_key(topic, "").pk, limit=ROWS_AT_ONCE)
    if len(rows) == ROWS_AT_ONCE:
        return lanes_of(store, topic, subscription_ids)
    return {each.subscription_id: each for each in map(LANES.value_of, rows)}


def lanes_of(store: Store, topic: str, subscription_ids: Iterable[str]) -> dict[str, Lane]:
    """Return the lanes of these subscriptions, by subscription id. Active lanes are left out."""
    found = map(LANES.value_of, _all(store, [keys.lane_key(topic, each) for each in subscription_ids]).values())
    return {each.subscription_id: each for each in found}


def lane_rows(store: Store, topic: str) -> Iterator[Row]:
    """Yield the rows of a topic's lanes that are not active, read in parts."""
    return _in_parts(store, keys.lane_key(topic, ""), keys.lane_key(topic, ":"))


def dues(store: Store, subscription_id: str, *, after: str = "", limit: int | None = None) -> list[PendingDelivery]:
    """Return the deliveries of a backlog, in order; at most *limit*, or all if *limit* is None.

    The first one comes after *after*, a :attr:`.PendingDelivery.place`. An empty *after* means the start.
    """
    return [DUES.value_of(row) for row in due_rows(store, subscription_id, after=after, limit=limit)]


def due_rows(store: Store, subscription_id: str, *, after: str = "", limit: int | None = None) -> list[Row]:
    """Return the rows of a backlog, with the parameters of :func:`dues`."""
    pk = keys.due_key(subscription_id, "", "").pk
    return store.query(Table.MESSAGES, pk, sk_from=_behind(after), limit=limit)


def failed_pulls(store: Store, topic: str, message_id: str) -> dict[int, FailedPulls]:
    """Return the failed pulls of a message, by the ordinal of the group."""
    rows = store.query(Table.MESSAGES, keys.pulled_key(topic, message_id, 0).pk)
    return {int(text(row, "sk")): PULLED.value_of(row) for row in rows}


def retained_rows(store: Store, topic: str, *, after: str = "", limit: int | None = None) -> list[Row]:
    """Return the rows of a topic's retained messages, oldest first; at most *limit*, or all if *limit* is None.

    The first row comes after the row with the :func:`place` *after*. An empty *after* means the start of the list.
    """
    return store.query(Table.MESSAGES, keys.retained_key(topic, "").pk, sk_from=_behind(after), limit=limit)


def unsent_rows(store: Store, shard: int, *, after: str = "", limit: int | None = None) -> list[Row]:
    """Return the rows of refused queue entries in the list *shard*; at most *limit*, or all if *limit* is None.

    The first row comes after the row with the :func:`place` *after*. An empty *after* means the start of the list.
    """
    return store.query(Table.MESSAGES, keys.unsent_list(shard), sk_from=_behind(after), limit=limit)


def place(row: Row) -> str:
    """Return the place of a row in its list. A page that is read with this place as *after* begins behind the row."""
    return text(row, "sk")


def members(store: Store, topic: str, group: str) -> list[Member]:
    """Return all stored members of a group, also those that are gone, sorted by id."""
    return [MEMBERS.value_of(row) for row in store.query(Table.MESSAGES, keys.member_key(topic, group, "").pk)]


def registrations(store: Store, topic: str, group: str) -> list[Registration]:
    """Return the registrations of a group's subscriptions: one for the group, or one for each member."""
    return [
        REGISTRATIONS.value_of(row) for row in _between(store, *keys.all_like(keys.registration_key(topic, group, "")))
    ]


def registration_rows(store: Store) -> list[Row]:
    """Return the rows of the registrations of all subscriptions that get heartbeats."""
    return store.query(Table.MESSAGES, keys.registration_key("", "", "").pk)


def topics(store: Store, names: Sequence[str]) -> tuple[Topic, ...]:
    """Return the topics with these *names* (at most 100), in the given order; missing ones are left out."""
    wanted = [keys.topic_key(name) for name in names]
    found = store.get_many(wanted)
    return tuple(TOPICS.value_of(found[key]) for key in wanted if key in found)


def topic_names(store: Store, *, after: str = "", limit: int) -> list[str]:
    """Return at most *limit* names of topics, sorted, from the name after *after* on. An empty *after* is the start."""
    pk = keys.directory_key("").pk
    return [place(row) for row in store.query(Table.REGISTRY, pk, sk_from=_behind(after), limit=limit)]


def topic_ids(store: Store) -> list[tuple[str, str]]:
    """Return the name and the id of every topic, sorted by name."""
    rows = store.query(Table.REGISTRY, keys.directory_key("").pk)
    return [(place(row), text(row, "topic_id")) for row in rows]


def subscriptions(store: Store, topic: str, names: Collection[str]) -> dict[str, Subscription]:
    """Return the subscriptions with these *names* (at most 100), by name. Names without a subscription are left out."""
    wanted = {name: keys.subscription_key(topic, name) for name in names}
    found = store.get_many(tuple(wanted.values()))
    return {name: SUBSCRIPTIONS.value_of(found[key]) for name, key in wanted.items() if key in found}


def subscriptions_and_shadows(store: Store, topic: str) -> tuple[list[Subscription], list[Shadow]]:
    """Return all subscriptions and shadows of a topic, from one query."""
    first_subscription = keys.subscription_key(topic, "").sk
    rows = _between(store, keys.all_shadows(topic)[0], keys.all_subscriptions(topic)[1])
    subscriptions = [SUBSCRIPTIONS.value_of(row) for row in rows if place(row) >= first_subscription]
    return subscriptions, [SHADOWS.value_of(row) for row in rows if place(row) < first_subscription]


def every_subscription(store: Store, topic: str) -> Iterator[Subscription]:
    """Yield all subscriptions of a topic, read in parts."""
    return map(SUBSCRIPTIONS.value_of, _in_parts(store, *keys.all_subscriptions(topic)))


def subscription_rows(store: Store, topic: str, *, after: str, limit: int) -> list[Row]:
    """Return at most *limit* rows of a topic's subscriptions, sorted by name.

    The first row comes after the row with the :func:`place` *after*. An empty *after* means the start of the list.
    """
    low, high = keys.all_subscriptions(topic)
    return store.query(Table.REGISTRY, low.pk, sk_from=_behind(after) or low.sk, sk_to=high.sk, limit=limit)


def changes(store: Store, known: Topic, topic: Topic) -> tuple[dict[str, Subscription | None], list[Shadow]] | None:
    """Return the subscriptions that changed between the versions *known* and *topic* of a topic, and all its shadows.

    The subscriptions are by name; a deleted one is None. Return None if the topic's row does not list all changes. The
    caller then reads all subscriptions.
    """
    changed = names_changed(known, topic)
    if changed is None:
        return None
    present = subscriptions(store, topic.name, sorted(changed))
    return {name: present.get(name) for name in changed}, shadows(store, topic.name)


def names(store: Store, topic: str) -> dict[int, str]:
    """Return the names of *topic*'s subscriptions by ordinal, with deleted ones that receipts may mention."""
    return removed_names(store, topic) | _names(store, keys.all_subscriptions(topic))


def removed_names(store: Store, topic: str) -> dict[int, str]:
    """Return the names of *topic*'s deleted subscriptions by ordinal, as long as receipts may mention them."""
    return _names(store, keys.all_like(replace(keys.name_key(topic, 0), sk="NAME#")))


def _names(store: Store, between: tuple[Key, Key]) -> dict[int, str]:
    return {number(row, "ordinal"): text(row, "name") for row in _in_parts(store, *between)}


def subscription_name(store: Store, topic: str, ordinal: int) -> str | None:
    """Return the name of one subscription from the history of its filter; None if the history expired."""
    rows = _between(store, *_versions(topic, ordinal, ordinal), limit=1)
    return next((text(row, "name") for row in rows), None)


def shadows(store: Store, topic: str) -> list[Shadow]:
    """Return all shadows (candidate filters) of a topic."""
    return [SHADOWS.value_of(row) for row in _between(store, *keys.all_shadows(topic))]


def version_rows(store: Store, topic: str, first: int, last: int, at_once: int) -> Iterator[Row]:
    """Yield the rows of all filter versions of the subscriptions with the ordinals *first* to *last*.

    They are sorted by ordinal; the versions of one ordinal come newest first. One read returns at most *at_once* rows.
    """
    return _in_parts(store, *_versions(topic, first, last), at_once)


def filter_history(store: Store, topic: str, ordinal: int, limit: int, before: int | None) -> list[FilterVersion]:
    """Return at most *limit* stored versions of a subscription's filter, newest first.

    The versions are lower than *before*. If *before* is None, the list begins with the newest version.
    """
    low, high = _versions(topic, ordinal, ordinal)
    low = low if before is None else keys.version_key(topic, ordinal, before - 1)
    return [FILTER_VERSIONS.value_of(row) for row in _between(store, low, high, limit)]


def _versions(topic: str, first: int, last: int) -> tuple[Key, Key]:
    return keys.version_key(topic, first, keys.VERSION_MAX), keys.version_key(topic, last, 0)


def _between(store: Store, low: Key, high: Key, limit: int | None = None) -> list[Row]:
    return store.query(low.table, low.pk, sk_from=low.sk, sk_to=high.sk, limit=limit)


def _in_parts(store: Store, low: Key, high: Key, at_once: int = ROWS_AT_ONCE) -> Iterator[Row]:
    part = _between(store, low, high, at_once)
    yield from part
    while len(part) == at_once:
        part = _between(store, replace(low, sk=_behind(place(part[-1]))), high, at_once)
        yield from part


def _behind(place: str) -> str:
    return place and place + "\x00"
