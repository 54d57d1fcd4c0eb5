"""The asynchronous client; `client` is made from this file by `make_sync.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from tagcast_client import models, operations, publishing, service
from tagcast_client.async_connection import AsyncPages
from tagcast_client.async_groups import AsyncGroups
from tagcast_client.async_lanes import AsyncLanes
from tagcast_client.async_subscriptions import AsyncSubscriptions
from tagcast_client.async_tail import AsyncWatching
from tagcast_client.changing import topic_patch
from tagcast_client.filters import AnyFilter
from tagcast_client.operation import Answer, Operation, raw
from tagcast_client.outgoing import list_tags
from tagcast_client.publishing import Result
from tagcast_client.settings import TopicChanges, TopicSettings, as_json
from tagcast_client.tracing import current_trace


class AsyncClient(AsyncGroups, AsyncLanes, AsyncSubscriptions, AsyncWatching):
    """The API at *url*, or at that of the environment variable ``TAGCAST_URL``.

    Requests are signed with the default AWS credentials towards AWS, and plain elsewhere, unless *auth* says how.

    Requests whose answer is lost, and answers 429 and 5xx, are repeated as *retries* says where a repetition changes
    nothing; every publish has an idempotency key for that. What the API refuses raises a `ProblemError`, when nobody
    answers an `UnreachableError`. Use it as a context manager, or call `aclose`.
    """

    # Publishing

    async def publish(
        self,
        topic: str,
        body: models.Body,
        *,
        tags: models.Tags = (),
        routing_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        content_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.Accepted:
        """Publish one message; it is accepted once, however often the request has to be repeated.

        A *body* that is an object or a list is written as JSON.
        """
        message = models.NewMessage(body, list_tags(tags), routing_key, properties or {}, ordering_key, content_type)
        return await self._send(publishing.publish(topic, message, idempotency_key or _new_key(), current_trace()))

    async def publish_batch(
        self, topic: str, messages: Iterable[models.NewMessage], *, idempotency_key: str | None = None
    ) -> tuple[Result, ...]:
        """Publish any number of messages, in their order, in as many requests as the API's limits ask for.

        Each has its own result: `Accepted`, or `Refused` with its problem. Raises BatchInterruptedError when a part
        fails after another was accepted.
        """
        parts = publishing.parts([message.as_json() for message in messages])
        key, trace = idempotency_key or _new_key(), current_trace()
        return await self._send_parts(lambda part, its: publishing.publish_batch(topic, part, its, trace), parts, key)

    async def replay(
        self,
        topic: str,
        subscription: str,
        messages: Iterable[models.ArchivedMessage],
        *,
        idempotency_key: str | None = None,
    ) -> tuple[Result, ...]:
        """Publish messages of the archive again, for one subscription; otherwise as `publish_batch`."""
        parts = publishing.parts([message.as_json() for message in messages])
        key = idempotency_key or _new_key()
        return await self._send_parts(lambda part, its: publishing.replay(topic, subscription, part, its), parts, key)

    async def push(self, topic: str) -> tuple[str, ...]:
        """Try at once whatever the topic's subscriptions are owed; return the names of those lanes."""
        return await self._send(operations.push(topic))

    # Topics

    async def create_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> models.Topic:
        """Create a topic; a setting that is not named has its default. Raises AlreadyExistsError."""
        return await self._send(operations.create_topic(topic, as_json(settings, TopicSettings)))

    async def update_topic(
        self, topic: str, *, if_version: int | None = None, **changes: Unpack[TopicChanges]
    ) -> models.Topic:
        """Change the settings that are named, None for the default; all others stay.

        With *if_version* only if the topic still has that version, else PreconditionFailedError.
        """
        return await self._send(operations.update_topic(topic, as_json(changes, TopicChanges), if_version))

    async def ensure_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> models.Topic:
        """Create the topic, or bring it to the settings that are named; all others stay. For programs that start."""
        wanted = as_json(settings, TopicSettings)

        def change(present: models.Topic) -> Operation[models.Topic] | None:
            patch = topic_patch(present, wanted)
            return operations.update_topic(topic, patch, present.version) if patch else None

        return await self._bring(operations.get_topic(topic), change, operations.create_topic(topic, wanted))

    async def get_topic(self, topic: str) -> models.Topic:
        """Return a topic."""
        return await self._send(operations.get_topic(topic))

    async def delete_topic(self, topic: str, *, if_version: int | None = None) -> None:
        """Remove a topic that has no subscriptions."""
        await self._send(operations.delete_topic(topic, if_version))

    def list_topics(self, *, limit: int | None = None) -> AsyncPages[models.Topic]:
        """Yield all topics, by name."""
        return self._list(lambda cursor: operations.list_topics(limit, cursor))

    # Messages

    async def get_message(
        self, topic: str, message_id: str, *, cursor: str | None = None, only: str | None = None
    ) -> models.Message:
        """Return a message, or its receipt, with what became of it for each subscription, those that fail first.

        Of one that matched more than a thousand these are some; *cursor* is its ``next_cursor``, for those behind them.
        *only* is a state, or `failing`: then no others are among them.
        """
        return await self._send(operations.get_message(topic, message_id, cursor, only))

    async def find_message(
        self, message_id: str, *, cursor: str | None = None, only: str | None = None
    ) -> models.Message:
        """Return the same, whichever topic has the message: each is asked."""
        return await self._send(operations.find_message(message_id, cursor, only))

    def list_messages(
        self, topic: str, *, bodies: bool = False, limit: int | None = None
    ) -> AsyncPages[models.Message]:
        """Yield the messages that are still owed to somebody, oldest first."""
        return self._list(lambda cursor: operations.list_messages(topic, bodies, limit, cursor))

    def list_attempts(self, topic: str, message_id: str, *, limit: int | None = None) -> AsyncPages[models.Attempted]:
        """Yield the deliveries of a message that are owed after an attempt, or failed, with their last attempts."""
        return self._list(lambda cursor: operations.list_attempts(topic, message_id, limit, cursor))

    async def explain(self, topic: str, message_id: str, subscription: str) -> Mapping[str, Any]:
        """Return why a subscription did or did not get a message."""
        return await self._send(operations.explain(topic, message_id, subscription))

    # Filters

    async def set_shadow(self, topic: str, subscription: str, filter: AnyFilter | None) -> models.Shadow:
        """Watch a candidate filter beside the active one; it delivers nothing."""
        return await self._send(operations.set_shadow(topic, subscription, filter))

    async def get_shadow(self, topic: str, subscription: str) -> models.Shadow:
        """Return what was seen of the candidate so far."""
        return await self._send(operations.get_shadow(topic, subscription))

    async def delete_shadow(self, topic: str, subscription: str) -> None:
        """Stop watching the candidate."""
        await self._send(operations.delete_shadow(topic, subscription))

    async def promote_shadow(
        self, topic: str, subscription: str, *, shadow_version: int | None = None
    ) -> models.Subscription:
        """Make the candidate the active filter; with *shadow_version* only if it is still that one."""
        return await self._send(operations.promote_shadow(topic, subscription, shadow_version))

    async def test_filter(
        self, filter: AnyFilter | None, message: models.NewMessage | None = None
    ) -> models.FilterTest:
        """Ask what a filter says of a message; nothing is stored or sent."""
        return await self._send(operations.test_filter(filter, message or models.NewMessage("")))

    # Anything

    async def health(self) -> service.Health:
        """Return the API's health and version."""
        return await self._send(service.health())

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send any request and return the answer as it came. Raises as all methods do."""
        return await self._send(raw(method, path, body, query, headers))


def _new_key() -> str:
    return str(uuid.uuid4())
