"""Messages that the sweep looks at: one that cannot be read hides none of the others."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.ports import Row, World
from tagcast.rows import stored, stored_maps
from tagcast.rows.message import MESSAGES, MessageRow


async def messages_with_maps(
    world: World, topic: str, messages: Collection[tuple[str, int | None]]
) -> list[MessageRow]:
    """Return those of *messages* (at most 100, each an id and, of a wide one, a section) that there are.

    Whole ones are read together, sections each by itself.
    """
    whole = [message_id for message_id, section in messages if section is None]
    read = partial(stored.message_rows, world.store, topic, whole)
    rows = await each(world, "a message", await world.executor.run(read) if whole else (), _parsed)
    reads = [partial(stored_maps.section, world.store, topic, *name) for name in messages if name[1] is not None]
    return rows + [row for row in await each(world, "a message", reads, world.executor.run) if row is not None]


async def _parsed(row: Row) -> MessageRow:
    return MESSAGES.value_of(row)
