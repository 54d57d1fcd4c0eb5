"""Which entries bring a message to its first round: publisher and relay make the same ones of the same row.

See docs/architecture.md, Publishing.
"""

from __future__ import annotations

from tagcast.model import Ordering
from tagcast.ports import QueueEntry
from tagcast.queues import Audience, queue_group
from tagcast.rows.message import MessageRow


def entries_of(ordering: Ordering, row: MessageRow) -> tuple[QueueEntry, ...]:
    """Return the entries of a message: one for all, or one in its order and one apart from it for all others."""
    message = row.message
    topic, message_id = message.topic, message.message_id
    group = queue_group(ordering, topic, message_id, message.ordering_key)
    if row.in_order is None or group == message_id:
        return (QueueEntry(topic, message_id, group),)
    if not row.is_split:
        return (QueueEntry(topic, message_id, message_id),)
    in_order = QueueEntry(topic, message_id, group, Audience.IN_ORDER)
    return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))
