"""The search for pending messages that are in no due row, queue or list.

The search finds messages whose first round never ended, because queue and table failed. It also finds expired messages
that are still pending. It scans the messages table, one part in each sweep. A pass begins six hours after the start of
the previous pass, or directly after a longer pass. A slow search loses nothing, because the rows of a pending message
have no time to live. Duration and cost are in docs/limits.md, The search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from tagcast.concurrency.isolation import at_once, each
from tagcast.delivery.ending import complete
from tagcast.ports import QueueEntry, World
from tagcast.queues import own_group, queue_group
from tagcast.repairing.expiry import RETAINED_PAGE, expire_messages
from tagcast.repairing.relay import Sending, list_unsent, orderings
from tagcast.rows import stored
from tagcast.rows.listed import FoundMessage, Pass, found_message

EVERY_S = 6 * 3_600
OPEN_S = 900
"""15 minutes after acceptance, an open first round has no worker."""
OVER_S = 3_600
"""An hour after expiry, all other code has expired a message's deliveries."""


async def search(world: World, sending: Sending, known: Pass, ends: float) -> tuple[int, int, Pass]:
    """Continue the pass *known*, or begin the next one when it is time, until *ends* (monotonic).

    Returns the number of queue entries sent again, the number of expired deliveries, and the progress.
    """
    now, sent, expired = world.clock.now(), 0, 0
    scale, began_at = world.time_scale, known.began_at
    if known.cursor is None:
        if began_at is not None and now < began_at + round(EVERY_S * 1000 / scale):
            return 0, 0, known
        began_at = now
    while world.clock.monotonic() < ends:
        read = partial(
            world.store.search,
            open_before=now - round(OPEN_S * 1000 / min(scale, 5.0)),
            over_before=now - round(OVER_S * 1000 / min(scale, 60.0)),
            cursor=known.cursor,
        )
        page = await each(world, "a page of the search", [read], world.executor.run)
        if not page:
            break
        whole = await each(world, "a message found", page[0].items, at_once(found_message))
        lost = [one for part in await each(world, "a message found", whole, partial(_parts, world)) for one in part]
        sent += await _send_again(world, sending, [message for message in lost if message.is_open])
        over = [message for message in lost if not message.is_open]
        for topic, part in _batches(over):
            if world.clock.monotonic() >= ends:
                return sent, expired, known  # The next sweep reads this page again.
            expired += sum(await each(world, "messages found", [part], partial(expire_messages, world, topic)))
        known = Pass(page[0].cursor, began_at)
        if known.cursor is None:
            break
    return sent, expired, known


async def _parts(world: World, found: FoundMessage) -> list[FoundMessage]:
    """Return a found message; for a wide message, return the sections of its state map that no worker serves.

    Sections are read one after the other, because a section may have a thousand ends. If nothing is pending any more,
    the first section represents the message, so that its body is removed.
    """
    if not found.is_wide:
        return [found]
    row = await world.executor.run(stored.accepted, world.store, found.topic, found.message_id)
    if row is None:
        return []
    over_at = world.clock.now() - round(OVER_S * 1000 / min(world.time_scale, 60.0))
    parts, is_pending = list[FoundMessage](), False
    for section in range(len(row.bounds)):
        part = (await world.executor.run(stored.with_ends, world.store, row, section)).map
        one, is_pending = replace(found, section=section, is_open=bool(part.waiting)), is_pending or bool(part.pending)
        if one.is_open or (part.pending and one.expires_at < over_at):
            parts.append(one)
    if is_pending:
        return parts
    await world.executor.run(complete, world.store, found.topic, found.message_id)
    return [replace(found, section=0, is_open=False)] if found.expires_at < over_at else []


async def _send_again(world: World, sending: Sending, messages: Sequence[FoundMessage]) -> int:
    """Send *messages* to the queue in order; list the refused entries. Return the number of accepted entries."""
    ordering_of = orderings(world)

    async def entry_of(message: FoundMessage) -> tuple[QueueEntry, int]:
        topic, message_id = message.topic, message.message_id
        ordering = await world.executor.run(ordering_of, topic)
        group = queue_group(ordering, topic, message_id, message.ordering_key)
        if message.is_unordered or group == message_id:
            group = own_group(message_id, message.section)
        return QueueEntry(topic, message_id, group, section=message.section), message.expires_at

    entries = dict(await each(world, "a message found", sorted(messages), entry_of))
    if not entries:
        return 0
    lost = await world.executor.run(sending.send, tuple(entries))
    listing = [partial(list_unsent, world, entry, entries[entry]) for entry in lost]
    await each(world, "a message found", listing, world.executor.run)
    return len(entries) - len(lost)


def _batches(messages: Sequence[FoundMessage]) -> Iterator[tuple[str, list[tuple[str, int | None]]]]:
    """Yield the messages and sections of each topic, at most 50 at a time."""
    for topic, group in groupby(sorted(messages), key=lambda message: message.topic):
        ids = [(message.message_id, message.section) for message in group]
        for start in range(0, len(ids), RETAINED_PAGE):
            yield topic, ids[start : start + RETAINED_PAGE]
