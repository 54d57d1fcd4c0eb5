"""A world whose tables are the box's and whose queues are moto's, for whatever counts or checks calls of the SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3
from moto import mock_aws
from moto.core.models import botocore_stubber
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
class MotoWorld:
    """The world, the clients by which it asks, and the time of the tables."""

    fake: FakeWorld
    dynamodb: Any
    sqs: Any
    queue_url: str
    timeline: SoloTimeline


@contextmanager
def moto_world() -> Iterator[MotoWorld]:
    """Make a world with both tables and the FIFO queue, behind real clients; all else in it is fake."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        stack = deployed()
        timeline = SoloTimeline()
        dynamodb, sqs = wired(furnished(stack, timeline), "dynamodb"), boto3.client("sqs")
        dynamodb.meta.events.unregister("before-send", botocore_stubber)
        names = {Table.REGISTRY: stack.name_of("RegistryTable"), Table.MESSAGES: stack.name_of("MessagesTable")}
        queue_url = sqs.create_queue(QueueName="delivery.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        fake = FakeWorld()
        fake.world = replace(
            fake.world,
            store=DynamoStore(dynamodb, names),
            queue=SqsQueue(sqs, queue_url, wiring.logger()),
            group_queues=SqsGroupQueues(sqs, lambda: sqs, queue_url, "g-", wiring.logger()),
        )
        yield MotoWorld(fake, dynamodb, sqs, queue_url, timeline)
