"""Use case of signed requests: each is taken once, within minutes of its timestamp, whichever process sees it."""

from __future__ import annotations

from tagcast.errors import ConditionLostError
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.claim import nonce_put
from tagcast.rows.keys import nonce_key

SKEW_S = 300
"""The clocks of a caller and of the service may be 5 minutes apart."""


def is_timely(timestamp_s: int, now: int) -> bool:
    """Say whether a request of *timestamp_s* may be taken at *now* (milliseconds).

    >>> is_timely(1_000, 1_300_000), is_timely(1_000, 1_300_001), is_timely(1_000, 699_999)
    (True, False, False)
    """
    return abs(timestamp_s * 1000 - now) <= SKEW_S * 1000


def take_once(world: World, secret_id: str, timestamp_s: int, nonce: str) -> bool:
    """Say whether this is the first request of *secret_id* with this timestamp and nonce, and remember it.

    The row outlives the time in which the request is timely by as much again, for clocks that differ.
    """
    key = nonce_key(secret_id, str(timestamp_s), nonce)
    me = world.dice.unique_id(world.clock.now())
    try:
        world.store.write(nonce_put(key, me, timestamp_s + 2 * SKEW_S))
    except ConditionLostError:
        # A write that the SDK sent twice loses against itself.
        return stored.nonce_taken_by(world.store, key) == me
    return True
