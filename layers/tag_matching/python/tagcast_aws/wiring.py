"""The composition root: creates all ports, once per execution environment of Lambda, and on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tagcast.ports import Clock, Dice, GroupQueues, Verification, World

from tagcast_aws.runtime.aws_clients import ONCE, SOON, WAITING, client_factory
from tagcast_aws.runtime.settings import Home, Settings
from tagcast_aws.runtime.system import SystemClock, SystemDice, ThreadExecutor
from tagcast_aws.runtime.telemetry import flush_after as flush_after
from tagcast_aws.runtime.telemetry import logger as logger
from tagcast_aws.runtime.telemetry import metrics as metrics
from tagcast_aws.runtime.telemetry import telemetry

if TYPE_CHECKING:
    import ssl
    from asyncio import AbstractEventLoop

    from aiohttp.connector import SocketFactoryType
    from tagcast.archive.events import EventPublisher
    from tagcast.archive.tail import TailWriter
    from tagcast.pushing.webhook_signature import Sign

    from tagcast_aws.dispatch.firehose import FirehoseArchive
    from tagcast_aws.dispatch.kept_changes import KeptChanges
    from tagcast_aws.endpoints.adapter import AdapterEnvironment
    from tagcast_aws.endpoints.addresses import Lookup
    from tagcast_aws.endpoints.pusher import EndpointPusher
    from tagcast_aws.store.cached_secret import CachedSecret

T = TypeVar("T")


@dataclass(frozen=True)
class Dependencies:
    """The inputs of :func:`compose`. The defaults are the real ones. Where a field is None, an adapter creates its own.

    *make_client* has the signature of ``boto3.client``, and *lookup* resolves a host name. *make_loop* creates the
    event loop of the pushes, and *make_socket* creates its sockets. *make_thread* returns the executor that resolves
    a host name when a subscription is created. *make_threads* returns the executor of blocking calls.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    make_client: Callable[..., Any] | None = None
    clock: Clock = field(default_factory=SystemClock)
    dice: Dice = field(default_factory=SystemDice)
    lookup: Lookup | None = None
    make_tls: Callable[[], ssl.SSLContext] | None = None
    make_loop: Callable[[], AbstractEventLoop] | None = None
    make_socket: SocketFactoryType | None = None
    make_thread: Callable[[], Executor] | None = None
    make_threads: Callable[[], Executor] | None = None


class Process:
    """The objects of one execution environment, each created on first use."""

    def __init__(self, ground: Dependencies) -> None:
        self._ground = ground

    @cached_property
    def world(self) -> World:
        """All ports of this deployment."""
        return compose(self._ground)

    @cached_property
    def archive(self) -> FirehoseArchive:
        """The archive of this deployment."""
        from tagcast.archive.record import RecordKind

        from tagcast_aws.dispatch.firehose import FirehoseArchive

        settings, ground = self._settings, self._ground
        streams = {kind: f"{settings.archive_streams}{kind.value}" for kind in RecordKind}
        client = client_factory(ground.make_client, ONCE)
        return FirehoseArchive(client("firehose"), streams, settings.archive_bodies, logger(), ground.clock.sleep)

    @cached_property
    def kept_changes(self) -> KeptChanges:
        """The store of changes that could not be archived. It creates its clients on first use."""
        from tagcast_aws.dispatch.kept_changes import KeptChanges

        settings, client = self._settings, client_factory(self._ground.make_client)
        return KeptChanges(client, settings.kept_changes, settings.archive_failures_url, logger())

    @cached_property
    def tail(self) -> TailWriter:
        """The writer of live events. Its calls have short timeouts, because the function `archive` waits for them."""
        from tagcast.archive.tail import TailWriter

        from tagcast_aws.store.dynamodb import DynamoStore

        ground, client = self._ground, client_factory(self._ground.make_client, SOON)
        store = DynamoStore(client("dynamodb"), self._settings.tables, ground.clock.sleep)
        return TailWriter(store, ground.clock, ground.dice, telemetry(ground.clock))

    @cached_property
    def events(self) -> EventPublisher:
        """The publisher of topics' events. It needs :attr:`world` only when it publishes the first event."""
        from tagcast.archive.events import EventPublisher

        return EventPublisher(self.tail.store, self._ground.clock, lambda: self.world, self._settings.events_to_bus)

    @cached_property
    def cmq_keys(self) -> CachedSecret:
        """The keys of the CMQ endpoint, a cached secret of Secrets Manager."""
        from tagcast_aws.store.cached_secret import CachedSecret

        client = client_factory(self._ground.make_client)
        return CachedSecret(client("secretsmanager"), self._settings.cmq_keys, self._ground.clock, logger())

    @property
    def home(self) -> Home:
        """The partition, region and account of this deployment."""
        return self._settings.home

    @cached_property
    def _settings(self) -> Settings:
        return Settings(self._ground.environ)


PROCESS: ContextVar[Process] = ContextVar("PROCESS")
"""The process of the running code, in a simulation of several processes in one interpreter. Otherwise unset."""

_THIS = Process(Dependencies())


def process() -> Process:
    """Return the current :class:`Process`."""
    return PROCESS.get(_THIS)


def compose(ground: Dependencies) -> World:
    """Create the adapters, and return them as the ports of the core."""
    from tagcast_aws.dispatch.event_bus import EventBridgeBus
    from tagcast_aws.dispatch.queue import SqsQueue
    from tagcast_aws.dispatch.workflow import StepFunctionsWorkflow
    from tagcast_aws.endpoints.filter_function import LambdaFilterFunctions
    from tagcast_aws.endpoints.guard import Guard
    from tagcast_aws.endpoints.pusher import EndpointPusher
    from tagcast_aws.endpoints.verifier import HttpVerifier
    from tagcast_aws.store.archives import S3IndexArchive, S3MessageArchive
    from tagcast_aws.store.dynamodb import DynamoStore
    from tagcast_aws.store.signing_key import Ed25519Signer
    from tagcast_aws.store.vault import KmsVault

    settings = Settings(ground.environ)
    client = client_factory(ground.make_client)
    executor = ThreadExecutor(threads=None if ground.make_threads is None else ground.make_threads())
    clock = ground.clock
    signer = Ed25519Signer(lambda: client("secretsmanager"), settings.signing_key, clock)
    around = _surroundings(ground, settings, signer.sign)
    verifier = HttpVerifier(around, settings.home.origin, ground.make_loop)
    return World(
        store=DynamoStore(client("dynamodb"), settings.tables, clock.sleep),
        queue=SqsQueue(client("sqs"), settings.queue_url, logger()),
        group_queues=_group_queues(ground, settings),
        workflow=StepFunctionsWorkflow(client("stepfunctions"), settings.state_machine_arn, logger()),
        pusher=EndpointPusher(around, ground.make_loop),
        index_archive=S3IndexArchive(lambda: client("s3"), settings.index_bucket, logger()),
        message_archive=S3MessageArchive(lambda: client("s3"), settings.archive_bucket),
        event_bus=EventBridgeBus(lambda: client("events"), settings.state_machine_arn, logger()),
        filter_functions=LambdaFilterFunctions(around),
        guard=Guard(settings.reach, ground.lookup, ground.make_thread, settings.group_queues, settings.functions),
        verification=Verification(verifier, settings.verification_optional, settings.cmq_verification),
        signer=signer,
        vault=KmsVault(lambda: client("kms"), settings.secrets_key),
        clock=clock,
        executor=executor,
        dice=ground.dice,
        telemetry=telemetry(clock, settings.metric_topics),
        time_scale=settings.time_scale,
        topic_known_s=settings.topic_known_s,
        short_wait_s=settings.short_wait_s,
        scope_prefix=settings.scope_prefix,
        dead_letter_topics=settings.dead_letter_topics,
        waiting_max=settings.waiting_max,
    )


def _surroundings(ground: Dependencies, settings: Settings, sign: Sign) -> AdapterEnvironment:
    from tagcast_aws.endpoints.adapter import AdapterEnvironment
    from tagcast_aws.runtime.version import VERSION

    return AdapterEnvironment(
        ground.clock,
        VERSION,
        settings.reach,
        ground.make_tls,
        ground.lookup,
        ground.make_client,
        ground.make_socket,
        account=settings.home.account,
        region=settings.home.region,
        own_functions=settings.functions,
        own_queues=settings.group_queues,
        sign=sign,
    )


def _group_queues(ground: Dependencies, settings: Settings) -> GroupQueues:
    from tagcast_aws.dispatch.group_queues import SqsGroupQueues

    quick = client_factory(ground.make_client)("sqs")
    patient = partial(client_factory(ground.make_client, WAITING), "sqs")
    return SqsGroupQueues(quick, patient, settings.queue_url, settings.group_queues, logger())


def run(world: World, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on the event loop of the pusher's connections; return its result. Cancel the tasks left by *work*."""
    return cast("EndpointPusher", world.pusher).run(work)
