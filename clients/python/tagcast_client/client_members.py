"""The synchronous client's members of groups, made from `async_members` by `make_sync.py`: change that file."""

from __future__ import annotations

from tagcast_client import members, models
from tagcast_client.connection import Connection


class Members(Connection):
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
        return self.send(members.heartbeat(topic, group, client_id, said))

    def leave(self, topic: str, group: str, client_id: str) -> None:
        """Let a consumer go at once, instead of two minutes after its last heartbeat."""
        self.send(members.leave(topic, group, client_id))

    def list_members(self, topic: str, group: str) -> tuple[members.Member, ...]:
        """Return who of a group is alive, by id."""
        return self.send(members.list_members(topic, group))
