"""How entries in a group's queue end, and what is written of pulls that came to nothing."""

from __future__ import annotations

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.delivery.ending import Conflict, Ended, EntryEnd, NotOwed, end_entry
from tagcast.errors import UnavailableError
from tagcast.model import Entry, EntryState, Message, Subscription
from tagcast.ports import World
from tagcast.pulling.dead_letter import publish_dead_letter
from tagcast.rows import stored
from tagcast.rows.message import MessageRow
from tagcast.rows.pulled import Pulled, last_pull, pulled_put


def end(world: World, group: Subscription, message_id: str, entry: Entry, known: MessageRow | None = None) -> bool:
    """Settle the entry of *group* as *entry*; return False if it had ended before.

    Raises UnavailableError when too many write the message's row at once.
    """

    def again(conflict: Conflict) -> bool:
        world.clock.sleep(pause_s(world, conflict.times, conflict.all_s))
        return conflict.times < TRIES_MAX

    match end_entry(world.store, EntryEnd(group.topic, message_id, group.ordinal, entry), again, known):
        case Ended():
            return True
        case NotOwed():
            return False
        case Conflict():
            raise UnavailableError(f"message {message_id} is being changed by too many others; try again")


def end_without_pull(world: World, group: Subscription, row: MessageRow, state: EntryState, pulls: int) -> None:
    """Settle as *state* what nobody acknowledged in *pulls* pulls, with what is known of the last of them."""
    entry = Entry(state)
    if pulls:
        known = stored.pulled(world.store, group.topic, row.message.message_id).get(group.ordinal)
        entry = last_pull(known, pulls, world.clock.now()).ending(state)
    if state is EntryState.DISCARDED:  # Before its end: what is not published yet must come again.
        publish_dead_letter(world, group, row.message)
    if end(world, group, row.message.message_id, entry, row):
        world.telemetry.settled(row.message, group, state)


def keep_failure(world: World, group: Subscription, message: Message, pulls: int, outcome: str) -> None:
    """Write down that *pulls* pulls came to nothing, so that people see it while the entry is owed."""
    pulled = Pulled(pulls, world.clock.now(), outcome)
    world.store.write(pulled_put(group.topic, message.message_id, group.ordinal, pulled, message.expires_at))
