"""Pushes of a subscription that needs keys: its secrets are opened and the service's seeds are read before the first.

See docs/architecture.md, Secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tagcast.errors import UnavailableError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Delivery, Progress
from tagcast.pushing.course import Share, attempt_in_order
from tagcast.pushing.unattempted import alive, put_off
from tagcast.sealing.secrets import at_hand, opened
from tagcast.settings import Signature

NOT_OPENED = "what signs the push cannot be read"


async def attempt_opened(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], share: Share
) -> Progress:
    """Push *deliveries* with the secrets of *subscription*; while these cannot be read nothing is pushed.

    That is no attempt, since the trouble is the service's.
    """
    if not deliveries:
        return Progress()
    try:
        ready = _at_hand(world, subscription)
        if ready is None:
            ready = await world.executor.run(partial(_with_keys, world, subscription))
    except UnavailableError as fault:
        world.telemetry.failed("secrets of a subscription", fault)
        progress = Progress()
        for message, made in alive(world, subscription, deliveries, progress, world.clock.now())[:1]:
            progress.failures[message.message_id] = put_off(world, made, NOT_OPENED)
        return progress
    return await attempt_in_order(world, ready, deliveries, share)


def _at_hand(world: World, subscription: Subscription) -> Subscription | None:
    if subscription.settings.signature is Signature.V1A and not world.signer.is_ready:
        return None
    return at_hand(world, subscription)


def _with_keys(world: World, subscription: Subscription) -> Subscription:
    if subscription.settings.signature is Signature.V1A:
        world.signer.prepare()
    return opened(world, subscription)
