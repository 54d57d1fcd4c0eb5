"""The asynchronous client's members of groups; `client_members` is made from this file by `make_sync.py`."""

from __future__ import annotations

from tagcast_client import members, models
from tagcast_client.async_connection import AsyncConnection


class AsyncMembers(AsyncConnection):
    """Consumers that pull: say that one lives, leave, see who is there. `AsyncConsumer` does all that by itself."""

    async def heartbeat(
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
    ) -> members.Group:
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
        return await self.send(members.heartbeat(topic, group, client_id, said))

    async def leave(self, topic: str, group: str, client_id: str) -> None:
        """Let a consumer go at once, instead of two minutes after its last heartbeat."""
        await self.send(members.leave(topic, group, client_id))

    async def list_members(self, topic: str, group: str) -> tuple[members.Member, ...]:
        """Return who of a group is alive, by id."""
        return await self.send(members.list_members(topic, group))
