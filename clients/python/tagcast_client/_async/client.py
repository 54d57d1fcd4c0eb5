"""The client. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from tagcast_client import models, operations, publishing
from tagcast_client._async.connection import AsyncPages
from tagcast_client._async.groups import AsyncGroups
from tagcast_client._async.lanes import AsyncLanes
from tagcast_client._async.subscriptions import AsyncSubscriptions
from tagcast_client._async.tail import AsyncWatching
from tagcast_client.changing import topic_patch
from tagcast_client.filters import AnyFilter
from tagcast_client.operation import Answer, Operation, raw
from tagcast_client.outgoing import list_tags
from tagcast_client.publishing import Result
from tagcast_client.settings import TopicChanges, TopicSettings, as_json
from tagcast_client.tracing import current_trace


class AsyncClient(AsyncGroups, AsyncLanes, AsyncSubscriptions, AsyncWatching):
    """A client of the API at *url*; default: the environment variable ``TAGCAST_URL``.

    The client signs requests to AWS with the default AWS credentials, unless you give *auth*. Other requests are plain.

    The client retries lost answers, 429 and 5xx by *retries*, if a repeated request changes nothing. Each publish has
    an idempotency key for that. A refused request raises `ProblemError`, a missing answer `UnreachableError`. Use the
    client as a context manager, or close it.
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
        """Publish one message. The API accepts it once, even if the client repeats the request.

        An object or a list as *body* becomes JSON.
        """
        message = models.NewMessage(body, list_tags(tags), routing_key, properties or {}, ordering_key, content_type)
        return await self._send(publishing.publish(topic, message, idempotency_key or _new_key(), current_trace()))

    async def publish_batch(
        self, topic: str, messages: Iterable[models.NewMessage], *, idempotency_key: str | None = None
    ) -> tuple[Result, ...]:
        """Publish any number of messages in order, split into requests by the API's limits.

        Each message has its own result: `Accepted`, or `Refused` with its problem. Raises BatchInterruptedError when a
        part fails after an earlier part was accepted.
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
        """Replay archived messages to one subscription; otherwise like `publish_batch`."""
        parts = publishing.parts([message.as_json() for message in messages])
        key = idempotency_key or _new_key()
        return await self._send_parts(lambda part, its: publishing.replay(topic, subscription, part, its), parts, key)

    async def retry_topic(self, topic: str) -> tuple[str, ...]:
        """Retry now the blocked subscriptions of the topic, and return their names."""
        return await self._send(operations.retry_topic(topic))

    # Topics

    async def create_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> models.Topic:
        """Create a topic; unnamed settings get their defaults. Raises AlreadyExistsError."""
        return await self._send(operations.create_topic(topic, as_json(settings, TopicSettings)))

    async def update_topic(
        self, topic: str, *, if_version: int | None = None, **changes: Unpack[TopicChanges]
    ) -> models.Topic:
        """Update the named settings; None resets one to its default. All other settings stay.

        *if_version* updates only this version of the topic, else raises PreconditionFailedError.
        """
        return await self._send(operations.update_topic(topic, as_json(changes, TopicChanges), if_version))

    async def ensure_topic(self, topic: str, **settings: Unpack[TopicSettings]) -> models.Topic:
        """Create the topic, or update the named settings; all others stay. Call it at the start of a program."""
        wanted = as_json(settings, TopicSettings)

        def change(present: models.Topic) -> Operation[models.Topic] | None:
            patch = topic_patch(present, wanted)
            return operations.update_topic(topic, patch, present.version) if patch else None

        return await self._bring(operations.get_topic(topic), change, operations.create_topic(topic, wanted))

    async def get_topic(self, topic: str) -> models.Topic:
        """Return a topic."""
        return await self._send(operations.get_topic(topic))

    async def delete_topic(self, topic: str, *, if_version: int | None = None) -> None:
        """Delete a topic. It must have no subscriptions."""
        await self._send(operations.delete_topic(topic, if_version))

    def list_topics(self, *, limit: int | None = None) -> AsyncPages[models.Topic]:
        """Yield all topics, by name."""
        return self._list(lambda cursor: operations.list_topics(limit, cursor))

    # Messages

    async def get_message(
        self, topic: str, message_id: str, *, cursor: str | None = None, only: str | None = None
    ) -> models.Message:
        """Return a message, or its receipt, with its delivery to each subscription, failed deliveries first.

        One answer has at most a thousand deliveries. *cursor* is its ``next_cursor``, to get the next ones. *only*
        selects deliveries in one state, or `failing` ones.
        """
        return await self._send(operations.get_message(topic, message_id, cursor, only))

    async def find_message(
        self, message_id: str, *, cursor: str | None = None, only: str | None = None
    ) -> models.Message:
        """Return a message by its id alone, like `get_message`. The API searches all topics."""
        return await self._send(operations.find_message(message_id, cursor, only))

    def list_messages(
        self, topic: str, *, bodies: bool = False, limit: int | None = None
    ) -> AsyncPages[models.Message]:
        """Yield the messages with pending deliveries, oldest first."""
        return self._list(lambda cursor: operations.list_messages(topic, bodies, limit, cursor))

    async def read_history(
        self,
        topic: str,
        *,
        since: datetime | None = None,
        tag: str | None = None,
        property: tuple[str, str] | None = None,
        subscription: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.History:
        """Return the messages of the last day, or *since* then, delivered ones included, the newest first.

        Narrow them by a tag, by name and value of a property, and by the *state* of the delivery to *subscription*, or
        of any delivery. *cursor* is the ``next_cursor`` of the page before.
        """
        query = {"tag": tag, "subscription": subscription, "state": state, "limit": limit, "cursor": cursor}
        return await self._send(operations.read_history(topic, since, property, query))

    def list_attempts(self, topic: str, message_id: str, *, limit: int | None = None) -> AsyncPages[models.Attempted]:
        """Yield the failed deliveries of a message, and those to retry, with their last attempts."""
        return self._list(lambda cursor: operations.list_attempts(topic, message_id, limit, cursor))

    async def explain(self, topic: str, message_id: str, subscription: str) -> Mapping[str, Any]:
        """Explain why a subscription did or did not receive a message."""
        return await self._send(operations.explain(topic, message_id, subscription))

    # Filters

    async def set_shadow(self, topic: str, subscription: str, filter: AnyFilter | None) -> models.Shadow:
        """Run a candidate filter beside the active one, without deliveries."""
        return await self._send(operations.set_shadow(topic, subscription, filter))

    async def get_shadow(self, topic: str, subscription: str) -> models.Shadow:
        """Return the candidate filter, its counts and samples."""
        return await self._send(operations.get_shadow(topic, subscription))

    async def delete_shadow(self, topic: str, subscription: str) -> None:
        """Delete the candidate filter."""
        await self._send(operations.delete_shadow(topic, subscription))

    async def promote_shadow(
        self, topic: str, subscription: str, *, shadow_version: int | None = None
    ) -> models.Subscription:
        """Make the candidate the active filter; *shadow_version* promotes only this version."""
        return await self._send(operations.promote_shadow(topic, subscription, shadow_version))

    async def test_filter(
        self, filter: AnyFilter | None, message: models.NewMessage | None = None
    ) -> models.FilterTest:
        """Test a filter on a message. The API stores and sends nothing."""
        return await self._send(operations.test_filter(filter, message or models.NewMessage("")))

    # Anything

    async def health(self) -> models.Health:
        """Return the API's health and version."""
        return await self._send(operations.health())

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send any request and return the unchanged answer. Raises like all methods."""
        return await self._send(raw(method, path, body, query, headers))


def _new_key() -> str:
    return str(uuid.uuid4())
