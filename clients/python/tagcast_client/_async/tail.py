"""The client's view of a topic's events. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tagcast_client._async.connection import AsyncConnection
from tagcast_client.tailing import Tail, TailWish, tail

WAIT_S = 20


class AsyncWatching(AsyncConnection):
    """The methods of a client for the events of a topic."""

    async def tail(
        self, topic: str, wish: TailWish | None = None, *, cursor: str | None = None, wait_seconds: int | None = None
    ) -> Tail:
        """Return the events since the cursor of an earlier answer, or of the last minutes.

        *wait_seconds* waits for the first matching event. The service records events from the first request until a
        minute after the last one.
        """
        return await self._send(tail(topic, wish or TailWish(), cursor, wait_seconds))

    async def watch(self, topic: str, wish: TailWish | None = None) -> AsyncIterator[Tail]:
        """Yield the events from now on, without end."""
        cursor = (await self.tail(topic, TailWish(max_events=0))).next_cursor
        while True:
            told = await self.tail(topic, wish, cursor=cursor, wait_seconds=WAIT_S)
            cursor = told.next_cursor
            if told.events or told.left_out:
                yield told
