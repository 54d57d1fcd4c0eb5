"""What the synchronous client does with lanes, made from `async_lanes` by `make_sync.py`: change that file."""

from __future__ import annotations

from tagcast_client import models, operations
from tagcast_client.connection import Connection, Pages
from tagcast_client.hosts import Host, list_hosts


class Lanes(Connection):
    """One subscription's side of a topic: to stop, go on, skip, look at what it is owed."""

    def pause(self, topic: str, subscription: str) -> models.Lane:
        """Stop pushing to a subscription; what it is owed waits."""
        return self._send(operations.change_lane(topic, subscription, "pause"))

    def resume(self, topic: str, subscription: str) -> models.Lane:
        """Go on with a paused or suspended subscription."""
        return self._send(operations.change_lane(topic, subscription, "resume"))

    def retry(self, topic: str, subscription: str) -> models.Lane:
        """Attempt the head of a lane now."""
        return self._send(operations.change_lane(topic, subscription, "retry"))

    def skip(self, topic: str, subscription: str, reason: str) -> models.Lane:
        """Give up the head of a lane, and say why."""
        return self._send(operations.skip(topic, subscription, reason))

    def list_backlog(self, topic: str, subscription: str, *, limit: int | None = None) -> Pages[models.Delivery]:
        """Yield what a subscription is owed, in order."""
        return self._list(lambda cursor: operations.backlog(topic, subscription, limit, cursor))

    def list_lanes(self, *, limit: int | None = None) -> Pages[models.UrgentLane]:
        """Yield the lanes of all topics that are not active, in the order in which somebody has to look at them."""
        return self._list(lambda cursor: operations.list_lanes(limit, cursor))

    def list_hosts(self, *, limit: int | None = None) -> Pages[Host]:
        """Yield the hosts that gave no answer lately, and whether their circuits are open."""
        return self._list(lambda cursor: list_hosts(limit, cursor))
