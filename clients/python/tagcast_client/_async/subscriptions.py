"""The client's subscriptions. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from tagcast_client import models, operations, publishing
from tagcast_client._async.connection import AsyncConnection, AsyncPages
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
    """The methods of a client for subscriptions."""

    async def create_subscription(
        self, topic: str, subscription: str, endpoint: str | Endpoint, **settings: Unpack[SubscriptionSettings]
    ) -> models.Subscription:
        """Create a subscription; *endpoint* is a URL, or an endpoint as the API writes it. Raises AlreadyExistsError.

        Unnamed settings get their defaults. `SubscriptionSettings` lists all settings.
        """
        wanted = as_json({**settings, "endpoint": endpoint}, SubscriptionChanges)
        return await self._send(operations.create_subscription(topic, subscription, wanted))

    async def update_subscription(
        self, topic: str, subscription: str, *, if_version: int | None = None, **changes: Unpack[SubscriptionChanges]
    ) -> models.Subscription:
        """Update the named settings; None resets or removes one. All other settings stay, secrets included.

        A filter and an endpoint are replaced as a whole, headers are merged. *if_version* updates only this version of
        the subscription, else raises PreconditionFailedError.
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
        """Create the subscription, or update the named settings; all others stay. Call it at the start of a program.

        A new *secret* is rotated: for a day pushes are also signed with the old one. `generate` creates a secret for a
        subscription without one. *start_from* is for a new group only. Headers and certificates are write-only, so
        they are set each time.
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
        """Replace the filter of a subscription; None matches everything. All other settings stay."""
        return await self._send(operations.update_filter(topic, subscription, filter, if_version))

    async def create_subscriptions(
        self, topic: str, subscriptions: Iterable[NamedSubscription], *, replace: bool = False
    ) -> tuple[models.Subscription | models.Refused, ...]:
        """Create any number of subscriptions, split into requests by the API's limits.

        Give each its `name`, its `endpoint` and the settings of `create_subscription`. Each has its own result: the
        subscription without its lane, or `Refused` with its problem. An existing one is refused; *replace* replaces its
        settings as a whole. Raises BatchInterruptedError when a part fails after an earlier part succeeded. Raises
        ValueError, and creates none, when two have the same name.
        """
        wanted = [as_json(each, NamedSubscription) for each in subscriptions]
        if again := publishing.named_again(wanted):
            raise ValueError(f"the name {wanted[again[0]]['name']!r} is given twice")
        parts = publishing.parts(wanted)
        return await self._send_parts(
            lambda part, key: operations.create_subscriptions(topic, part, replace=replace), parts
        )

    async def get_subscription(self, topic: str, subscription: str) -> models.Subscription:
        """Return a subscription with its lane."""
        return await self._send(operations.get_subscription(topic, subscription))

    async def delete_subscription(self, topic: str, subscription: str, *, if_version: int | None = None) -> None:
        """Delete a subscription. Its pending deliveries are cancelled."""
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
        """Rotate the secret to *secret*, or to a generated secret, shown once in the answer.

        For *grace_seconds* (a day by default, at most seven) pushes are also signed with the old one.
        """
        return await self._send(operations.rotate_secret(topic, subscription, secret, grace_seconds, if_version))

    async def verify_endpoint(self, topic: str, subscription: str) -> models.Subscription:
        """Verify the endpoint again. Until it confirms, *state* is `unverified`."""
        return await self._send(operations.verify_endpoint(topic, subscription))

    def list_subscriptions(self, topic: str, *, limit: int | None = None) -> AsyncPages[models.Subscription]:
        """Yield the topic's subscriptions, by name."""
        return self._list(lambda cursor: operations.list_subscriptions(topic, limit, cursor))

    async def list_versions(self, topic: str, subscription: str) -> tuple[models.Version, ...]:
        """Return the history of the subscription's filter, newest first."""
        return await self._send(operations.list_versions(topic, subscription))
