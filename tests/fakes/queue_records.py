"""Records of the FIFO queue as Lambda hands them to fan-out."""

from collections.abc import Iterable
from typing import Any

from tagcast.ports import QueueEntry
from tagcast.queues import entry_text


def batch_of(entries: Iterable[QueueEntry]) -> dict[str, Any]:
    """The event of a batch; a record is named by its entry's deduplication id."""
    return {
        "Records": [
            {
                "messageId": entry.deduplication_id,
                "receiptHandle": f"receipt of {entry.deduplication_id}",
                "body": entry_text(entry),
                "attributes": {"MessageGroupId": entry.group},
            }
            for entry in entries
        ]
    }


def in_one_order(message_ids: Iterable[str], topic: str = "test1") -> dict[str, Any]:
    """The event of a batch of messages that stand in one order."""
    return batch_of(QueueEntry(topic, each, "its order") for each in message_ids)
