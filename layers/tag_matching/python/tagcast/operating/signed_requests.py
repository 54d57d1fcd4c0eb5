"""The use case of signed requests: all processes together accept a request once, within 5 minutes of its timestamp."""

from __future__ import annotations

from tagcast.errors import ConditionLostError, ContendedError
from tagcast.ports import World
from tagcast.rows.claim import SIGNED_ROWS, Signed, signed_put

SKEW_S = 300
"""Allowed difference between the clocks of a caller and the service."""


def is_timely(timestamp_s: int, now: int) -> bool:
    """Return whether a request with *timestamp_s* may be accepted at *now* (milliseconds).

    >>> is_timely(1_000, 1_300_000), is_timely(1_000, 1_300_001), is_timely(1_000, 699_999)
    (True, False, False)
    """
    return abs(timestamp_s * 1000 - now) <= SKEW_S * 1000


def take_once(world: World, secret_id: str, timestamp_s: int, signature: str) -> bool:
    """Record a signed request. Return False if a request of *secret_id* with the same signature was recorded before.

    The signature covers the whole request, so the same nonce may appear in different requests. The record expires
    twice :data:`SKEW_S` after the request's timestamp, when :func:`is_timely` refuses the request on any clock.
    """
    named = (secret_id, signature)
    mine = Signed(world.dice.unique_id(world.clock.now()), timestamp_s + 2 * SKEW_S)
    try:
        world.store.write(signed_put(mine, *named))
    except ContendedError:
        raise
    except ConditionLostError:
        # A write repeated by the SDK fails its own condition.
        return SIGNED_ROWS.read(world.store, *named) == mine
    return True
