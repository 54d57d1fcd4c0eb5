"""The writes that bring a message's row from one state map to the next (invariants 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.ports import Delete, Put, Update, World, Write
from tagcast.rows.keys import message_key, retained_key
from tagcast.rows.message import GARBAGE_S, MessageRow, map_attributes, map_removals

TURN_S = 0.02
UNITS_PER_S = 1_000
ENDED_BYTES = 50
"""About what an entry takes that did not end in the first round."""


def map_writes(before: MessageRow, after: MessageRow) -> tuple[Write, ...]:
    """Return the writes that bring a message's row from *before* to *after* (invariants 2 and 3)."""
    message = after.message
    key = message_key(message.topic, message.message_id)
    changes = map_attributes(after)
    update = Update(key, changes, map_removals(after, changes), {"version": before.version})
    retained = retained_key(message.topic, message.message_id)
    if after.map.pending and not after.map.round_open:
        ttl = message.expires_at // 1000 + GARBAGE_S
        listed = {"expires_at": message.expires_at, "accepted_at": message.accepted_at, "ttl": ttl}
        return (update, Put(retained, listed)) if before.map.round_open else (update,)
    if not after.map.pending and not before.map.round_open:
        return (update, Delete(retained))
    return (update,)


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
