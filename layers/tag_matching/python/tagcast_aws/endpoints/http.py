"""HTTP and HTTPS endpoints: one POST per request over a connection pool, without redirects."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from tagcast.model import ContentFormat, Message, Outcome, Protocol, Push, PushBatch, Subscription
from tagcast.pushing.batch_form import ANSWER_BYTES_MAX, batch_request, read_response, shared_item
from tagcast.pushing.content_formats import Content
from tagcast.pushing.envelope import HttpRequest, content, http_request
from tagcast.pushing.push_slots import SLOTS
from tagcast.pushing.response_text import READ_BYTES_MAX
from tagcast.registry.directory import NEVER_READ, ReadStart
from tagcast.subscription_settings import SubscriptionSettings
from yarl import URL

from tagcast_aws.endpoints.adapter import AdapterEnvironment, timeout_outcome
from tagcast_aws.endpoints.addresses import parsed, url_refusal
from tagcast_aws.endpoints.client_contexts import ClientContexts
from tagcast_aws.endpoints.connection_faults import failure, is_unreached, is_unsent
from tagcast_aws.endpoints.connector import WAS_MADE, BoundedConnector, KeepingConnector
from tagcast_aws.endpoints.payload import body_of
from tagcast_aws.endpoints.resolver import CheckedResolver
from tagcast_aws.endpoints.time_limit import TimeLimit

RETRY_AFTER_S_MAX = 86_400.0
UNAVAILABLE = frozenset((408, 429, 502, 503, 504))
"""Statuses about the receiver, or a proxy before it, and not about the message (RFC 9110, RFC 6585)."""
KEPT_S = 60.0
COMPRESSED = b"{compressed}"
"""Stands for a compressed response, which is not read. It is malformed JSON, so it fails a whole batch."""
RESOLVED_S = 30.0


class HttpPusher:
    """Delivers by POST, on the event loop that created it. Its caller must hold one of the core's slots for pushes."""

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._clock = surroundings.clock
        self._version, self._account, self._sign = surroundings.version, surroundings.account, surroundings.sign
        self._reach = surroundings.reach
        self._resolver = CheckedResolver(surroundings.reach, surroundings.threads, surroundings.lookup)
        self._contents: WeakValueDictionary[tuple[str, str, str], Content] = WeakValueDictionary()
        self._contexts, tls = ClientContexts(surroundings), surroundings.tls()
        both: dict[str, Any] = {
            "limit": SLOTS,
            "resolver": self._resolver,
            "ssl": tls,
            "socket_factory": surroundings.make_socket,
            "ttl_dns_cache": None,
        }
        kept = KeepingConnector(surroundings.aws_connections, keepalive_timeout=KEPT_S, **both)
        self._connectors, self._read_start = (kept, BoundedConnector(force_close=True, **both)), NEVER_READ
        self._kept, self._fresh = map(plain_session, self._connectors)

    async def deliver(self, push: Push) -> Outcome:
        """Make one attempt; the timeout covers connecting, TLS and reading the response."""
        shared = self._share_content(push, push.subscription.settings.content_format.value, content)
        request = http_request(push, self._clock.now(), self._version, shared, self._account, self._sign)
        return (await self._attempt(push.subscription, request, READ_BYTES_MAX))[0]

    async def deliver_batch(self, batch: PushBatch) -> Outcome:
        """Make several attempts in one request; the response may list failed messages."""
        form = f"{batch.subscription.settings.content_format.value} item"
        shared = [self._share_content(push, form, shared_item) for push in batch.pushes]
        request = batch_request(batch, self._clock.now(), self._version, shared, self._sign)
        outcome, answer = await self._attempt(batch.subscription, request, ANSWER_BYTES_MAX)
        return read_response(batch, outcome, answer) if outcome.delivered else outcome

    def _share_content(self, push: Push, form: str, encode: Callable[[Message, ContentFormat], Content]) -> Content:
        """Return the message's content in *form*, which concurrent requests with the message share."""
        key = push.message.topic, push.message.message_id, form
        shared = self._contents.get(key)
        if shared is None:
            shared = self._contents[key] = encode(push.message, push.subscription.settings.content_format)
        return shared

    async def _attempt(self, subscription: Subscription, request: HttpRequest, kept_max: int) -> tuple[Outcome, bytes]:
        """Return the outcome of a request, and the first *kept_max* bytes of the response, if there is one."""
        settings = subscription.settings
        endpoint = settings.endpoint
        refusal = url_refusal(endpoint.target, endpoint.protocol, self._reach)
        refusal = refusal or certificate_refusal(settings, self._clock.now())
        if refusal is not None:
            return Outcome(False, refusal, unsent=True), b""
        try:
            async with TimeLimit(settings.timeout_s):
                tls = True if settings.client_key is None else await self._contexts.presenting(settings.client_key)
                return await self._post(parsed(endpoint.target), request, kept_max, tls)
        except TimeoutError:
            return timeout_outcome(subscription), b""
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome(False, failure(error), unreached=is_unreached(error), unsent=is_unsent(error)), b""

    async def close(self) -> None:
        """Close all connections, both those that are kept for later requests and those for a single request."""
        await self._kept.close()
        await self._fresh.close()
        await self._resolver.close()

    async def _post(
        self, url: URL, request: HttpRequest, kept_max: int, tls: ssl.SSLContext | bool
    ) -> tuple[Outcome, bytes]:
        self._forget_names()
        WAS_MADE.set(False)
        try:
            response = await _send(self._kept, url, request, tls)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError) as error:
            if WAS_MADE.get() or not _died_silently(error):
                raise
            response = await _send(self._fresh, url, request, tls)
        try:
            answer = await read_answer(response, kept_max)
        finally:
            # A connection whose response was read completely is back in the pool; this closes the others.
            response.close()
        retry_after = response.headers.get("Retry-After") if response.status in (429, 503) else None
        return outcome(response.status, retry_after, self._clock.now(), answer[:READ_BYTES_MAX]), answer

    def _forget_names(self) -> None:
        """Forget resolved names after :data:`RESOLVED_S`. Two clocks count: one may stop in a frozen process."""
        if not self._read_start.is_recent(self._clock, RESOLVED_S):
            self._read_start = ReadStart.of(self._clock)
            for connector in self._connectors:
                connector.clear_dns_cache()


async def _send(
    session: aiohttp.ClientSession, url: URL, request: HttpRequest, tls: ssl.SSLContext | bool
) -> aiohttp.ClientResponse:
    body = body_of(request.parts, request.headers["content-type"])
    return await session.post(url, data=body, headers=request.headers, allow_redirects=False, ssl=tls)


def plain_session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    """Return a session without cookies, proxies and local credentials. It does not decompress responses."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding",),
        trust_env=False,
    )


def certificate_refusal(settings: SubscriptionSettings, now: int) -> str | None:
    """Return why the certificate of *settings* cannot be presented at *now*; None if it can, or if there is none.

    A push without its certificate is not sent: the receiver would refuse it, or attribute it to another sender.
    """
    certificate = settings.client_certificate
    if certificate is None:
        return None
    if settings.endpoint.protocol is not Protocol.HTTPS:
        return "client certificate needs https"
    if settings.client_key is None:
        return "client certificate missing"
    return "client certificate expired" if now >= certificate.expires_at else None


def outcome(status: int, retry_after: str | None, now: int, answer: bytes = b"") -> Outcome:
    """Return the outcome of a response; *retry_after* is the header of a 429 or 503."""
    if 200 <= status <= 299:
        return Outcome(True, f"http {status}", status=status)
    if 300 <= status <= 399:
        return Outcome(False, f"redirect {status} refused", status=status, answer=answer)
    delay = None if retry_after is None else retry_after_s(retry_after, now)
    refused, is_gone = status >= 400 and status not in UNAVAILABLE, status == 410
    return Outcome(False, f"http {status}", delay, gone=is_gone, status=status, answer=answer, refused=refused)


def retry_after_s(header: str, now: int) -> float | None:
    """Return the seconds of a Retry-After header, at most a day; None if it is malformed.

    >>> retry_after_s("120", 0), retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 20_000)
    (120.0, 40.0)
    """
    text = header.strip()
    if re.fullmatch(r"[0-9]+", text):
        return min(float(text[:6]) if len(text) <= 6 else RETRY_AFTER_S_MAX, RETRY_AFTER_S_MAX)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    elapsed = (aware - datetime.fromtimestamp(now / 1000, UTC)).total_seconds()
    return min(max(elapsed, 0.0), RETRY_AFTER_S_MAX)


def _died_silently(error: Exception) -> bool:
    # Without a response, aiohttp's message is a text. Otherwise it is the head of the incomplete response.
    return not isinstance(error, aiohttp.ServerDisconnectedError) or isinstance(error.message, str)


async def read_answer(response: aiohttp.ClientResponse, kept_max: int) -> bytes:
    """Read the body of *response*, at most ``ANSWER_BYTES_MAX`` bytes; return its first *kept_max* bytes.

    Of a compressed body return ``COMPRESSED``.
    """
    left, kept = ANSWER_BYTES_MAX, b""
    while left > 0 and (chunk := await response.content.read(left)):
        left -= len(chunk)
        kept += chunk[: kept_max - len(kept)]
    return kept if response.headers.get("Content-Encoding", "identity").lower() == "identity" else COMPRESSED
