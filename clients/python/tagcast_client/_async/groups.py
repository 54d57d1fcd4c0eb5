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
        member_id: str,
        *,
        filter: AnyFilter | None = None,
        member_version: str | None = None,
        mode: groups.Mode | None = None,
        ordered: bool | None = None,
        start_from: str | datetime | None = None,
        silence_seconds: int | None = None,
    ) -> groups.Group:
        """Send a heartbeat of a consumer, every 30 seconds. A missing group is created. A consumer does this for you.

        A new group gets the retained messages from *start_from* on: ``earliest``, an instant, or ``latest`` (none).
        Raises DisagreementError with the differences when the group has another filter.
        """
        said = {
            "filter": filter,
            "member_version": member_version,
            "mode": mode,
            "ordered": ordered,
            "start_from": None if start_from is None else instant(start_from),
            "silence_seconds": silence_seconds,
        }
        return await self._send(groups.heartbeat(topic, group, member_id, said))

    async def leave(self, topic: str, group: str, member_id: str) -> None:
        """Leave the group now. Without this call a consumer leaves two minutes after its last heartbeat."""
        await self._send(groups.leave(topic, group, member_id))

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
        visibility_timeout_seconds: int | None = None,
        member_id: str | None = None,
    ) -> tuple[groups.Pulled, ...]:
        """Pull messages. Other members do not get them for *visibility_timeout_seconds*."""
        return await self._send(
            groups.pull(topic, group, max_messages, wait_seconds, visibility_timeout_seconds, member_id)
        )

    async def ack(self, topic: str, group: str, receipt_handles: Sequence[str]) -> tuple[groups.Handle, ...]:
        """Acknowledge at most 100 messages."""
        return await self._send(groups.ack(topic, group, receipt_handles))

    async def nack(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, delay_seconds: int | None = None
    ) -> tuple[groups.Handle, ...]:
        """Nack messages: they become visible now, or *delay_seconds* from now."""
        return await self._send(groups.nack(topic, group, receipt_handles, delay_seconds))

    async def extend(
        self, topic: str, group: str, receipt_handles: Sequence[str], *, visibility_timeout_seconds: int | None = None
    ) -> tuple[groups.Handle, ...]:
        """Extend the visibility timeout to *visibility_timeout_seconds* from now. The answer has new handles."""
        return await self._send(groups.extend(topic, group, receipt_handles, visibility_timeout_seconds))
