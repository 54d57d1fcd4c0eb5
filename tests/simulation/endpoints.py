"""Receivers that answer as their mode says; what an answer means is left to the shipped adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tagcast.model import Outcome, Push
from tagcast_aws.endpoints import http

from tests.simulation.ledger import Reply

if TYPE_CHECKING:
    from tests.simulation.history import History

RETRY_AFTER = (("0", 0), ("5", 5_000), ("40", 40_000), ("100000", 86_400_000), ("soon", 0), (None, 0))
"""Headers of a 429 or 503, and the milliseconds that they ask for: a day at most."""


class Endpoints:
    """The receivers of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._subscribers = {subscriber.name: subscriber for subscriber in history.plan.subscribers}

    def reply(self, push: Push) -> Reply:
        """Return what the receiver does with one push."""
        history = self._history
        dice = history.chance
        quick_ms = dice.choice((0, 3, 20, 150))
        timeout_ms = push.subscription.settings.timeout_s * 1000
        match self._mood(push.subscription.name):
            case "healthy":
                return Reply(dice.choice((200, 200, 202, 204, 299)), "2xx", quick_ms)
            case "slow":
                return Reply(200, "2xx, late", dice.randrange(timeout_ms))
            case "hanging":
                return Reply(None, "no answer", timeout_ms)
            case "dripping":
                return Reply(None, "an answer that does not end", timeout_ms)
            case "ack_lost":
                return Reply(None, "2xx, then a reset", quick_ms)
            case "busy" | "throttling" as mood:
                header, asked_ms = dice.choice(RETRY_AFTER)
                status = 503 if mood == "busy" else 429
                return Reply(status, f"{status}, Retry-After {header}", quick_ms, header, asked_ms)
            case "refusing":
                return Reply(dice.choice((400, 404, 422)), "4xx", quick_ms)
            case "redirecting":
                return Reply(dice.choice((301, 302, 307)), "3xx", quick_ms)
            case "gone":
                return Reply(410, "410", quick_ms)
            case _:
                return Reply(dice.choice((500, 502)), "5xx", quick_ms)

    def outcome(self, reply: Reply, now: int) -> Outcome:
        """Return what the shipped adapter makes of a reply."""
        if reply.status is None:
            return Outcome(False, "timeout" if reply.detail == "no answer" else "connection closed before the answer")
        return http.outcome(reply.status, reply.retry_after if reply.status in (429, 503) else None, now)

    def _mood(self, name: str) -> str:
        history, subscriber = self._history, self._subscribers[name]
        if not history.faulty and subscriber.recovers:
            return "healthy"
        mode = subscriber.mode
        if mode == "healthy":
            return "down" if history.draws("endpoint", 0.05) else mode
        if mode in ("flapping", "ack_lost") and history.chance.random() < 0.5:
            return "healthy"
        if mode in ("down", "gone", "throttling") and history.chance.random() < 0.15:
            return "healthy"
        return mode
