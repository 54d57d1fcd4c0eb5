"""What the synchronous client does with groups, made from `async_groups` by `make_sync.py`: change that file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tagcast_client import group_models, group_operations, groups
from tagcast_client.connection import Connection
from tagcast_client.filters import AnyFilter
from tagcast_client.instants import instant


class Groups(Connection):
    """Consumers that pull: say that one lives, leave, see who is there. `Consumer` does all that by itself."""

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
        """Say that a consumer lives, every 30 seconds; a group that is absent is made. `Consumer` does all that.

        A group that is made gets what is kept since *consume_from*: ``earliest``, or an instant; ``latest`` is nothing.
        Raises DisagreementError, which says what differs, when the group has another filter.
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
        """Let a consumer go at once, instead of two minutes after its last heartbeat."""
        self._send(groups.leave(topic, group, client_id))

    def list_members(self, topic: str, group: str) -> tuple[groups.Member, ...]:
        """Return who of a group is alive, by id."""
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
        """Pull messages; nobody else of the group gets them for *invisible_seconds*."""
        return self._send(group_operations.pull(topic, group, max_messages, wait_seconds, invisible_seconds, client_id))

    def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[group_models.Handle, ...]:
        """Say that these (at most 100) are done."""
        return self._send(group_operations.ack(topic, group, receipt_handles))

    def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Give these back, to be pulled again at once or *delay_seconds* from now."""
        return self._send(group_operations.nack(topic, group, receipt_handles, delay_seconds))

    def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, invisible_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Keep these from others until *invisible_seconds* from now; new handles stand for them then."""
        return self._send(group_operations.extend(topic, group, receipt_handles, invisible_seconds))
