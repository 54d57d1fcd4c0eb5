"""A message as its rows in the table say it, whatever of it is still open."""

from tagcast.ports import Store
from tagcast.rows import stored
from tagcast.rows.keys import message_key
from tagcast.rows.message import MessageRow
from tagcast.tables import Table


def whole_message(store: Store, topic: str, message_id: str) -> MessageRow | None:
    """Return a message with its whole state map; None when even its receipt is gone."""
    row = stored.accepted(store, topic, message_id)
    return (
        None if row is None else stored.fold_rows(row, store.query(Table.MESSAGES, message_key(topic, message_id).pk))
    )
