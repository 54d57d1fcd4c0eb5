"""What is left of a message whose life is over and that nobody is owed: its receipt alone."""

from __future__ import annotations

from contextlib import suppress

from tagcast.errors import ConditionLostError
from tagcast.ports import World
from tagcast.rows.message import MessageRow
from tagcast.rows.message_writes import body_removal, retained_delete


def forget(world: World, row: MessageRow) -> None:
    """Take the body of a message that was kept, which somebody else may do first, or a message off the list.

    That names what is retained: with the last entry a message went from it, so that only an accident leaves one there.
    A section of a wide message knows nothing of the body.
    """
    if not row.is_kept or row.section is not None:
        world.store.write(retained_delete(row))
        return
    with suppress(ConditionLostError):  # The next pass of the search finds it again.
        world.store.write(body_removal(row))
