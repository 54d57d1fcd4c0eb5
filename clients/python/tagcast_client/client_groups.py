"""What the synchronous client does with groups, made from `async_groups` by `make_sync.py`: change that file."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast_client import groups, models
from tagcast_client.connection import Connection


class Groups(Connection):
    """Consumers that pull: say that one lives, leave, see who is there. `Consumer` does all that by itself."""

    def heartbeat(
        self,
        topic: str,
        group: str,
        client_id: str,
        *,
        filter: models.Filter | None = None,
        client_version: str | None = None,
        mode: str | None = None,
        ordered: bool | None = None,
        silence_seconds: int | None = None,
    ) -> groups.Group:
        """Say that a consumer lives, every 30 seconds; a group that is absent is made. `Consumer` does all that.

        Raises DisagreementError, which says what differs, when the group has another filter.
        """
        said = {
            "filter": filter,
            "client_version": client_version,
            "mode": mode,
            "ordered": ordered,
            "silence_seconds": silence_seconds,
        }
        return self.send(groups.heartbeat(topic, group, client_id, said))

    def leave(self, topic: str, group: str, client_id: str) -> None:
        """Let a consumer go at once, instead of two minutes after its last heartbeat."""
        self.send(groups.leave(topic, group, client_id))

    def list_members(self, topic: str, group: str) -> tuple[groups.Member, ...]:
        """Return who of a group is alive, by id."""
        return self.send(groups.list_members(topic, group))

    def pull(
        self,
        topic: str,
        group: str,
        *,
        max_messages: int | None = None,
        wait_seconds: int | None = None,
        invisible_seconds: int | None = None,
        client_id: str | None = None,
    ) -> tuple[groups.Pulled, ...]:
        """Return messages that the group is owed, waiting for the first; nobody else gets them for a while."""
        wish = {
            "max_messages": max_messages,
            "wait_seconds": wait_seconds,
            "invisible_seconds": invisible_seconds,
            "client_id": client_id,
        }
        return self.send(groups.pull(topic, group, wish))

    def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[groups.HandleResult, ...]:
        """Say that messages are done with; each is told for itself what became of its handle."""
        return self.send(groups.answer(topic, group, "ack", receipt_handles))

    def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int = 0
    ) -> tuple[groups.HandleResult, ...]:
        """Let messages come again, to anybody, after so long."""
        return self.send(groups.answer(topic, group, "nack", receipt_handles, delay_seconds=delay_seconds))

    def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, invisible_seconds: int
    ) -> tuple[groups.HandleResult, ...]:
        """Keep messages from others for so long from now; each has a new handle from then on."""
        said = groups.answer(topic, group, "extend", receipt_handles, invisible_seconds=invisible_seconds)
        return self.send(said)
