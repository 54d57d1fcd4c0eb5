"""Use case of signed requests: each is taken once, within minutes of its timestamp, whichever process sees it."""

from __future__ import annotations

from tagcast.errors import ConditionLostError
from tagcast.ports import World
from tagcast.rows.claim import NONCE_ROWS, Nonce, nonce_put

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
    named = (secret_id, str(timestamp_s), nonce)
    mine = Nonce(world.dice.unique_id(world.clock.now()), timestamp_s + 2 * SKEW_S)
    try:
        world.store.write(nonce_put(mine, *named))
    except ConditionLostError:
        # A write that the SDK sent twice loses against itself.
        return NONCE_ROWS.read(world.store, *named) == mine
    return True
