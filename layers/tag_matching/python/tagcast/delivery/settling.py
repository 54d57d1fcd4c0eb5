"""How a message's row comes from one state map to the next, and at what pace where many write it."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.ports import World, Write
from tagcast.rows.message import MessageRow
from tagcast.rows.message_writes import map_writes

TURN_S = 0.02
UNITS_PER_S = 1_000
ENDED_BYTES = 50
"""About what an entry takes that did not end in the first round."""


def turn_s(row: MessageRow) -> float:
    """Return how far apart the writers of one message's row should be.

    A turn is a read and a transaction, some 20 ms; and one row gives a thousand write units a second, of which a
    transactional write takes two for each KiB of the row: body and all that has ended. Half of that, so that the row
    is never idle.
    """
    size = len(row.message.draft.body) + ENDED_BYTES * len(row.map.settled)
    return max(TURN_S, size / 1024 / UNITS_PER_S)


def write_map(world: World, before: MessageRow, after: MessageRow) -> None:
    """Write the map of one message, alone or with its row in the list of what is retained."""
    write_all(world, map_writes(before, after))


def write_all(world: World, writes: Sequence[Write]) -> None:
    """Carry out one write as it is, several as a transaction."""
    if len(writes) == 1:
        world.store.write(writes[0])
    else:
        world.store.transact(writes)
