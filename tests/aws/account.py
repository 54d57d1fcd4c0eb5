"""A box with all that the template declares of the services that hold state."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from local.template.intrinsics import Resolver
from tests.aws.box import Box
from tests.aws.dynamodb import DynamoDB
from tests.aws.faults import Accidents
from tests.aws.firehose import Firehose
from tests.aws.kms import KMS
from tests.aws.roles import Roles
from tests.aws.s3 import S3
from tests.aws.secrets_manager import SecretsManager
from tests.aws.solo_timeline import Timeline
from tests.aws.sqs import SQS

SHARDS_MAX = 3
"""A new table's stream has few shards; how many is drawn."""


def furnished(
    stack: Resolver,
    timeline: Timeline,
    roles: Roles | None = None,
    accidents: Accidents | None = None,
    seed: int | str = 0,
) -> Box:
    """Make a box with the tables, queues, buckets, delivery streams, keys and secrets of *stack*, and its roles."""
    box = Box(timeline, roles or Roles.of(stack), accidents, seed)
    dynamodb, sqs, s3, firehose, kms = DynamoDB(box), SQS(box), S3(box), Firehose(box), KMS(box)
    for service in (dynamodb, sqs, s3, firehose, kms, SecretsManager(box)):
        box.add(service)
    shards = Random(f"shards {seed}")
    makers: dict[str, Callable[[str, dict[str, Any]], Any]] = {
        "AWS::DynamoDB::Table": lambda name, given: dynamodb.create(name, given, shards.randint(1, SHARDS_MAX)),
        "AWS::SQS::Queue": sqs.create,
        "AWS::S3::Bucket": lambda name, given: s3.create(name),
        "AWS::KinesisFirehose::DeliveryStream": lambda name, given: firehose.create(name),
        "AWS::KMS::Key": lambda name, given: kms.create(name),
    }
    for kind, make in makers.items():
        for logical_id, properties in stack.of_type(kind):
            make(stack.name_of(logical_id), properties)
    return box
