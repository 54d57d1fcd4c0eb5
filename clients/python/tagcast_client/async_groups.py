"""What the asynchronous client does with groups; `client_groups` is made from this file by `make_sync.py`."""

from __future__ import annotations

from tagcast_client import groups, models
from tagcast_client.async_connection import AsyncConnection


class AsyncGroups(AsyncConnection):
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
        silence_seconds: int | None = None,
    ) -> groups.Group:
        """Say that a consumer lives, every 30 seconds; a group that is absent is made. `Consumer` does all that.

        Raises DisagreementError, which says what differs, when the group has another filter.
        """
        said = {
            "filter": filter,
            "client_version": client_version,
            "mode": mode,
            "silence_seconds": silence_seconds,
        }
        return await self.send(groups.heartbeat(topic, group, client_id, said))

    async def leave(self, topic: str, group: str, client_id: str) -> None:
        """Let a consumer go at once, instead of two minutes after its last heartbeat."""
        await self.send(groups.leave(topic, group, client_id))

    async def list_members(self, topic: str, group: str) -> tuple[groups.Member, ...]:
        """Return who of a group is alive, by id."""
        return await self.send(groups.list_members(topic, group))
