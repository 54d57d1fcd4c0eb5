"""Receivers that answer as their mode says; what an answer means is left to the shipped adapter."""

from __future__ import annotations

from collections.abc import Container
from random import Random
from typing import TYPE_CHECKING, Protocol

from tagcast.model import Outcome, Push
from tagcast_aws.endpoints import http

from tests.simulation.ledger import Reply
from tests.simulation.plan import Subscriber

if TYPE_CHECKING:
    from tests.simulation.history import History

RETRY_AFTER = (("0", 0), ("5", 5_000), ("40", 40_000), ("100000", 86_400_000), ("soon", 0), (None, 0))
"""Headers of a 429 or 503, and the milliseconds that they ask for: a day at most."""


class Play(Protocol):
    """A history, as far as receivers look at it."""

    chance: Random
    faulty: bool

    def draws(self, fault: str, rate: float) -> bool: ...


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
        match mood_of(history, self._subscribers[push.subscription.name], ("flapping", "ack_lost")):
            case "slow":
                return Reply(200, "2xx, late", dice.randrange(timeout_ms))
            case "hanging":
                return Reply(None, "no answer", timeout_ms)
            case "dripping":
                return Reply(None, "an answer that does not end", timeout_ms)
            case "poisoned":
                return status_reply(dice, "refusing" if is_poison(push.message.message_id) else "healthy", quick_ms)
            case "ack_lost":
                return Reply(None, "2xx, then a reset", quick_ms)
            case mood:
                return status_reply(dice, mood, quick_ms)

    def outcome(self, reply: Reply, now: int) -> Outcome:
        """Return what the shipped adapter makes of a reply."""
        if reply.status is None:
            return Outcome(False, "timeout" if reply.detail == "no answer" else "connection closed before the answer")
        return http.outcome(reply.status, reply.retry_after if reply.status in (429, 503) else None, now)


def is_poison(message_id: str) -> bool:
    """Say whether a message is one of those that a receiver in this mode always refuses: every third."""
    return int(message_id) % 3 == 0


def status_reply(dice: Random, mood: str, took_ms: int) -> Reply:
    """Return an answer with a status, as a receiver in this *mood* gives it."""
    match mood:
        case "healthy":
            return Reply(dice.choice((200, 200, 202, 204, 299)), "2xx", took_ms)
        case "busy" | "throttling":
            header, asked_ms = dice.choice(RETRY_AFTER)
            status = 503 if mood == "busy" else 429
            return Reply(status, f"{status}, Retry-After {header}", took_ms, header, asked_ms)
        case "refusing":
            return Reply(dice.choice((400, 404, 422)), "4xx", took_ms)
        case "redirecting":
            return Reply(dice.choice((301, 302, 307)), "3xx", took_ms)
        case "gone":
            return Reply(410, "410", took_ms)
        case _:
            return Reply(dice.choice((500, 502)), "5xx", took_ms)


def mood_of(play: Play, subscriber: Subscriber, unsteady: Container[str]) -> str:
    """Return how a receiver feels now: those of *unsteady* modes are healthy every other time."""
    if not play.faulty and subscriber.recovers:
        return "healthy"
    mode = subscriber.mode
    if mode == "healthy":
        return "down" if play.draws("endpoint", 0.05) else mode
    if mode in unsteady and play.chance.random() < 0.5:
        return "healthy"
    if mode in ("down", "gone", "throttling") and play.chance.random() < 0.15:
        return "healthy"
    return mode
