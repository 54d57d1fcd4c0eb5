"""What the synchronous client does with pull groups, made from `async_groups` by `make_sync.py`: change that."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast_client import group_models, group_operations
from tagcast_client.connection import Connection


class Groups(Connection):
    """A member of a pull group: it pulls, and says what came of that."""

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
        return self.send(group_operations.pull(topic, group, max_messages, wait_seconds, invisible_seconds, client_id))

    def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[group_models.Handle, ...]:
        """Say that these (at most 100) are done."""
        return self.send(group_operations.ack(topic, group, receipt_handles))

    def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Give these back, to be pulled again at once or *delay_seconds* from now."""
        return self.send(group_operations.nack(topic, group, receipt_handles, delay_seconds))

    def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, invisible_seconds: int | None = None
    ) -> tuple[group_models.Handle, ...]:
        """Keep these from others until *invisible_seconds* from now; new handles stand for them then."""
        return self.send(group_operations.extend(topic, group, receipt_handles, invisible_seconds))
