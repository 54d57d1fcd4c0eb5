"""Shares the places of a worker pool between topics, so that no topic occupies all of them."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

from local.functions.quick_json import decode

YOUNG_S = 1.25
"""The age in seconds at which a place is no longer young.

By then a queue batch has stopped waiting for late pushes, and the next batch sees their lanes blocked.
"""


@dataclass(eq=False)
class PoolPlace:
    """A place in a worker pool, taken by an event of *topic*. If the event has no topic or several, *topic* is None.

    A place is young for :data:`YOUNG_S` seconds. *young* is the timer that ends this time; None if no timer runs.
    """

    topic: str | None
    young: asyncio.TimerHandle | None = None


class Places:
    """Gives the *free* places of a pool to requests, in their order.

    A topic waits while it holds at least as many places as are free. So a single topic gets half of the places, and
    another topic finds a place at once. This is the dynamic threshold of shared buffers (Choudhury and Hahne, 1998).
    Events with no topic or several topics take any free place.

    A topic holds at most *young_max* places that are younger than ``YOUNG_S`` seconds; any number if *young_max* is
    None. So its first batches detect receivers that hang before more batches start.
    """

    def __init__(self, free: int, young_max: int | None = None) -> None:
        self._free = free
        self._young_max = young_max
        self._young: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str | None, asyncio.Future[PoolPlace]]] = deque()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a place."""
        return len(self._waiting)

    async def take(self, topic: str | None) -> PoolPlace:
        """Wait for a place for an event, and return it. *topic* is None if the event has no topic or several."""
        granted: asyncio.Future[PoolPlace] = asyncio.get_running_loop().create_future()
        self._waiting.append((topic, granted))
        self._grant()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.give_back(granted.result())
            raise

    def give_back(self, place: PoolPlace) -> None:
        """Make a place free, so that a waiting request can take it."""
        self._free += 1
        if place.topic is not None:
            self._held[place.topic] -= 1
        if place.young is not None:
            place.young.cancel()
            self._grow_old(place)
        self._grant()

    def _grow_old(self, place: PoolPlace) -> None:
        assert place.topic is not None
        place.young = None
        self._young[place.topic] -= 1
        self._grant()

    def _grant(self) -> None:
        still: deque[tuple[str | None, asyncio.Future[PoolPlace]]] = deque()
        while self._free and self._waiting:
            topic, granted = self._waiting.popleft()
            if granted.done():
                continue
            if topic is not None and not self._has_room(topic):
                still.append((topic, granted))
                continue
            granted.set_result(self._place(topic))
        self._waiting.extendleft(reversed(still))

    def _has_room(self, topic: str) -> bool:
        return self._held[topic] < self._free and (self._young_max is None or self._young[topic] < self._young_max)

    def _place(self, topic: str | None) -> PoolPlace:
        place = PoolPlace(topic)
        self._free -= 1
        if topic is not None:
            self._held[topic] += 1
            if self._young_max is not None:
                self._young[topic] += 1
                place.young = asyncio.get_running_loop().call_later(YOUNG_S, self._grow_old, place)
        return place


def topic_of(event: bytes) -> str | None:
    """Return the topic of an event of the queue or of the workflow; None if the event has no topic or several.

    >>> topic_of(b'{"topic": "t", "subscription_id": "1.0"}')
    't'
    >>> topic_of(b'{"Records": [{"body": "{\\\\"topic\\\\": \\\\"t\\\\"}"}]}')
    't'
    """
    match decode(event):
        case {"topic": str(topic)}:
            return topic
        case {"Records": [*records]}:
            topics = {topic_of_entry(record.get("body")) for record in records}
            return topics.pop() if len(topics) == 1 else None
    return None


def topic_of_entry(body: object) -> str | None:
    """Return the topic of a queue entry. If *body* is not a queue entry, return None."""
    try:
        entry = decode(body) if isinstance(body, str) else None
    except ValueError:
        return None
    return entry["topic"] if isinstance(entry, dict) and isinstance(entry.get("topic"), str) else None
