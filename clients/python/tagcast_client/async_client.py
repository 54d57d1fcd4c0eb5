"""The asynchronous client; `client` is made from this file by `make_sync.py`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from tagcast_client import models, operations
from tagcast_client.errors import BatchInterruptedError, TagcastError, UnreachableError, refusal
from tagcast_client.operations import Answer, Operation, Page, Result
from tagcast_client.retrying import Retries, Tries
from tagcast_client.signing import SigV4, is_aws

T = TypeVar("T")

TIMEOUT = httpx.Timeout(35.0, connect=5.0)


class AsyncClient:
    """The API at *url*: signed with the default AWS credentials towards AWS, plain elsewhere, unless *auth* says how.

    Requests whose answer is lost, and answers 429 and 5xx, are repeated as *retries* says where a repetition changes
    nothing; every publish has an idempotency key for that. What the API refuses raises a `ProblemError`, when nobody
    answers an `UnreachableError`. Use it as a context manager, or call `aclose`.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        retries: Retries | None = None,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        user_agent: str = "tagcast-client",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url.rstrip("/")
        self._retries = retries or Retries()
        self._sleep = sleep
        self._clock = clock
        self._http = httpx.AsyncClient(
            auth=auth or (SigV4() if is_aws(url) else None),
            timeout=timeout,
            transport=transport,
            headers={"accept": "application/json", "user-agent": user_agent},
            follow_redirects=False,
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # Publishing

    async def publish(
        self,
        topic: str,
        body: str | bytes,
        *,
        tags: Iterable[str] = (),
        routing_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        content_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.Accepted:
        """Publish one message; it is accepted once, however often the request has to be repeated."""
        message = models.NewMessage(body, tuple(tags), routing_key, properties or {}, ordering_key, content_type)
        return await self.send(operations.publish(topic, message, idempotency_key or _new_key()))

    async def publish_batch(
        self, topic: str, messages: Iterable[models.NewMessage], *, idempotency_key: str | None = None
    ) -> tuple[Result, ...]:
        """Publish any number of messages, in their order, in as many requests as the API's limits ask for.

        Each has its own result: `Accepted`, or `Refused` with its problem. Raises BatchInterruptedError when a part
        fails after another was accepted.
        """
        key = idempotency_key or _new_key()
        results: tuple[Result, ...] = ()
        for place, part in operations.parts([message.as_json() for message in messages]):
            operation = operations.publish_batch(topic, part, operations.key_of_part(key, place))
            results += await self._part(operation, results)
        return results

    async def replay(
        self,
        topic: str,
        subscription: str,
        messages: Iterable[models.ArchivedMessage],
        *,
        idempotency_key: str | None = None,
    ) -> tuple[Result, ...]:
        """Publish messages of the archive again, for one subscription; otherwise as `publish_batch`."""
        key = idempotency_key or _new_key()
        results: tuple[Result, ...] = ()
        for place, part in operations.parts([message.as_json() for message in messages]):
            operation = operations.replay(topic, subscription, part, operations.key_of_part(key, place))
            results += await self._part(operation, results)
        return results

    async def push(self, topic: str) -> tuple[str, ...]:
        """Try at once whatever the topic's subscriptions are owed; return the names of those lanes."""
        return await self.send(operations.push(topic))

    # Topics

    async def put_topic(
        self,
        topic: str,
        *,
        retention_seconds: int | None = None,
        max_message_bytes: int | None = None,
        ordering: str | None = None,
    ) -> models.Topic:
        """Make a topic, or give it these settings; what is not named gets its default."""
        settings = {
            "retention_seconds": retention_seconds,
            "max_message_bytes": max_message_bytes,
            "ordering": ordering,
        }
        return await self.send(operations.put_topic(topic, settings))

    async def get_topic(self, topic: str) -> models.Topic:
        """Return a topic."""
        return await self.send(operations.get_topic(topic))

    async def delete_topic(self, topic: str) -> None:
        """Remove a topic that has no subscriptions."""
        await self.send(operations.delete_topic(topic))

    def list_topics(self, *, page_size: int | None = None) -> AsyncIterator[models.Topic]:
        """Yield all topics, by name."""
        return self._all(lambda cursor: operations.list_topics(page_size, cursor))

    # Subscriptions

    async def put_subscription(
        self,
        topic: str,
        subscription: str,
        endpoint: str | Mapping[str, str],
        *,
        filter: models.Filter | None = None,
        retry: Mapping[str, Any] | None = None,
        timeout_seconds: int | None = None,
        content_format: str | None = None,
        secret: str | None = None,
        if_version: int | None = None,
    ) -> models.Subscription:
        """Make a subscription, or replace its settings; *endpoint* is a URL, or an endpoint as the API writes it.

        With *if_version* only if it still has that version; else PreconditionFailedError.
        """
        settings = {
            "endpoint": _endpoint(endpoint),
            "filter": filter,
            "retry": retry,
            "timeout_seconds": timeout_seconds,
            "content_format": content_format,
            "secret": secret,
        }
        return await self.send(operations.put_subscription(topic, subscription, settings, if_version))

    async def get_subscription(self, topic: str, subscription: str) -> models.Subscription:
        """Return a subscription with its lane."""
        return await self.send(operations.get_subscription(topic, subscription))

    async def delete_subscription(self, topic: str, subscription: str, *, if_version: int | None = None) -> None:
        """Remove a subscription; what it is still owed is cancelled."""
        await self.send(operations.delete_subscription(topic, subscription, if_version))

    def list_subscriptions(self, topic: str, *, page_size: int | None = None) -> AsyncIterator[models.Subscription]:
        """Yield the topic's subscriptions, by name."""
        return self._all(lambda cursor: operations.list_subscriptions(topic, page_size, cursor))

    async def list_versions(self, topic: str, subscription: str) -> tuple[models.Version, ...]:
        """Return the history of the subscription's filter, newest first."""
        return await self.send(operations.list_versions(topic, subscription))

    # Lanes

    async def pause(self, topic: str, subscription: str) -> models.Lane:
        """Stop pushing to a subscription; what it is owed waits."""
        return await self.send(operations.change_lane(topic, subscription, "pause"))

    async def resume(self, topic: str, subscription: str) -> models.Lane:
        """Go on with a paused or suspended subscription."""
        return await self.send(operations.change_lane(topic, subscription, "resume"))

    async def retry(self, topic: str, subscription: str) -> models.Lane:
        """Attempt the head of a lane now."""
        return await self.send(operations.change_lane(topic, subscription, "retry"))

    async def skip(self, topic: str, subscription: str, reason: str) -> models.Lane:
        """Give up the head of a lane, and say why."""
        return await self.send(operations.skip(topic, subscription, reason))

    async def list_backlog(
        self, topic: str, subscription: str, *, page_size: int | None = None
    ) -> AsyncIterator[models.Delivery]:
        """Yield what a subscription is owed, in order."""
        return self._all(lambda cursor: operations.backlog(topic, subscription, page_size, cursor))

    # Messages

    async def get_message(self, topic: str, message_id: str) -> models.Message:
        """Return a message, or its receipt, with what became of it for each subscription."""
        return await self.send(operations.get_message(topic, message_id))

    def list_messages(
        self, topic: str, *, bodies: bool = False, page_size: int | None = None
    ) -> AsyncIterator[models.Message]:
        """Yield the messages that are still owed to somebody, oldest first."""
        return self._all(lambda cursor: operations.list_messages(topic, bodies, page_size, cursor))

    async def explain(self, topic: str, message_id: str, subscription: str) -> Mapping[str, Any]:
        """Return why a subscription did or did not get a message."""
        return await self.send(operations.explain(topic, message_id, subscription))

    # Filters

    async def set_shadow(self, topic: str, subscription: str, filter: models.Filter | None) -> models.Shadow:
        """Watch a candidate filter beside the active one; it delivers nothing."""
        return await self.send(operations.set_shadow(topic, subscription, filter))

    async def get_shadow(self, topic: str, subscription: str) -> models.Shadow:
        """Return what was seen of the candidate so far."""
        return await self.send(operations.get_shadow(topic, subscription))

    async def delete_shadow(self, topic: str, subscription: str) -> None:
        """Stop watching the candidate."""
        await self.send(operations.delete_shadow(topic, subscription))

    async def promote_shadow(
        self, topic: str, subscription: str, *, shadow_version: int | None = None
    ) -> models.Subscription:
        """Make the candidate the active filter; with *shadow_version* only if it is still that one."""
        return await self.send(operations.promote_shadow(topic, subscription, shadow_version))

    async def test_filter(
        self, filter: models.Filter | None, message: models.NewMessage | None = None
    ) -> models.FilterTest:
        """Ask what a filter says of a message; nothing is stored or sent."""
        return await self.send(operations.test_filter(filter, message or models.NewMessage("")))

    # Anything

    async def health(self) -> models.Health:
        """Return the API's health and version."""
        return await self.send(operations.health())

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send any request and return the answer as it came. Raises as all methods do."""
        return await self.send(operations.raw(method, path, body, query, headers))

    async def send(self, operation: Operation[T]) -> T:
        """Carry out an operation, repeating it as far as it may be."""
        tries = Tries(self._retries, self._clock())
        while True:
            outcome = await self._try(operation)
            wait_s = tries.wait_s(operation, outcome, self._clock())
            if wait_s is None:
                break
            await self._sleep(wait_s)
        if isinstance(outcome, UnreachableError):
            raise outcome
        if outcome.status == 404 and operation.gone_is_done and tries.made > 1:
            return operation.read(Answer(204, ""))
        if outcome.status >= 300:
            raise refusal(outcome.status, outcome.text)
        return operation.read(outcome)

    async def _try(self, operation: Operation[T]) -> Answer | UnreachableError:
        headers = dict(operation.headers)
        content = operation.content
        if content is not None:
            headers["content-type"] = "application/json"
        try:
            got = await self._http.request(
                operation.method, self.url + operation.path, params=operation.query, headers=headers, content=content
            )
        except httpx.TransportError as fault:
            refused = isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout)
            return UnreachableError(self.url, str(fault) or type(fault).__name__, refused=refused)
        return Answer(got.status_code, got.text, {name.lower(): value for name, value in got.headers.items()})

    async def _part(self, operation: Operation[tuple[Result, ...]], before: tuple[Result, ...]) -> tuple[Result, ...]:
        try:
            return await self.send(operation)
        except TagcastError as fault:
            if before:
                raise BatchInterruptedError(before, len(before)) from fault
            raise

    async def _all(self, page_at: Callable[[str | None], Operation[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self.send(page_at(cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


def _new_key() -> str:
    return str(uuid.uuid4())


def _endpoint(endpoint: str | Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(endpoint, str):
        return endpoint
    return {"protocol": endpoint.partition(":")[0].lower(), "url": endpoint}
