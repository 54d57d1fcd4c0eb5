"""The asynchronous client's subscriptions; `subscriptions` is made from this file by `make_sync.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from tagcast_client import models, operations, publishing
from tagcast_client.async_connection import AsyncConnection, AsyncPages
from tagcast_client.changing import GENERATE, needs_present, patch_of, subscription_patch
from tagcast_client.filters import AnyFilter
from tagcast_client.operation import Operation
from tagcast_client.settings import (
    Endpoint,
    NamedSubscription,
    SubscriptionChanges,
    SubscriptionSettings,
    as_json,
)


class AsyncSubscriptions(AsyncConnection):
    """Who receives what of a topic: the methods of a client that are about subscriptions."""

    async def create_subscription(
        self, topic: str, subscription: str, endpoint: str | Endpoint, **settings: Unpack[SubscriptionSettings]
    ) -> models.Subscription:
        """Create a subscription; *endpoint* is a URL, or an endpoint as the API writes it. Raises AlreadyExistsError.

        A setting that is not named has its default: `SubscriptionSettings` has all of them.
        """
        wanted = as_json({**settings, "endpoint": endpoint}, SubscriptionChanges)
        return await self._send(operations.create_subscription(topic, subscription, wanted))

    async def update_subscription(
        self, topic: str, subscription: str, *, if_version: int | None = None, **changes: Unpack[SubscriptionChanges]
    ) -> models.Subscription:
        """Change the settings that are named, None for the default or to remove one; all others stay, secrets included.

        A filter and an endpoint are replaced as a whole, headers are merged. With *if_version* only if the subscription
        still has that version, else PreconditionFailedError.
        """
        wanted, look = as_json(changes, SubscriptionChanges), operations.get_subscription(topic, subscription)
        if not needs_present(wanted):
            return await self._send(operations.update_subscription(topic, subscription, wanted, if_version))

        def change(present: models.Subscription) -> Operation[models.Subscription]:
            return operations.update_subscription(topic, subscription, patch_of(present, wanted), present.version)

        if if_version is None:
            return await self._bring(look, change)
        present = await self._send(look)
        patch = patch_of(present, wanted)
        return await self._send(operations.update_subscription(topic, subscription, patch, if_version))

    async def ensure_subscription(
        self, topic: str, subscription: str, endpoint: str | Endpoint, **settings: Unpack[SubscriptionSettings]
    ) -> models.Subscription:
        """Create the subscription, or bring it to what is named, for programs that start; all else stays, also secrets.

        Another *secret* than it has is rotated: for a day pushes are signed with the former one, too. `generate` makes
        one for a subscription without a secret. *consume_from* is for a new group only. What nobody can read, headers
        and certificates, is set each time.
        """
        wanted = as_json({**settings, "endpoint": endpoint}, SubscriptionChanges)

        def change(present: models.Subscription) -> Operation[models.Subscription] | None:
            patch = subscription_patch(present, wanted)
            return operations.update_subscription(topic, subscription, patch, present.version) if patch else None

        create = operations.create_subscription(topic, subscription, wanted)
        ensured = await self._bring(operations.get_subscription(topic, subscription), change, create)
        secret = settings.get("secret")
        is_signed = "v1" in ensured.signatures  # Only pushes over HTTP are.
        if secret in (None, GENERATE) or not is_signed:
            return ensured
        return await self.rotate_secret(topic, subscription, secret)

    async def update_filter(
        self, topic: str, subscription: str, filter: AnyFilter | None, *, if_version: int | None = None
    ) -> models.Subscription:
        """Give a subscription another filter, None for everything, and leave all else as it is."""
        return await self._send(operations.update_filter(topic, subscription, filter, if_version))

    async def create_subscriptions(
        self, topic: str, subscriptions: Iterable[NamedSubscription], *, replace: bool = False
    ) -> tuple[models.Subscription | models.Refused, ...]:
        """Create any number of subscriptions, in as many requests as the API's limits ask for.

        Each has its `name`, its `endpoint` and what `create_subscription` takes besides, and its own result: the
        subscription, without its lane, or `Refused` with its problem. One that exists is refused, or with *replace* has
        its settings replaced as a whole. Raises BatchInterruptedError when a part fails after another was put. Raises
        ValueError, and creates none, when two have one name.
        """
        wanted = [as_json(each, NamedSubscription) for each in subscriptions]
        if again := publishing.named_again(wanted):
            raise ValueError(f"the name {wanted[again[0]]['name']!r} stands there twice")
        parts = publishing.parts(wanted)
        return await self._send_parts(
            lambda part, key: operations.create_subscriptions(topic, part, replace=replace), parts
        )

    async def get_subscription(self, topic: str, subscription: str) -> models.Subscription:
        """Return a subscription with its lane."""
        return await self._send(operations.get_subscription(topic, subscription))

    async def delete_subscription(self, topic: str, subscription: str, *, if_version: int | None = None) -> None:
        """Remove a subscription; what it is still owed is cancelled."""
        await self._send(operations.delete_subscription(topic, subscription, if_version))

    async def rotate_secret(
        self,
        topic: str,
        subscription: str,
        secret: str | None = None,
        *,
        grace_seconds: int | None = None,
        if_version: int | None = None,
    ) -> models.Subscription:
        """Rotate the secret: to *secret*, or to one that the service makes and this answer tells.

        For *grace_seconds* (a day by default, at most seven) pushes are signed with the former one, too.
        """
        return await self._send(operations.rotate_secret(topic, subscription, secret, grace_seconds, if_version))

    async def verify_endpoint(self, topic: str, subscription: str) -> models.Subscription:
        """Ask the endpoint again whether it agrees to be pushed to; until then *state* is `pending_confirmation`."""
        return await self._send(operations.verify_endpoint(topic, subscription))

    def list_subscriptions(self, topic: str, *, limit: int | None = None) -> AsyncPages[models.Subscription]:
        """Yield the topic's subscriptions, by name."""
        return self._list(lambda cursor: operations.list_subscriptions(topic, limit, cursor))

    async def list_versions(self, topic: str, subscription: str) -> tuple[models.Version, ...]:
        """Return the history of the subscription's filter, newest first."""
        return await self._send(operations.list_versions(topic, subscription))
