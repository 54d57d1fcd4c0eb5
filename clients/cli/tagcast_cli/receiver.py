"""A small HTTP receiver: it counts pushes, can fail on purpose, ignores signatures, and confirms verifications."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tagcast_client import Received, UnreadableError, read_batch


@dataclass(frozen=True)
class Push:
    """A received push. `number` counts the pushes of a subscription from 1. `tags` is the push's tags header.

    `message_number` counts the distinct messages of the subscription, so a retry has the number of its message. For a
    push of a batch, `message_id` is the id of the batch, and `batched` has its messages. Otherwise `batched` is empty.
    """

    topic: str
    subscription: str
    message_id: str
    attempt: str
    number: int
    message_number: int
    tags: str
    body: bytes
    batched: tuple[Received, ...] = ()


@dataclass(frozen=True)
class Reply:
    """The receiver's response: its HTTP status, sent after `delay_s` seconds."""

    status: int = 200
    delay_s: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether the service counts a push with this status as a success."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class FaultPlan:
    """The pushes of each subscription that fail, from number `fail_from` to number `fail_until`, with `status`.

    If only one limit is given, the other is open. Without both, no push fails. Each response is sent after `delay_s`
    seconds, also that of a success.

    >>> plan = FaultPlan(fail_from=3, fail_until=4, status=503)
    >>> [plan.reply_to(number).status for number in (1, 2, 3, 4, 5)]
    [200, 200, 503, 503, 200]
    >>> FaultPlan(fail_until=2).reply_to(1).status, FaultPlan().reply_to(1).status
    (500, 200)
    """

    fail_from: int | None = None
    fail_until: int | None = None
    status: int = 500
    delay_s: float = 0.0

    def reply_to(self, number: int) -> Reply:
        """Return the response to the push with this number. Each subscription counts its pushes from 1."""
        planned = self.fail_from is not None or self.fail_until is not None
        begun = number >= (self.fail_from or 1)
        ended = self.fail_until is not None and number > self.fail_until
        return Reply(self.status if planned and begun and not ended else 200, self.delay_s)


def _messages_of(headers: Mapping[str, str], body: bytes) -> tuple[Received, ...]:
    """Return the messages of a batch; empty if the push is not a readable batch."""
    with suppress(UnreadableError):
        return read_batch(headers, body) if "x-tagcast-batch" in headers else ()
    return ()


def token_of(body: bytes) -> str | None:
    """Return the verification token in the *body* of a request. Return None if the request is a push.

    >>> token_of(b'{"verification_token": "abc"}'), token_of(b'{"body": "abc"}'), token_of(b"abc")
    ('abc', None, None)
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    token = request.get("verification_token") if isinstance(request, dict) and len(request) == 1 else None
    return token if isinstance(token, str) else None


Respond = Callable[[str, dict[str, str], bytes], tuple[int, Mapping[str, str], bytes]]
"""Takes the method, the headers with lower-case names, and the body of a request. Returns status, headers and body."""


class Server(ThreadingHTTPServer):
    """Listens on *host* and *port*; port 0 is any free port. *respond* answers each request, in a thread of its own."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, respond: Respond, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((host, port), _Handler)
        self.respond = respond

    @property
    def url(self) -> str:
        """The URL at which the server listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    def start(self) -> Self:
        """Start to listen, in a thread. Return the server."""
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore lost connections, and print any other error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: Server

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        lower = {name.lower(): value for name, value in self.headers.items()}
        status, headers, body = self.server.respond(self.command, lower, content)
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_OPTIONS = do_POST = _serve  # noqa: N815  The names are the library's.

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the command prints what it received."""


class Receiver(Server):
    """Responds to each push with the result of `reply_to`, and to any other request with 200.

    `on_push` is called for every push, one at a time, before the response. The receiver confirms verification requests.
    `on_check` is called with the origin of each, which is its User-Agent if the request has a token. `accepted` and
    `refused` are the pushes that got a success or another response.
    """

    def __init__(
        self,
        reply_to: Callable[[Push], Reply],
        on_push: Callable[[Push, Reply], None] = lambda push, reply: None,
        *,
        on_check: Callable[[str], None] = lambda origin: None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self._reply_to = reply_to
        self._on_push = on_push
        self._on_check = on_check
        self._lock = threading.Lock()
        self._pushes: Counter[tuple[str, str]] = Counter()
        self._places: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self.accepted: list[Push] = []
        self.refused: list[Push] = []
        super().__init__(self._answer, host, port)

    def totals(self) -> Counter[str]:
        """Return the number of answered pushes, by the name of the subscription."""
        with self._lock:
            return Counter(push.subscription for push in (*self.accepted, *self.refused))

    def accepted_ids(self) -> list[str]:
        """Return the ids of successfully received messages, in the order of their first success."""
        with self._lock:
            return list(dict.fromkeys(push.message_id for push in self.accepted))

    def _answer(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Confirm a verification, either by CloudEvents' webhook handshake or by its token. Take a push."""
        if method == "OPTIONS" and (origin := headers.get("webhook-request-origin")) is not None:
            self._report_check(origin)
            return 200, {"webhook-allowed-origin": origin, "webhook-allowed-rate": "*"}, b""
        if method != "POST":
            return 200, {}, b""
        if "x-tagcast-topic" not in headers and (token := token_of(body)) is not None:
            self._report_check(headers.get("user-agent", "?"))
            return 200, {}, token.encode()
        return self._take(headers, body).status, {}, b""

    def _report_check(self, origin: str) -> None:
        with self._lock:
            self._on_check(origin)

    def _take(self, headers: dict[str, str], body: bytes) -> Reply:
        """Count a push, report it with its response, and return the response."""
        topic, subscription = headers.get("x-tagcast-topic", "?"), headers.get("x-tagcast-subscription", "?")
        message_id = headers.get("webhook-id", "?")
        with self._lock:
            self._pushes[topic, subscription] += 1
            places = self._places[topic, subscription]
            push = Push(
                topic=topic,
                subscription=subscription,
                message_id=message_id,
                attempt=headers.get("x-tagcast-attempt", "?"),
                number=self._pushes[topic, subscription],
                message_number=places.setdefault(message_id, len(places) + 1),
                tags=headers.get("x-tagcast-tags", "[]"),
                body=body,
                batched=_messages_of(headers, body),
            )
        reply = self._reply_to(push)
        if reply.delay_s > 0:
            time.sleep(reply.delay_s)
        with self._lock:
            (self.accepted if reply.succeeded else self.refused).append(push)
            self._on_push(push, reply)
        return reply
