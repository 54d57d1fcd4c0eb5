"""What the synchronous client does with lanes, made from `async_lanes` by `make_sync.py`: change that file."""

from __future__ import annotations

from collections.abc import Iterator

from tagcast_client import models, operations
from tagcast_client.connection import Connection
from tagcast_client.hosts import Host, list_hosts


class Lanes(Connection):
    """One subscription's side of a topic: to stop, go on, skip, look at what it is owed."""

    def pause(self, topic: str, subscription: str) -> models.Lane:
        """Stop pushing to a subscription; what it is owed waits."""
        return self.send(operations.change_lane(topic, subscription, "pause"))

    def resume(self, topic: str, subscription: str) -> models.Lane:
        """Go on with a paused or suspended subscription."""
        return self.send(operations.change_lane(topic, subscription, "resume"))

    def retry(self, topic: str, subscription: str) -> models.Lane:
        """Attempt the head of a lane now."""
        return self.send(operations.change_lane(topic, subscription, "retry"))

    def skip(self, topic: str, subscription: str, reason: str) -> models.Lane:
        """Give up the head of a lane, and say why."""
        return self.send(operations.skip(topic, subscription, reason))

    def list_backlog(self, topic: str, subscription: str, *, page_size: int | None = None) -> Iterator[models.Delivery]:
        """Yield what a subscription is owed, in order."""
        return self.all_pages(lambda cursor: operations.backlog(topic, subscription, page_size, cursor))

    def list_lanes(self, *, page_size: int | None = None) -> Iterator[models.UrgentLane]:
        """Yield the lanes of all topics that are not active, in the order in which somebody has to look at them."""
        return self.all_pages(lambda cursor: operations.list_lanes(page_size, cursor))

    def list_hosts(self, *, page_size: int | None = None) -> Iterator[Host]:
        """Yield the hosts that gave no answer lately, and whether their circuits are open."""
        return self.all_pages(lambda cursor: list_hosts(page_size, cursor))
