"""The asynchronous client's subscriptions; `subscriptions` is made from this file by `make_sync.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from tagcast_client import models, operations, publishing
from tagcast_client.async_connection import AsyncConnection


class AsyncSubscriptions(AsyncConnection):
    """Who receives what of a topic: the methods of a client that are about subscriptions."""

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
        headers: Mapping[str, str] | None = None,
        client_certificate: Mapping[str, str] | None = None,
        signature: str | None = None,
        ordered: bool | None = None,
        dead_letter_topic: str | None = None,
        max_per_second: float | None = None,
        consume_from: str | None = None,
        batch: Mapping[str, int] | None = None,
        verification: str | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
    ) -> models.Subscription:
        """Make a subscription, or replace its settings; *endpoint* is a URL, or an endpoint as the API writes it.

        With *if_version* only if it still has that version, with *if_absent* only if there is none; else
        PreconditionFailedError. The *secret* `generate` is
        made by the service, which tells it in this answer and never again. Pushes over HTTP carry the *headers* besides
        the service's own; no answer shows them. Those over https present the *client_certificate*: a `certificate` with
        those that vouch for it, and its `private_key`, both as PEM. Answers tell whose it is and when it ends.
        """
        settings = {
            "endpoint": endpoint,
            "filter": filter,
            "retry": retry,
            "timeout_seconds": timeout_seconds,
            "content_format": content_format,
            "secret": secret,
            "headers": headers,
            "client_certificate": client_certificate,
            "signature": signature,
            "ordered": ordered,
            "dead_letter_topic": dead_letter_topic,
            "max_per_second": max_per_second,
            "consume_from": consume_from,
            "batch": batch,
            "verification": verification,
        }
        return await self.send(operations.put_subscription(topic, subscription, settings, if_version, if_absent))

    async def change_subscription(
        self, topic: str, subscription: str, changes: Mapping[str, Any], *, if_version: int | None = None
    ) -> models.Subscription:
        """Change what *changes* name, as the API writes it: None removes, objects are merged (RFC 7396).

        All else stays, secret, headers and certificate included.
        """
        return await self.send(operations.change_subscription(topic, subscription, changes, if_version))

    async def change_filter(
        self, topic: str, subscription: str, filter: models.Filter | None, *, if_version: int | None = None
    ) -> models.Subscription:
        """Give a subscription another filter, None for everything, and leave all else as it is."""
        return await self.send(operations.change_filter(topic, subscription, filter, if_version))

    async def put_subscriptions(
        self, topic: str, subscriptions: Iterable[Mapping[str, Any]]
    ) -> tuple[models.Subscription | models.Refused, ...]:
        """Make or replace any number of subscriptions, in as many requests as the API's limits ask for.

        Each has its `name` and what `put_subscription` takes besides, but for *if_version*, and its own result: the
        subscription, without its lane, or `Refused` with its problem. Raises BatchInterruptedError when a part fails
        after another was put; all of it can be repeated. Raises ValueError, and puts none, when two have one name.
        """
        wanted = [operations.described(each) for each in subscriptions]
        if again := publishing.named_again(wanted):
            raise ValueError(f"the name {wanted[again[0]]['name']!r} stands there twice")
        parts = publishing.parts(wanted)
        return await self.send_parts(lambda part, key: operations.put_subscriptions(topic, part), parts)

    async def get_subscription(self, topic: str, subscription: str) -> models.Subscription:
        """Return a subscription with its lane."""
        return await self.send(operations.get_subscription(topic, subscription))

    async def delete_subscription(self, topic: str, subscription: str, *, if_version: int | None = None) -> None:
        """Remove a subscription; what it is still owed is cancelled."""
        await self.send(operations.delete_subscription(topic, subscription, if_version))

    async def rotate_secret(
        self,
        topic: str,
        subscription: str,
        secret: str | None = None,
        *,
        grace_seconds: int | None = None,
        if_version: int | None = None,
    ) -> models.Subscription:
        """Exchange the secret for *secret*, or for one that the service makes and this answer tells.

        For *grace_seconds* (a day by default, at most seven) pushes are signed with the former one, too.
        """
        return await self.send(operations.rotate_secret(topic, subscription, secret, grace_seconds, if_version))

    async def verify_endpoint(self, topic: str, subscription: str) -> models.Subscription:
        """Ask the endpoint again whether it agrees to be pushed to; until then *state* is `pending_confirmation`."""
        return await self.send(operations.verify_endpoint(topic, subscription))

    def list_subscriptions(self, topic: str, *, page_size: int | None = None) -> AsyncIterator[models.Subscription]:
        """Yield the topic's subscriptions, by name."""
        return self.all_pages(lambda cursor: operations.list_subscriptions(topic, page_size, cursor))

    async def list_versions(self, topic: str, subscription: str) -> tuple[models.Version, ...]:
        """Return the history of the subscription's filter, newest first."""
        return await self.send(operations.list_versions(topic, subscription))
