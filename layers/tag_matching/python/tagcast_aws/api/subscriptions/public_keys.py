"""The public keys that verify pushes of a subscription, as answers show them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from tagcast.errors import UnavailableError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.settings import Signature


def public_keys(world: World, subscriptions: Sequence[Subscription]) -> list[list[str]]:
    """Return a list of keys for each of *subscriptions*: ``whpk_`` and base64, as in Standard Webhooks.

    A subscription without the signature ``v1a`` has no keys. If the seeds cannot be read, all lists are empty, because
    no other part of the answer depends on the keys.
    """
    try:
        return [_texts(world, each) if each.settings.signature is Signature.V1A else [] for each in subscriptions]
    except UnavailableError as fault:
        world.telemetry.failed("public keys of subscriptions", fault)
        return [[] for _ in subscriptions]


def _texts(world: World, subscription: Subscription) -> list[str]:
    return [f"whpk_{b64encode(key).decode()}" for key in world.signer.public_keys(subscription.subscription_id)]
