"""How the synchronous client watches, made from `async_tail` by `make_sync.py`: change that file."""

from __future__ import annotations

from collections.abc import Iterator

from tagcast_client.connection import Connection
from tagcast_client.tailing import Tail, TailWish, tail

WAIT_S = 20


class Watching(Connection):
    """The methods of a client for the events of a topic."""

    def tail(
        self, topic: str, wish: TailWish | None = None, *, cursor: str | None = None, wait_seconds: int | None = None
    ) -> Tail:
        """Return the events since the cursor of an earlier answer, or of the last minutes.

        *wait_seconds* waits for the first matching event. The service records events from the first request until a
        minute after the last one.
        """
        return self._send(tail(topic, wish or TailWish(), cursor, wait_seconds))

    def watch(self, topic: str, wish: TailWish | None = None) -> Iterator[Tail]:
        """Yield the events from now on, without end."""
        cursor = (self.tail(topic, TailWish(max_events=0))).next_cursor
        while True:
            told = self.tail(topic, wish, cursor=cursor, wait_seconds=WAIT_S)
            cursor = told.next_cursor
            if told.events or told.left_out:
                yield told
