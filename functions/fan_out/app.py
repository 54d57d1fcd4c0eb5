"""Consumes the delivery queue: completes the first round of each message.

A fault in one topic's batch returns its unserved entries to the queue. Other topics are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.delivery.fan_out import fan_out
from tagcast.ports import QueueEntry, World
from tagcast.pushing.push_slots import PushSlots
from tagcast.queues import entry_in
from tagcast_aws import wiring

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


RESERVE_S = 10.0
"""An invocation stops this long before Lambda's timeout, and returns unserved entries to the queue."""
PUT_OFF_S_MAX = 60
"""A failed entry is redelivered at once, then after 1, 2, 4 … 60 s. So a lasting fault causes no busy loop."""
BESIDE_S = 0.25
"""The seconds that a served batch waits for the others. If all are served by then, Lambda deletes their entries."""
LOGGED_CHARS = 200
"""The log shows the beginning of an unreadable entry, which names its topic and its message."""


async def handle(event: Mapping[str, Any], world: World, budget_s: float | None = None) -> dict[str, Any]:
    """Serve a batch of queue records. Return the failed entries, and those not served within *budget_s* seconds.

    If *budget_s* is None, the time has no limit. The returned entries become visible in the queue again, so that their
    message group continues soon. SQS returns no entry of a group while an earlier entry is invisible
    (AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html).

    An unreadable record is logged and deleted, because it would block its message group forever. Ordered and unordered
    entries are served concurrently, like two batches. Served entries are deleted without waiting for the slowest entry
    or for late responses. Until they are deleted, SQS returns no further entries of their message group.
    """
    batches = _batches_of(event, world)
    receipts = {record["messageId"]: record["receiptHandle"] for record in event["Records"]}
    failed, left = list[str](), list[str]()
    lasting, all_served = set(batches), asyncio.Event()

    async def serve(batch: tuple[str, bool], records: Mapping[str, QueueEntry], slots: PushSlots) -> None:
        served: set[str] = set()

        async def hear(again: Sequence[QueueEntry], is_pushing: bool) -> None:
            left.extend(name for name, entry in records.items() if entry in again)
            served.update(records)
            if not is_pushing:
                end(batch)
            if is_pushing or not await _within(BESIDE_S, all_served):
                await _take_out(world, [receipts[name] for name in records if name not in left])
                await _give_back(world, [receipts.pop(name) for name in records if name in left])

        try:
            async with asyncio.timeout(budget_s):
                await fan_out(world, batch[0], records.values(), slots, hear)
        except Exception as fault:  # noqa: BLE001  The batch is redelivered, unless it is served.
            wiring.logger().error("fan-out failed", exc_info=fault, extra={"topic": batch[0]})
            again = records.keys() - served
            failed.extend(name for name in records if name in again)
            await _put_off(world, [record for record in event["Records"] if record["messageId"] in again])
        end(batch)

    def end(batch: tuple[str, bool]) -> None:
        lasting.discard(batch)
        if not lasting:
            all_served.set()

    async with PushSlots(world.clock) as slots:
        beside = _take_sections_but_one(batches)
        await _give_back(world, [receipts[name] for name in beside])
        await side_by_side(serve(batch, records, slots) for batch, records in batches.items())
        await _give_back(world, [receipts[name] for name in left if name in receipts])
    slots.record_waits(world.telemetry)
    return {"batchItemFailures": [{"itemIdentifier": name} for name in (*failed, *left, *beside)]}


def _batches_of(event: Mapping[str, Any], world: World) -> dict[tuple[str, bool], dict[str, QueueEntry]]:
    """Return the entries by record id, grouped by topic and by whether they are ordered."""
    batches: dict[tuple[str, bool], dict[str, QueueEntry]] = {}
    for record in event["Records"]:
        entry = entry_in(record["body"], record["attributes"]["MessageGroupId"])
        if entry is None:
            fields = {"record": record["messageId"], "entry": record["body"][:LOGGED_CHARS]}
            wiring.logger().error("unreadable entry of the queue", extra=fields)
            world.telemetry.count("UnreadableEntries")
            continue
        batches.setdefault((entry.topic, entry.has_order), {})[record["messageId"]] = entry
    return batches


async def _put_off(world: World, records: Sequence[Mapping[str, Any]]) -> None:
    """Make failed records visible in the queue again, each with its delay."""
    by_pause: dict[int, list[str]] = {}
    for record in records:
        received = int(record["attributes"].get("ApproximateReceiveCount", "1"))
        by_pause.setdefault(put_off_s(received), []).append(record["receiptHandle"])
    for pause_s, receipts in by_pause.items():
        await world.executor.run(world.queue.give_back, receipts, pause_s)


def put_off_s(receive_count: int) -> int:
    """Return the seconds after which a failed entry becomes visible again, by the number of its receives.

    >>> [put_off_s(count) for count in (1, 2, 3, 4, 20)]
    [0, 1, 2, 4, 60]
    """
    return min(PUT_OFF_S_MAX, 2 ** min(receive_count - 2, 10)) if receive_count > 1 else 0


async def _take_out(world: World, receipts: Sequence[str]) -> None:
    if receipts:
        await world.executor.run(world.queue.delete, receipts)


async def _give_back(world: World, receipts: Sequence[str]) -> None:
    if receipts:
        await world.executor.run(world.queue.give_back, receipts)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for *event* for at most *seconds*; return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _take_sections_but_one(batches: Mapping[tuple[str, bool], dict[str, QueueEntry]]) -> list[str]:
    """Remove unordered sections of wide messages from *batches*, all but the first; return their record ids.

    Other invocations serve the removed sections, because each section takes a second or more.
    """
    sections = [
        (records, name)
        for (_, has_order), records in batches.items()
        for name, entry in records.items()
        if entry.is_section and not has_order
    ]
    for records, name in sections[1:]:
        del records[name]
    return [name for _, name in sections[1:]]


@wiring.flush_after
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    world = wiring.process().world
    budget_s = max(1.0, context.get_remaining_time_in_millis() / 1000 - RESERVE_S)
    return wiring.run(world, handle(event, world, budget_s))
