"""A world whose tables and queues are moto's, for whatever counts or checks calls of the SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3
from moto import mock_aws
from tagcast_aws import wiring
from tagcast_aws.dispatch.group_queues import SqsGroupQueues
from tagcast_aws.dispatch.queue import SqsQueue
from tagcast_aws.store.dynamodb import DynamoStore

from tests.fakes.world import FakeWorld
from tests.integration.tables import make_tables


@dataclass(frozen=True, slots=True)
class MotoWorld:
    """The world, and the clients by which it asks."""

    fake: FakeWorld
    dynamodb: Any
    sqs: Any
    queue_url: str


@contextmanager
def moto_world() -> Iterator[MotoWorld]:
    """Make a world with both tables and the FIFO queue; all else in it is fake."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
        queue_url = sqs.create_queue(QueueName="delivery.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        fake = FakeWorld()
        fake.world = replace(
            fake.world,
            store=DynamoStore(dynamodb, make_tables(dynamodb)),
            queue=SqsQueue(sqs, queue_url, wiring.logger()),
            group_queues=SqsGroupQueues(sqs, lambda: sqs, queue_url, "g-", wiring.logger()),
        )
        yield MotoWorld(fake, dynamodb, sqs, queue_url)
