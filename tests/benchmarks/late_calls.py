"""Table writes of late entries and of bodies that are kept: ``python -m tests.benchmarks.late_calls``.

Messages of 1 KiB to one subscription that is pushed to, on simulated tables: in a topic that keeps bodies while a
delivery is pending, in one that keeps them for life, and there for a group that is made afterwards and consumes from
the earliest. Counts do not depend on the machine.
"""

import asyncio

from tagcast.delivery.publishing import publish
from tagcast.model import Draft, Keep
from tagcast.rows import stored

from functions.fan_out import app as fan_out
from tests.aws.limits import STALE_MS
from tests.benchmarks.calls import BATCH, BODY, Meter
from tests.benchmarks.counted_world import counted_world
from tests.fakes.queue_records import in_one_order
from tests.fakes.whole_message import whole_message

MESSAGES = 40
DAY_S = 86_400


def measure(keep: Keep, *, is_late: bool = False) -> Meter:
    """Publish and deliver, with *is_late* let a new group have everything; then let the lives end."""
    meter = Meter()
    counted = counted_world()
    fake, world = counted.fake, counted.fake.world
    fake.topic(keep=keep)
    fake.subscribe("pushed")
    meter.watch(counted.dynamodb)
    ids: list[str] = []
    for _ in range(0, MESSAGES, BATCH):
        meter.phase = "publish"
        accepted = [each.message_id for each in publish(world, "test1", [Draft(BODY)] * BATCH)]
        meter.phase = "fan_out"
        assert asyncio.run(fan_out.handle(in_one_order(accepted), world)) == {"batchItemFailures": []}
        ids += accepted
    if is_late:
        meter.phase = "setup"
        group = fake.group("late", start_from=0)
        meter.phase = "late entries"
        fake.run_workflows(fake.clock.now() + 300_000)
        rows = [whole_message(world.store, "test1", each) for each in ids]
        assert all(row is not None and group.ordinal in row.map.enqueued for row in rows)
    meter.phase = "end of life"
    fake.clock.sleep(2 * DAY_S)
    counted.timeline.spend(STALE_MS + 1)
    fake.sweep()
    meter.phase = "setup"
    assert not any(row.has_body for row in stored.messages(world.store, "test1", ids).values())
    return meter


def writes(meter: Meter) -> float:
    """Return the table writes of one message; what a transaction writes counts twice, as it costs."""
    return meter.budgeted["table writes"] / MESSAGES


def main() -> None:
    pending, life, late = measure(Keep.PENDING), measure(Keep.LIFE), measure(Keep.LIFE, is_late=True)
    print(f"{MESSAGES} messages of 1 KiB to one subscription; table writes per message\n\n| what | writes |\n|---|---|")
    print(f"| published and delivered, keep: pending | {writes(pending):.2f} |")
    print(f"| published, delivered and over, keep: life | {writes(life):.2f} |")
    print(f"| more of a late entry, from the look for it to its end | {writes(late) - writes(life):.2f} |")


if __name__ == "__main__":
    main()
