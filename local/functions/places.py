"""The places of a pool of workers, shared by topics so that none of them is all that is served."""

import asyncio
from collections import Counter, deque

from local.functions.quick_json import decoded


class Places:
    """A number of *free* places, given out in the order of asking; a topic that holds as many as are free waits.

    A topic alone has half of them, and another finds a place at once: the dynamic threshold of shared buffers
    (Choudhury and Hahne, 1998). What is about no topic, or about several, takes any free place.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str | None, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    async def take(self, topic: str | None) -> None:
        """Wait for a place."""
        granted = asyncio.get_running_loop().create_future()
        self._waiting.append((topic, granted))
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.give_back(topic)
            raise

    def give_back(self, topic: str | None) -> None:
        """Return a place that was taken for *topic*."""
        self._free += 1
        if topic is not None:
            self._held[topic] -= 1
        self._grant()

    def _grant(self) -> None:
        """Serve those who wait, as far as there are places for them."""
        still: deque[tuple[str | None, asyncio.Future[None]]] = deque()
        while self._free and self._waiting:
            topic, granted = self._waiting.popleft()
            if granted.done():
                continue
            if topic is not None and self._held[topic] >= self._free:
                still.append((topic, granted))
                continue
            self._free -= 1
            if topic is not None:
                self._held[topic] += 1
            granted.set_result(None)
        self._waiting.extendleft(reversed(still))


def topic_of(event: bytes) -> str | None:
    """Return the topic that an event of the queue or the workflow is about; None for none, and for several.

    >>> topic_of(b'{"topic": "t", "subscription_id": "1.0"}')
    't'
    >>> topic_of(b'{"Records": [{"body": "{\\\\"topic\\\\": \\\\"t\\\\"}"}]}')
    't'
    """
    match decoded(event):
        case {"topic": str(topic)}:
            return topic
        case {"Records": [*records]}:
            topics = {topic_in(record.get("body")) for record in records}
            return topics.pop() if len(topics) == 1 else None
    return None


def topic_in(body: object) -> str | None:
    """Return the topic that an entry of the queue is about."""
    try:
        said = decoded(body) if isinstance(body, str) else None
    except ValueError:
        return None
    return said["topic"] if isinstance(said, dict) and isinstance(said.get("topic"), str) else None
