"""The API with groups to pull from, over a world in memory whose clock only tests move."""

import json
import threading
import time
from typing import Any

import httpx
from tagcast.delivery import publishing
from tagcast.model import Draft
from tagcast.operating.messages import message_view
from tagcast_client import Client

from tests.clients.in_memory_api import InMemoryApi

POLL_S = 0.005
"""How long a pull without messages takes, in the test's time."""


class PullingApi(InMemoryApi):
    """Serves consumers on many threads, one request after the other, and remembers what they asked."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.ids: dict[str, str] = {}
        self.client = Client("http://127.0.0.1:8080", transport=self, sleep=lambda seconds: None)

    def put(self, topic: str, *bodies: str, order: str | None = None, tags: tuple[str, ...] = ("TagA",)) -> None:
        """Publish texts that are all different, and let every group's queue have them at once."""
        drafts = [Draft(body.encode(), tags=tags, ordering_key=order) for body in bodies]
        with self.lock:
            accepted = publishing.publish(self.fakes.world, topic, drafts)
            self.ids |= dict(zip(bodies, (each.message_id for each in accepted), strict=True))
            self.fakes.deliver()

    def done(self, topic: str = "TopicTest") -> list[str]:
        """What every group has acknowledged, in the order in which it was published."""
        with self.lock:
            views = {body: message_view(self.fakes.world, topic, message_id) for body, message_id in self.ids.items()}
        return [
            body
            for body, view in views.items()
            if view.subscribers and all(entry.state.value == "delivered" for entry in view.subscribers.values())
        ]

    def asked_for(self, word: str) -> list[dict[str, Any]]:
        with self.lock:
            return [body for each, body in self.asked if each == word]

    def in_flight(self) -> int:
        with self.lock:
            queues = self.fakes.group_queues
            return sum(queues.counts(queue).in_flight for queue in queues.queues)

    def pass_by(self, seconds: float) -> None:
        with self.lock:
            self.fakes.clock.sleep(seconds)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        word = request.url.path.rpartition("/")[2]
        with self.lock:
            answer = super()._answer(request)
            if word in ("pull", "ack", "nack", "extend"):
                self.asked.append((word, json.loads(request.content)))
        if word == "pull" and answer.json().get("messages") == []:
            time.sleep(POLL_S)
        return answer
