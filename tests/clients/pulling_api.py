"""An API whose groups lie in memory: what is given is nobody else's until its time is up, on a clock of its own."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.clients.in_memory_api import InMemoryApi

POLL_S = 0.005
"""So long a pull waits that finds nothing, whatever it is asked for."""


@dataclass
class Lying:
    """One message of a group's queue."""

    body: str
    order: str
    free_at: float = 0.0
    pulls: int = 0


@dataclass
class PullingApi(InMemoryApi):
    """Real heartbeats, and queues that are filled by hand; *seconds* are what its clock says."""

    queues: dict[str, list[Lying]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def put(self, group: str, *bodies: str, order: str = "") -> None:
        with self.lock:
            self.queues.setdefault(group, []).extend(Lying(body, order) for body in bodies)

    def asked_for(self, word: str) -> list[dict[str, Any]]:
        with self.lock:
            return [body for each, body in self.asked if each == word]

    def pass_by(self, seconds: float) -> None:
        with self.lock:
            self.seconds += seconds

    def _answer(self, request: httpx.Request) -> httpx.Response:
        word = request.url.path.rpartition("/")[2]
        with self.lock:
            if word not in ("pull", "ack", "nack", "extend"):
                return super()._answer(request)
            _, _, topic, _, group, _ = request.url.path.split("/")
            body = json.loads(request.content)
            self.asked.append((word, body))
            queue = self.queues.setdefault(group, [])
            answer = (
                {"messages": self._pull(topic, group, queue, body)}
                if word == "pull"
                else {"results": [self._one(word, queue, handle, body) for handle in body["receipt_handles"]]}
            )
        if answer.get("messages") == []:
            time.sleep(POLL_S)
        return httpx.Response(200, json=answer)

    def _pull(self, topic: str, group: str, queue: list[Lying], wish: dict[str, Any]) -> list[dict[str, Any]]:
        busy = {each.order for each in queue if each.order and each.free_at > self.seconds}
        free = [each for each in queue if each.free_at <= self.seconds and each.order not in busy]
        given = free[: wish["max_messages"]]
        for each in given:
            each.free_at = self.seconds + wish["invisible_seconds"]
            each.pulls += 1
        return [
            {
                "message_id": each.body,
                "topic": topic,
                "subscription": group,
                "attempt": each.pulls,
                "receipt_handle": f"{each.body}/{each.pulls}",
                "tags": [],
                "routing_key": None,
                "properties": {},
                "ordering_key": each.order or None,
                "content_type": None,
                "accepted_at": "2026-01-01T00:00:00.000Z",
                "expires_at": "2026-01-02T00:00:00.000Z",
                "body": each.body,
            }
            for each in given
        ]

    def _one(self, word: str, queue: list[Lying], handle: str, body: dict[str, Any]) -> dict[str, str]:
        name, pulls = handle.split("/")[:2]
        found = next((each for each in queue if each.body == name), None)
        if found is None:
            return {"receipt_handle": handle, "status": "already_acknowledged"}
        if str(found.pulls) != pulls or found.free_at <= self.seconds:
            return {"receipt_handle": handle, "status": "expired"}
        match word:
            case "ack":
                queue.remove(found)
                self.done.append(name)
                return {"receipt_handle": handle, "status": "acknowledged"}
            case "nack":
                found.free_at = self.seconds + body["delay_seconds"]
                return {"receipt_handle": handle, "status": "returned"}
        found.free_at = self.seconds + body["invisible_seconds"]
        return {"receipt_handle": handle, "status": "extended", "new_receipt_handle": f"{handle}/+"}
