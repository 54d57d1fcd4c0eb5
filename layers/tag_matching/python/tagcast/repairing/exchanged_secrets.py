"""What the sweep does for secrets that were exchanged for others: once nothing is signed with them, they go."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.errors import ConditionLostError
from tagcast.ports import Row, World
from tagcast.rows.sealed import EXCHANGE_ROWS, exchange_delete, exchange_rows, formers_removal

AT_ONCE = 200


async def forget_exchanged(world: World) -> None:
    """Remove the exchanged secrets whose time is over, so many in one sweep; what is left comes first in the next."""
    read = partial(exchange_rows, world.store, world.clock.now(), AT_ONCE)
    rows = await world.executor.run(read)
    await each(world, "exchanged secrets", rows, lambda row: world.executor.run(partial(_forget, world, row)))


def _forget(world: World, row: Row) -> None:
    listed = EXCHANGE_ROWS.value_of(row)
    with suppress(ConditionLostError):  # They were sealed anew, or went with their subscription.
        world.store.write(formers_removal(listed))
    world.store.write(exchange_delete(listed))
