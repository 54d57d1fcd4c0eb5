"""A world whose tables and queues are the simulated AWS's, for whatever counts or checks calls of the SDK."""

from dataclasses import dataclass, replace
from typing import Any

from tagcast.ports import Table
from tagcast_aws import wiring
from tagcast_aws.dispatch.group_queues import SqsGroupQueues
from tagcast_aws.dispatch.queue import SqsQueue
from tagcast_aws.store.dynamodb import DynamoStore

from tests.aws.account import furnished
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.stack import deployed
from tests.aws.wire import wired
from tests.fakes.world import FakeWorld


@dataclass(frozen=True, slots=True)
class CountedWorld:
    """The world, the clients by which it asks, and the time of what they ask."""

    fake: FakeWorld
    dynamodb: Any
    sqs: Any
    stepfunctions: Any
    queue_url: str
    timeline: SoloTimeline


def counted_world() -> CountedWorld:
    """Make a world with both tables and the FIFO queue, behind real clients; all else in it is fake."""
    stack, timeline = deployed(), SoloTimeline()
    box = furnished(stack, timeline)
    dynamodb, sqs, stepfunctions = (wired(box, service) for service in ("dynamodb", "sqs", "stepfunctions"))
    names = {Table.REGISTRY: stack.name_of("RegistryTable"), Table.MESSAGES: stack.name_of("MessagesTable")}
    queue_url = stack.reference("DeliveryQueue")
    fake = FakeWorld()
    fake.world = replace(
        fake.world,
        store=DynamoStore(dynamodb, names),
        queue=SqsQueue(sqs, queue_url, wiring.logger()),
        group_queues=SqsGroupQueues(sqs, lambda: sqs, queue_url, "g-", wiring.logger()),
    )
    return CountedWorld(fake, dynamodb, sqs, stepfunctions, queue_url, timeline)
