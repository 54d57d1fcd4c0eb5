"""Receivers behind the network: they take real HTTP requests and answer as their mode says."""

from __future__ import annotations

import errno
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tagcast.model import Strategy

from tests.aws.histories.asked import GROUP
from tests.aws.network import Connection, Listener, Request
from tests.simulation.batches import BatchReply, reply_to
from tests.simulation.endpoints import is_poison, mood_of, status_reply
from tests.simulation.ledger import Attempt, Reply
from tests.simulation.plan import Subscriber

if TYPE_CHECKING:
    from tests.aws.histories.history import History

UNSTEADY = ("flapping", "ack_lost", "refused", "silent")
PLAIN = b"ok"
KEPT_IDLE_MS = (5_000, 75_000)
"""A receiver closes a connection that was idle for a time between these two."""


@dataclass(frozen=True)
class UnderWay:
    """A request that a receiver has, the attempts in it, and what it is going to make of them."""

    attempts: Sequence[Attempt]
    does: BatchReply

    @property
    def reply(self) -> Reply:
        return self.does.reply


class Receiver:
    """One subscriber's listener."""

    def __init__(self, history: History, subscriber: Subscriber) -> None:
        self._history = history
        self._subscriber = subscriber
        self._timeout_ms = subscriber.settings.timeout_s * 1000
        self._under_way: dict[Connection, UnderWay] = {}
        self._cut: set[Connection] = set()
        """Connections that were closed while their process stood still, without its knowing."""

    def reached(self) -> str:
        mood = self._mood()
        if mood not in ("refused", "silent"):
            return "open"
        self._history.checks.not_reached(self._subscriber.name)
        return mood

    def asked(self, request: Request, connection: Connection) -> None:
        """Take a push: check it, then answer in this receiver's way."""
        if not connection.is_open:
            return
        if is_question(request):
            self._agree(request, connection)
            return
        history = self._history
        attempts = history.witness.pushed(request)
        reply = self._reply(attempts[0].message_id)
        if connection in self._cut:
            history.note("the connection is no more, and nobody told the process")
            reply = Reply(None, "no answer", self._timeout_ms)
        owner = history.checks.ledger.owner(attempts[0].ordinal)
        ids = [attempt.message_id for attempt in attempts]
        in_order = owner["strategy"] == Strategy.BACKOFF_RETRY.value
        does = BatchReply(reply, PLAIN, dict.fromkeys(ids, reply), frozenset())
        if "x-tagcast-batch" in request.headers:
            does = reply_to(history, self._subscriber, ids, reply, keeps_order=in_order)
        under_way = self._under_way[connection] = UnderWay(attempts, does)
        if reply.detail != "no answer":
            history.timeline.after(reply.took_ms, lambda: self._answer(connection, under_way))

    def left(self, connection: Connection) -> None:
        """Hear that the client hung up, perhaps while a push was under way."""
        found = self._under_way.pop(connection, None)
        if found is not None:
            reply = Reply(None, f"nobody waited for: {found.reply.detail}", 0)
            for place, attempt in enumerate(found.attempts):
                attempt.counts = place == 0
                self._history.witness.answered(attempt, reply)

    def _agree(self, request: Request, connection: Connection) -> None:
        """Answer the question whether this endpoint wants pushes: some know the handshake, some repeat the token."""
        is_well, dice = self._mood() in ("healthy", "poisoned"), self._history.chance
        if request.method == "OPTIONS":
            status = dice.choice((200, 405)) if is_well else 503
            connection.send(
                f"HTTP/1.1 {status} Said\r\nwebhook-allowed-origin: *\r\ncontent-length: 0\r\n\r\n".encode()
            )
            return
        token = str(json.loads(request.body)["verification_token"]) if is_well else "what?"
        connection.send(f"HTTP/1.1 200 Said\r\ncontent-length: {len(token)}\r\n\r\n{token}".encode())

    def _answer(self, connection: Connection, under_way: UnderWay) -> None:
        if self._under_way.get(connection) is not under_way:
            return
        does, reply = under_way.does, under_way.reply
        if reply.detail == "dripping":
            connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n" + b"x" * 100)
            return
        del self._under_way[connection]
        for attempt in under_way.attempts:
            attempt.counts = attempt.message_id not in does.uncounted
            self._history.witness.answered(attempt, does.of[attempt.message_id])
        if reply.status is None:
            connection.hang_up(ConnectionResetError(errno.ECONNRESET, "reset"))
            return
        status = 200 if reply.status == 204 and does.answer != PLAIN else reply.status
        header = "" if reply.retry_after is None else f"retry-after: {reply.retry_after}\r\n"
        body = b"\r\n" if status == 204 else f"content-length: {len(does.answer)}\r\n\r\n".encode() + does.answer
        connection.send(f"HTTP/1.1 {status} Said\r\n{header}".encode() + body)
        idle_ms = self._history.chance.uniform(*KEPT_IDLE_MS)
        self._history.timeline.after(idle_ms, lambda: self._hang_up(connection, idle_ms))

    def _hang_up(self, connection: Connection, idle_ms: float) -> None:
        if connection not in self._under_way and self._history.timeline.now - connection.idle_since >= idle_ms - 1:
            if connection.host.frozen and self._history.deployment.box.unsaid.cuts_silently:
                self._cut.add(connection)
            else:
                connection.hang_up()

    def _reply(self, message_id: str) -> Reply:
        """Return what the receiver does with one push; *took_ms* of None-status replies is when it happens."""
        dice = self._history.chance
        quick_ms = dice.choice((0, 3, 20, 150))
        match self._mood():
            case "slow":
                return Reply(200, "2xx, late", dice.randrange(self._timeout_ms))
            case "hanging":
                return Reply(None, "no answer", self._timeout_ms)
            case "dripping":
                return Reply(None, "dripping", quick_ms)
            case "poisoned":
                return status_reply(dice, "refusing" if is_poison(message_id) else "healthy", quick_ms)
            case "ack_lost" | "hanging_up":
                return Reply(None, "a reset", quick_ms)
            case mood:
                return status_reply(dice, mood, quick_ms)

    def _mood(self) -> str:
        return mood_of(self._history, self._subscriber, UNSTEADY)


class SharedHost:
    """Many receivers at one address, told apart by the path; whether it is reached is decided for all of them."""

    def __init__(self, history: History, receivers: Mapping[str, Receiver]) -> None:
        self._history, self._receivers = history, receivers

    def reached(self) -> str:
        first, *others = self._receivers.values()
        found = first.reached()
        if found != "open" and others:
            self._history.checks.not_reached(None)
        return found

    def asked(self, request: Request, connection: Connection) -> None:
        self._receivers[request.path].asked(request, connection)

    def left(self, connection: Connection) -> None:
        for receiver in self._receivers.values():
            receiver.left(connection)


def listeners(history: History) -> dict[str, Listener]:
    """Return what listens at which host name."""
    hosts: dict[str, dict[str, Receiver]] = defaultdict(dict)
    for subscriber in (each for each in history.plan.subscribers if each.mode != GROUP):
        target = urlsplit(subscriber.settings.endpoint.target)
        hosts[str(target.hostname)][target.path] = Receiver(history, subscriber)
    return {name: SharedHost(history, receivers) for name, receivers in hosts.items()}


def is_question(request: Request) -> bool:
    """Say whether a request asks for the right to push, and is no push."""
    return request.method == "OPTIONS" or "webhook-id" not in request.headers
