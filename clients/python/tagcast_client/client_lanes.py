"""What the synchronous client does with lanes, made from `async_lanes` by `make_sync.py`: change that file."""

from __future__ import annotations

from tagcast_client import models, operations
from tagcast_client.connection import Connection, Pages
from tagcast_client.hosts import Host, list_hosts


class Lanes(Connection):
    """Lanes of subscriptions: pause, resume, retry, skip, list the backlog."""

    def pause(self, topic: str, subscription: str) -> models.Lane:
        """Pause a subscription. Its deliveries wait."""
        return self._send(operations.change_lane(topic, subscription, "pause"))

    def resume(self, topic: str, subscription: str) -> models.Lane:
        """Resume a paused or suspended subscription."""
        return self._send(operations.change_lane(topic, subscription, "resume"))

    def retry(self, topic: str, subscription: str) -> models.Lane:
        """Retry the head of a lane now."""
        return self._send(operations.change_lane(topic, subscription, "retry"))

    def skip(self, topic: str, subscription: str, reason: str) -> models.Lane:
        """Cancel the head of a lane, with a reason."""
        return self._send(operations.skip(topic, subscription, reason))

    def list_backlog(self, topic: str, subscription: str, *, limit: int | None = None) -> Pages[models.Delivery]:
        """Yield the backlog of a subscription, in order."""
        return self._list(lambda cursor: operations.backlog(topic, subscription, limit, cursor))

    def list_lanes(self, *, limit: int | None = None) -> Pages[models.UrgentLane]:
        """Yield the lanes of all topics that are not active, the most urgent first."""
        return self._list(lambda cursor: operations.list_lanes(limit, cursor))

    def list_hosts(self, *, limit: int | None = None) -> Pages[Host]:
        """Yield the hosts that did not respond in the last hour, with their circuits."""
        return self._list(lambda cursor: list_hosts(limit, cursor))
