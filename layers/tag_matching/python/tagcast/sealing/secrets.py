"""How secrets of a subscription are sealed with what it is put with, and opened again.

See docs/architecture.md, Secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tagcast.errors import UnavailableError
from tagcast.model import Subscription
from tagcast.ports import World, Write
from tagcast.rows import stored
from tagcast.rows.sealed import (
    Sealed,
    plain_text,
    sealed_delete,
    sealed_put,
    sealing_writes,
    with_plain_text,
    without_secrets,
)
from tagcast.settings import secrets_of

OPENED_S = 900.0
"""So long a process knows secrets that it opened: what decryption costs is bounded by it, and how old they may be."""
OPENED_MAX = 10_000


class Opened(dict[str, tuple[float, bytes]]):
    """Secrets that this process opened, by their token, and when, on the monotonic clock."""


def sealed(world: World, changed: Subscription, known: Subscription | None) -> tuple[Subscription, tuple[Write, ...]]:
    """Return *changed*, which takes the place of *known*, as it is stored, and the writes that keep its secrets.

    What was sealed before and is kept stays as it is, and so does what stands in clear in a row of an earlier release:
    the sweep seals that. Raises UnavailableError.
    """
    before = None if known is None else known.settings
    if changed.settings.is_group or (before is not None and before.sealed == changed.settings.sealed is not None):
        return changed, ()
    if not secrets_of(changed.settings):
        was_sealed = before is not None and before.sealed is not None
        return changed, (sealed_delete(changed.topic, changed.name),) if was_sealed else ()
    if before is not None and secrets_of(before) == secrets_of(changed.settings):
        return changed, ()
    made = _seal(world, changed)
    kept = replace(without_secrets(changed.settings), sealed=made.token)
    return replace(changed, settings=kept), (sealed_put(changed.topic, changed.name, made),)


def seal_in_place(world: World, known: Subscription) -> None:
    """Seal secrets that stand in clear in the row of *known*; ConditionLostError if it changed since it was read."""
    world.store.transact(sealing_writes(known, _seal(world, known)))


def opened(world: World, subscription: Subscription) -> Subscription:
    """Return *subscription* with its secrets at hand, decrypted unless this process did that a short while ago.

    Raises UnavailableError while they cannot be read.
    """
    token = subscription.settings.sealed
    if token is None:
        return subscription
    plain = _known(world, token)
    if plain is None:
        row = stored.sealed(world.store, subscription.topic, subscription.name)
        if row is None:  # They went with a later version of the subscription, which is read at the next look.
            raise UnavailableError("the subscription's secrets are gone")
        plain = world.vault.open(row.content, _context(subscription))
        _keep(world, token, plain)
    settings = with_plain_text(subscription.settings, plain)
    return replace(subscription, settings=replace(settings, sealed=None))


def is_at_hand(world: World, subscription: Subscription) -> bool:
    """Say whether :func:`opened` answers at once."""
    token = subscription.settings.sealed
    return token is None or _known(world, token) is not None


def _known(world: World, token: str) -> bytes | None:
    opened_s, plain = world.memory.of(Opened).get(token, (0.0, None))
    return None if plain is None or world.clock.monotonic() >= opened_s + OPENED_S else plain


def _keep(world: World, token: str, plain: bytes) -> None:
    """Remember secrets, and forget those that were opened too long ago."""
    kept, now_s = world.memory.of(Opened), world.clock.monotonic()
    over = [each for each, (opened_s, _) in tuple(kept.items()) if now_s >= opened_s + OPENED_S]
    for each in over if len(kept) < OPENED_MAX else tuple(kept):
        kept.pop(each, None)
    kept[token] = now_s, plain


def _seal(world: World, subscription: Subscription) -> Sealed:
    content = world.vault.seal(plain_text(subscription.settings), _context(subscription))
    return Sealed(world.dice.unique_id(world.clock.now()), content)


def _context(subscription: Subscription) -> Mapping[str, str]:
    return {"topic": subscription.topic, "subscription": subscription.name}
