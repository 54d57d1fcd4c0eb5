"""Messages as they are stored, each with that part of its state map which somebody needs.

Most maps stand whole in their message's row, and are read with it. Those of wide messages are kept in sections: the
message is read first, then its section, so that while anybody is owed the message in it the body was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tagcast.ports import Store
from tagcast.rows import keys
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.sections import section_number, section_of, section_with
from tagcast.tables import Table

READ_AT_ONCE = 50
"""At most 50 sections are read at once, because each takes two of a request's hundred rows, its own and the tally."""


def message(store: Store, topic: str, message_id: str) -> MessageRow | None:
    """Return a message with its state map, or None when even its receipt is gone."""
    row = store.get(keys.message_key(topic, message_id))
    return None if row is None else MESSAGES.value_of(row)


def messages(store: Store, topic: str, message_ids: Sequence[str]) -> dict[str, MessageRow]:
    """Return those of the messages (at most 100) that there are, by their ids, in the order given."""
    wanted = {message_id: keys.message_key(topic, message_id) for message_id in message_ids}
    found = store.get_many(tuple(wanted.values()))
    return {message_id: MESSAGES.value_of(found[key]) for message_id, key in wanted.items() if key in found}


def entry(store: Store, topic: str, message_id: str, ordinal: int) -> MessageRow | None:
    """Return a message with that part of its map which has, or would have, the entry of *ordinal*."""
    row = message(store, topic, message_id)
    if row is None or not row.bounds:
        return row
    return section_of_read(store, row, section_with(row, ordinal))


def entries(store: Store, topic: str, message_ids: Sequence[str], ordinal: int) -> dict[str, MessageRow]:
    """Return those of the messages (at most 100) that there are, each as :func:`entry` returns it, in that order."""
    found = messages(store, topic, message_ids)
    wide = [(row, section_with(row, ordinal)) for row in found.values() if row.bounds]
    return found | {row.message.message_id: row for row in sections_of_read(store, wide)} if wide else found


def section(store: Store, topic: str, message_id: str, number: int | None) -> MessageRow | None:
    """Return a message with one section of its map; with None, as its own row is."""
    row = message(store, topic, message_id)
    if row is None or number is None:
        return row
    return section_of_read(store, row, number)


def section_of_read(store: Store, row: MessageRow, number: int) -> MessageRow:
    """Return a wide message, read before, with one section of its map."""
    return next(sections_of_read(store, [(row, number)]))


def again(store: Store, row: MessageRow) -> MessageRow | None:
    """Return as it stands now what was read as *row*."""
    return section(store, *row.names, None if row.section is None else row.section.number)


def brought(store: Store, topic: str, message_ids: Sequence[str], number: int | None) -> dict[str, MessageRow]:
    """Return those of the messages (at most 100) that there are and that an entry of the queue is about, in that order.

    That names either one section of a wide message, or messages whose maps are whole; a section of no map is nothing.
    """
    if number is None:
        return {each: row for each, row in messages(store, topic, message_ids).items() if not row.bounds}
    row = message(store, topic, message_ids[0])
    if row is None or number >= len(row.bounds):
        return {}
    return {message_ids[0]: section_of_read(store, row, number)}


def sections(store: Store, row: MessageRow) -> list[MessageRow]:
    """Return a message with each part of its map in turn: with every section of a wide one, else as it is."""
    if not row.bounds:
        return [row]
    low, high = keys.sections_and_tally(row.message.topic, row.message.message_id)
    rows = {str(found["sk"]): found for found in store.query(Table.MESSAGES, low.pk, sk_from=low.sk, sk_to=high.sk)}
    tally = rows.pop(high.sk, None)
    found = {section_number(each): each for each in rows.values()}
    return [section_of(row, number, found.get(number), tally) for number in range(len(row.bounds))]


def sections_of_read(store: Store, wanted: Sequence[tuple[MessageRow, int]]) -> Iterator[MessageRow]:
    """Yield wide messages, read before, each with one section of its map, in the order given."""
    for start in range(0, len(wanted), READ_AT_ONCE):
        some = [
            (row, number, keys.section_key(*row.names, number), keys.tally_key(*row.names))
            for row, number in wanted[start : start + READ_AT_ONCE]
        ]
        found = store.get_many(tuple({key: None for _, _, *both in some for key in both}))
        for row, number, key, tally in some:
            yield section_of(row, number, found.get(key), found.get(tally))
