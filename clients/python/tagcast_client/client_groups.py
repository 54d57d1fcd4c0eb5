"""What the synchronous client does with groups, made from `async_groups` by `make_sync.py`: change that file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tagcast_client import group_models, group_operations, groups
from tagcast_client.connection import Connection
from tagcast_client.filters import AnyFilter
from tagcast_client.instants import instant


class Groups(Connection):
    """Consumer groups: heartbeats, members, pulls. `Consumer` does all of this for you."""

    def heartbeat(
        self,
        topic: str,
        group: str,
        client_id: str,
        *,
        filter: AnyFilter | None = None,
        client_version: str | None = None,
        mode: groups.Mode | None = None,
        ordered: bool | None = None,
        consume_from: str | datetime | None = None,
        silence_seconds: int | None = None,
    ) -> groups.Group:
        """Send a heartbeat of a consumer, every 30 seconds. A missing group is created. `Consumer` does this for you.

        A new group gets the retained messages from *consume_from* on: ``earliest``, an instant, or ``latest`` (none).
        Raises DisagreementError with the differences when the group has another filter.
        """
        said = {
            "filter": filter,
            "client_version": client_version,
            "mode": mode,
            "ordered": ordered,
            "consume_from": None if consume_from is None else instant(consume_from),
            "silence_seconds": silence_seconds,
        }
        return self._send(groups.heartbeat(topic, group, client_id, said))

    def leave(self, topic: str, group: str, client_id: str) -> None:
        """Leave the group now. Without this call a consumer leaves two minutes after its last heartbeat."""
        self._send(groups.leave(topic, group, client_id))

    def list_members(self, topic: str, group: str) -> tuple[groups.Member, ...]:
        """Return the live members of a group, by id."""
        return self._send(groups.list_members(topic, group))

    def pull(
        self,
        topic: str,
        group: str,
        *,
        max_messages: int | None = None,
        wait_seconds: int | None = None,
        invisible_seconds: int | None = None,
        client_id: str | None = None,
    ) -> tuple[group_models.Pulled, ...]:
        """Pull messages. Their visibility timeout is *invisible_seconds*: other members do not get them meanwhile."""
        return self._send(group_operations.pull(topic, group, max_messages, wait_seconds, invisible_seconds, client_id))

    def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[group_models.Handle, ...]:
        """Acknowledge at most 100 messages."""
        return self._send(group_operations.ack(topic, group, receipt_handles))

    def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Nack messages: they become visible now, or *delay_seconds* from now."""
        return self._send(group_operations.nack(topic, group, receipt_handles, delay_seconds))

    def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, invisible_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Extend the visibility timeout to *invisible_seconds* from now. The answer has new handles."""
        return self._send(group_operations.extend(topic, group, receipt_handles, invisible_seconds))
