"""The services that hold state, with all that a template declares of theirs."""

from __future__ import annotations

from local.template.intrinsics import Resolver
from tests.aws.box import Box
from tests.aws.dynamodb import DynamoDB
from tests.aws.firehose import Firehose
from tests.aws.queues import Queue
from tests.aws.roles import Roles
from tests.aws.s3 import S3
from tests.aws.solo_timeline import Timeline
from tests.aws.sqs import SQS
from tests.aws.tables import Table


class Keepers:
    """The services of a box that hold state."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.dynamodb, self.sqs, self.s3 = DynamoDB(box), SQS(box), S3(box)
        self.firehose = Firehose(box)
        for service in (self.dynamodb, self.sqs, self.s3, self.firehose):
            box.add(service)
        self.tables: dict[str, Table] = {}
        """By logical id, as the queues."""
        self.queues: dict[str, Queue] = {}

    def furnish(self, stack: Resolver, shards: int = 1) -> None:
        """Make the tables, queues, buckets and delivery streams of *stack*."""
        for logical_id, properties in stack.of_type("AWS::DynamoDB::Table"):
            self.tables[logical_id] = self.dynamodb.create(stack.name_of(logical_id), properties, shards)
        for logical_id, properties in stack.of_type("AWS::SQS::Queue"):
            self.queues[logical_id] = self.sqs.create(stack.name_of(logical_id), properties)
        for logical_id, _ in stack.of_type("AWS::S3::Bucket"):
            self.s3.create(stack.name_of(logical_id))
        for logical_id, _ in stack.of_type("AWS::KinesisFirehose::DeliveryStream"):
            self.firehose.create(stack.name_of(logical_id))


def furnished(stack: Resolver, timeline: Timeline, roles: Roles | None = None) -> Box:
    """Make a box with what *stack* declares of these services, and its roles."""
    box = Box(timeline, roles or Roles.of(stack))
    Keepers(box).furnish(stack)
    return box
