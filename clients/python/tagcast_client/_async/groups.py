"""The client's consumer groups. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tagcast_client import groups
from tagcast_client._async.connection import AsyncConnection
from tagcast_client.filters import AnyFilter
from tagcast_client.instants import instant


class AsyncGroups(AsyncConnection):
    """Consumer groups: heartbeats, members, pulls. A consumer does all of this for you."""

    async def heartbeat(
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
        """Send a heartbeat of a consumer, every 30 seconds. A missing group is created. A consumer does this for you.

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
        return await self._send(groups.heartbeat(topic, group, client_id, said))

    async def leave(self, topic: str, group: str, client_id: str) -> None:
        """Leave the group now. Without this call a consumer leaves two minutes after its last heartbeat."""
        await self._send(groups.leave(topic, group, client_id))

    async def list_members(self, topic: str, group: str) -> tuple[groups.Member, ...]:
        """Return the live members of a group, by id."""
        return await self._send(groups.list_members(topic, group))

    async def pull(
        self,
        topic: str,
        group: str,
        *,
        max_messages: int | None = None,
        wait_seconds: int | None = None,
        invisible_seconds: int | None = None,
        client_id: str | None = None,
    ) -> tuple[groups.Pulled, ...]:
        """Pull messages. Their visibility timeout is *invisible_seconds*: other members do not get them meanwhile."""
        return await self._send(groups.pull(topic, group, max_messages, wait_seconds, invisible_seconds, client_id))

    async def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[groups.Handle, ...]:
        """Acknowledge at most 100 messages."""
        return await self._send(groups.ack(topic, group, receipt_handles))

    async def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int | None = None
    ) -> tuple[groups.Handle, ...]:
        """Nack messages: they become visible now, or *delay_seconds* from now."""
        return await self._send(groups.nack(topic, group, receipt_handles, delay_seconds))

    async def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, invisible_seconds: int | None = None
    ) -> tuple[groups.Handle, ...]:
        """Extend the visibility timeout to *invisible_seconds* from now. The answer has new handles."""
        return await self._send(groups.extend(topic, group, receipt_handles, invisible_seconds))
