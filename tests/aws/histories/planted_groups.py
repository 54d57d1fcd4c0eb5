"""Bugs of groups and of dead letters, in the adapter of queues, in the handlers of pulls, for histories on the box.

Each has the seed of the history in which it was caught last: that one is tried first.
"""

from __future__ import annotations

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

QUEUES, ROUTES = "tagcast_aws.dispatch.group_queues", "tagcast_aws.api.pulling.routes"
GROUPED = Aim(grouped=1.0)
SPOILED = Aim(grouped=1.0, faults=("spoiled",), only_these_faults=True, rate=0.1)
CALM = Aim(grouped=1.0, only_these_faults=True)
PLANTED_GROUPS: tuple[tuple[Mutant, int], ...] = (
    (
        Mutant(
            "what a group's queue refused counts as handed over",
            f"{QUEUES}:SqsGroupQueues.send",
            "return own.send(entries)",
            "return own.send(entries) and ()",
            SPOILED,
        ),
        3,
    ),
    (
        Mutant(
            "what a member keeps is shown to the others",
            f"{QUEUES}:SqsGroupQueues.hide",
            '"VisibilityTimeout": seconds[receipt]',
            '"VisibilityTimeout": 0',
            CALM,
        ),
        9,
    ),
    (
        Mutant(
            "every pull is the first",
            f"{QUEUES}:_received",
            'int(message["Attributes"]["ApproximateReceiveCount"])',
            "1",
            CALM,
        ),
        2,
    ),
    (
        Mutant(
            "nobody is alone for longer than the shortest time",
            f"{ROUTES}:pull_messages",
            "visibility_timeout_s=asked.visibility_timeout_seconds",
            "visibility_timeout_s=10",
            CALM,
        ),
        9,
    ),
    (
        Mutant("what is given back comes at once", f"{ROUTES}:nack", "asked.delay_seconds", "0", CALM),
        1,
    ),
    (
        Mutant(
            "who asks for more time says that it is done",
            f"{ROUTES}:extend_pulls",
            "extend(world, request.topic",
            "(lambda *asked: acknowledge(*asked[:-1]))(world, request.topic",
            CALM,
        ),
        5,
    ),
    (
        Mutant(
            "two of an order share a request to an ordered queue",
            f"{QUEUES}:SqsGroupQueues.send",
            "strict=True",
            "strict=False",
            SPOILED,
        ),
        172,
    ),
    (
        Mutant(
            "an ordered queue is told no orders",
            "tagcast.pushing.engine:_entries",
            "ordering = topic.settings.ordering",
            "ordering = Ordering.NONE",
            CALM,
        ),
        5,
    ),
    (
        Mutant(
            "what a removed group's queue holds is dropped",
            "tagcast.delivery.cancelling:empty_queue",
            "await _cancel(lease, queue, each)",
            "pass",
            Aim(grouped=1.0, operations=("unsubscribe",), only_these_faults=True),
        ),
        13,
    ),
    (
        Mutant(
            "what is given out goes from its queue",
            "tagcast.pulling.pull:_Visit.take",
            "if not self.hand_out(",
            "if self.hand_out(",
            CALM,
        ),
        1,
    ),
    (
        Mutant(
            "a discard makes no letter",
            "tagcast.pulling.group:end_after_pull",
            "publish_dead_letter(world, group, row.message, entry)",
            "pass",
            CALM,
        ),
        19,
    ),
    (
        Mutant(
            "what a retry gives up makes no letter",
            "tagcast.delivery.retrying:_Outcomes.write",
            "await self._publish_dead_letters()",
            "pass",
        ),
        2,
    ),
    (
        Mutant(
            "what the first round gives up makes no letter",
            "tagcast.delivery.fan_out:Slice.deliver",
            "await self._publish_dead_letters(subscription, result)",
            "pass",
        ),
        3,
    ),
    (
        Mutant(
            "what expires behind a sleeping lane makes no letter",
            "tagcast.repairing.expiry:expire_due",
            "publish_dead_letter(world, owner, row.message, entry)",
            "pass",
            Aim(operations=("pause",), retention_s=60),
        ),
        2,
    ),
    (
        Mutant(
            "a delivery ends before its letter is published",
            "tagcast.delivery.retrying:_Outcomes.write",
            "            await self._publish_dead_letters()\n            standing = await self._write_ends()",
            "            standing = await self._write_ends()\n            await self._publish_dead_letters()",
        ),
        2,
    ),
)

STORMY = Aim(faults=("refused", "throttled", "failed"), rate=0.06, modes=("down", "dead"))
PLANTED_EVENTS: tuple[tuple[Mutant, int], ...] = (
    (
        Mutant(
            "contact that is lost is no event",
            "tagcast.archive.events:_type_of_lane",
            "return _OF_LANE.get(after)",
            "return _OF_LANE.get(after) if after is not LaneState.LOST_CONTACT else None",
        ),
        3,
    ),
    (
        Mutant(
            "a lane that is resumed is told to recover",
            "tagcast.archive.events:_type_of_lane",
            "if before in _OF_LANE and after in (LaneState.ACTIVE, LaneState.RETRYING):",
            "if after in (LaneState.ACTIVE, LaneState.RETRYING):",
        ),
        3,
    ),
    (
        Mutant(
            "a change that comes again is told again",
            "tagcast.archive.events:Events.tell",
            'str(record.fields["record_id"]))',
            'str(record.fields["record_id"]) + world.dice.unique_id(0))',
        ),
        3,
    ),
    (
        Mutant(
            "an event that the table did not take is forgotten",
            "functions.archive.app:_tell_events",
            "return place",
            "continue",
            STORMY,
        ),
        12,
    ),
    (
        Mutant(
            "what stands behind an event that failed is not told again",
            "functions.archive.app:handle",
            "failed = failed if untold is None else untold",
            "failed = failed",
            STORMY,
        ),
        12,
    ),
)
