"""The client's lanes. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tagcast_client import models, operations
from tagcast_client._async.connection import AsyncConnection, AsyncPages


class AsyncLanes(AsyncConnection):
    """Lanes of subscriptions: pause, resume, retry, skip, list the backlog."""

    async def pause(self, topic: str, subscription: str) -> models.Lane:
        """Pause a subscription. Its deliveries wait."""
        return await self._send(operations.change_lane(topic, subscription, "pause"))

    async def resume(self, topic: str, subscription: str) -> models.Lane:
        """Resume a paused or suspended subscription."""
        return await self._send(operations.change_lane(topic, subscription, "resume"))

    async def retry(self, topic: str, subscription: str) -> models.Lane:
        """Retry the head of a lane now."""
        return await self._send(operations.change_lane(topic, subscription, "retry"))

    async def skip(self, topic: str, subscription: str, reason: str, message_id: str | None = None) -> models.Lane:
        """Cancel the head of a lane, with a reason. With *message_id*, raise ConflictError for another head.

        Under INDEPENDENT_RETRY *message_id* may be any message of the backlog.
        """
        return await self._send(operations.skip(topic, subscription, reason, message_id))

    async def change_lanes(
        self,
        change: str,
        lanes: Sequence[Mapping[str, str]] | None = None,
        *,
        selection: Mapping[str, str] | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ActedLanes:
        """Retry, pause, resume or skip one part of many lanes; *change* is one of these four words.

        *selection* (`topic`, `state`, `host`, `outcome`, `text`) chooses among the lanes that are not active, or
        among *lanes* (up to 100 objects with `topic` and `subscription`). A skip needs a *reason* and, unless it is a
        dry run, *lanes* with the `message_id` of each head. Continue with the `next_cursor` of the answer.
        """
        return await self._send(
            operations.change_lanes(
                change, selection or {}, lanes, reason=reason, dry_run=dry_run, limit=limit, cursor=cursor
            )
        )

    def list_backlog(self, topic: str, subscription: str, *, limit: int | None = None) -> AsyncPages[models.Delivery]:
        """Yield the backlog of a subscription, in order."""
        return self._list(lambda cursor: operations.backlog(topic, subscription, limit, cursor))

    def list_lanes(self, *, limit: int | None = None) -> AsyncPages[models.UrgentLane]:
        """Yield the lanes of all topics that are not active, the most urgent first."""
        return self._list(lambda cursor: operations.list_lanes(limit, cursor))

    def list_hosts(self, *, limit: int | None = None) -> AsyncPages[models.Host]:
        """Yield the hosts that did not respond in the last hour, with their circuits."""
        return self._list(lambda cursor: operations.list_hosts(limit, cursor))
