"""The composition root: the ports of the core, made once per execution environment and only when first used."""

from __future__ import annotations

import os
import warnings
from collections.abc import Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aws_lambda_powertools import Logger, Metrics
from tagcast.ports import Table, World
from tagcast_aws.chance import SystemClock, SystemDice
from tagcast_aws.journal import PowertoolsJournal
from tagcast_aws.settings import Settings

if TYPE_CHECKING:
    from tagcast_aws.endpoints.pusher import EndpointPusher
    from tagcast_aws.firehose import FirehoseArchive

T = TypeVar("T")


@cache
def logger() -> Logger:
    """Return the process's logger; it never logs an event."""
    return Logger(log_uncaught_exceptions=False)


@cache
def metrics() -> Metrics:
    """Return the process's metrics, flushed by each handler; an invocation that counts nothing is no warning."""
    warnings.filterwarnings("ignore", message="No application metrics to publish", category=UserWarning)
    return Metrics()


@cache
def world() -> World:
    """Return the world of this deployment."""
    import boto3
    from botocore.config import Config
    from tagcast_aws.dynamodb import DynamoStore
    from tagcast_aws.endpoints.adapter import Surroundings, threads_for_pushes
    from tagcast_aws.endpoints.guard import Guard
    from tagcast_aws.endpoints.pusher import EndpointPusher
    from tagcast_aws.executor import CALLS_MAX, ThreadExecutor
    from tagcast_aws.index_archive import S3IndexArchive
    from tagcast_aws.judge import LambdaJudge
    from tagcast_aws.queue import SqsQueue
    from tagcast_aws.version import VERSION
    from tagcast_aws.workflow import StepFunctionsWorkflow

    settings = Settings.from_environment(os.environ)
    config = Config(
        retries={"mode": "standard", "max_attempts": 5},
        connect_timeout=3,
        read_timeout=10,
        max_pool_connections=CALLS_MAX,
    )
    clock = SystemClock()
    threads = threads_for_pushes()
    tables = {Table.REGISTRY: settings.registry_table, Table.MESSAGES: settings.messages_table}
    return World(
        store=DynamoStore(boto3.client("dynamodb", config=config), tables),
        queue=SqsQueue(boto3.client("sqs", config=config), settings.queue_url, logger()),
        workflow=StepFunctionsWorkflow(
            boto3.client("stepfunctions", config=config), settings.state_machine_arn, logger()
        ),
        pusher=EndpointPusher(clock, VERSION, allow_private=settings.allow_private_endpoints, threads=threads),
        index_archive=S3IndexArchive(lambda: boto3.client("s3", config=config), settings.index_bucket, logger()),
        judge=LambdaJudge(Surroundings(clock, VERSION, threads=threads)),
        guard=Guard(allow_private=settings.allow_private_endpoints),
        clock=clock,
        executor=ThreadExecutor(),
        dice=SystemDice(),
        journal=PowertoolsJournal(logger(), metrics()),
        time_scale=settings.time_scale,
    )


@cache
def archive() -> FirehoseArchive:
    """Return the way into the archive of this deployment."""
    import boto3
    from botocore.config import Config
    from tagcast.archive_record import RecordKind
    from tagcast_aws.firehose import FirehoseArchive

    settings = Settings.from_environment(os.environ)
    config = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=3, read_timeout=10)
    streams = {kind: f"{settings.archive_streams}{kind.value}" for kind in RecordKind}
    return FirehoseArchive(boto3.client("firehose", config=config), streams, settings.archive_bodies, logger())


def run(world: World, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on the event loop that the pusher's connections live on; nothing that it starts outlives it."""
    return cast("EndpointPusher", world.pusher).run(work)
