"""Receivers behind the network: they take real HTTP requests and answer as their mode says."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tests.aws.network import Connection, Request
from tests.aws.strands import Host
from tests.simulation.endpoints import mood_of, status_reply
from tests.simulation.ledger import Attempt, Reply
from tests.simulation.plan import Subscriber

if TYPE_CHECKING:
    from tests.aws.histories.history import History

UNSTEADY = ("flapping", "ack_lost", "refused", "silent")
KEPT_IDLE_MS = (5_000, 75_000)
"""After so long a receiver closes a connection that nobody uses."""


class Receiver:
    """One subscriber's listener."""

    def __init__(self, history: History, subscriber: Subscriber) -> None:
        self._history = history
        self._subscriber = subscriber
        self._timeout_ms = subscriber.settings.timeout_s * 1000
        self._under_way: dict[Connection, tuple[Attempt, Reply, Host]] = {}

    def reached(self) -> str:
        mood = self._mood()
        if mood not in ("refused", "silent"):
            return "open"
        self._history.checks.not_reached(self._subscriber.name)
        return mood

    def asked(self, request: Request, connection: Connection) -> None:
        """Take a push: check it, then answer in this receiver's way."""
        history = self._history
        if not connection.is_open:
            return
        attempt = history.witness.pushed(self._subscriber.name, request, connection.host)
        if attempt is None:
            return
        reply = self._reply()
        self._under_way[connection] = (attempt, reply, connection.host)
        if reply.detail == "no answer":
            return
        history.timeline.after(reply.took_ms, lambda: self._answer(connection, attempt, reply))

    def left(self, connection: Connection) -> None:
        """Hear that the client hung up, perhaps while a push was under way."""
        found = self._under_way.pop(connection, None)
        if found is not None:
            attempt, reply, host = found
            self._history.witness.answered(attempt, Reply(None, f"nobody waited for: {reply.detail}", 0), host)

    def _answer(self, connection: Connection, attempt: Attempt, reply: Reply) -> None:
        if self._under_way.get(connection, (None,))[0] is not attempt:
            return
        if reply.status is None:
            if reply.detail == "dripping":
                connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n" + b"x" * 100)
                return
            del self._under_way[connection]
            self._history.witness.answered(attempt, reply, connection.host)
            connection.hang_up(ConnectionResetError(errno.ECONNRESET, "reset"))
            return
        del self._under_way[connection]
        self._history.witness.answered(attempt, reply, connection.host)
        header = "" if reply.retry_after is None else f"retry-after: {reply.retry_after}\r\n"
        body = "" if reply.status == 204 else "content-length: 2\r\n\r\nok"
        connection.send(f"HTTP/1.1 {reply.status} Said\r\n{header}{body or chr(13) + chr(10)}".encode())
        idle_ms = self._history.chance.uniform(*KEPT_IDLE_MS)
        self._history.timeline.after(idle_ms, lambda: self._hang_up(connection, idle_ms))

    def _hang_up(self, connection: Connection, idle_ms: float) -> None:
        if connection not in self._under_way and self._history.timeline.now - connection.idle_since >= idle_ms - 1:
            connection.hang_up()

    def _reply(self) -> Reply:
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
            case "ack_lost" | "hanging_up":
                return Reply(None, "a reset", quick_ms)
            case mood:
                return status_reply(dice, mood, quick_ms)

    def _mood(self) -> str:
        return mood_of(self._history, self._subscriber, UNSTEADY)
