"""The template on the box: tables, queues, functions, sources, workflow and schedules, as they are deployed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from random import Random

from tests.aws.account import Keepers
from tests.aws.box import Box
from tests.aws.events import ObjectRules, Schedules
from tests.aws.faults import Accidents
from tests.aws.http_api import FunctionUrl, HttpApi
from tests.aws.lambdas import Functions
from tests.aws.limits import LARGE_REGION, QuotaPlace
from tests.aws.network import Network
from tests.aws.queue_source import QueueSource
from tests.aws.roles import Roles
from tests.aws.sources import StreamSource
from tests.aws.stack import deployed
from tests.aws.states import StateMachine
from tests.aws.timeline import Timeline
from tests.aws.unsaid import USUAL, Unsaid


@cache
def _roles() -> Roles:
    return Roles.of(deployed())


class Deployment(Keepers):
    """One account with one deployment of the template, about to serve its first request."""

    def __init__(
        self,
        timeline: Timeline,
        accidents: Accidents | None,
        seed: int | str,
        shards: int = 2,
        parameters: Iterable[tuple[str, str]] = (),
        place: QuotaPlace = LARGE_REGION,
        unsaid: Unsaid = USUAL,
    ) -> None:
        self.timeline, self.stack = timeline, deployed(*parameters)
        super().__init__(Box(timeline, _roles(), accidents, seed, place, unsaid))
        self.furnish(self.stack, shards)
        self.network = Network(timeline, Random(f"network {seed}"))
        self.functions = Functions(self.box, timeline, self.stack, self.network, seed)
        self.machine = StateMachine(self.box, timeline, self.stack, self.functions, seed)
        self.box.add(self.functions)
        self.box.add(self.machine)
        self.schedules = Schedules(timeline, self.stack, self.functions, seed)
        arns = {self.stack.arn(logical_id): queue for logical_id, queue in self.queues.items()}
        ObjectRules(timeline, self.stack, arns, seed).follow(self.s3)
        self.api = HttpApi(timeline, self.stack, self.functions)
        self.publish_url: FunctionUrl | None = None
        """Is there if the parameters ask for it."""
        for _, properties in self.stack.of_type("AWS::CloudFormation::Stack"):
            name = properties["Parameters"]["Function"].rpartition(":")[2]
            self.publish_url = FunctionUrl(timeline, self.functions, self.functions.by_name[name])
        self.stream_sources: list[StreamSource] = []
        self.queue_sources: list[QueueSource] = []
        self._connect()

    def _connect(self) -> None:
        streams = {table.stream.arn: table.stream for table in self.tables.values()}
        arns = {self.stack.arn(logical_id): queue for logical_id, queue in self.queues.items()}
        for spec in self.stack.template.sources():
            arn = self.stack.value(spec.properties["EventSourceArn"])
            around = (self.box, self.timeline, self.stack, self.functions, spec)
            if spec.of_stream:
                self.stream_sources.append(StreamSource(*around, streams[arn]))
            else:
                self.queue_sources.append(QueueSource(*around, arns[arn]))

    def begin(self) -> None:
        """Let streams and queues tell their sources, and let the schedules run."""
        self.connect()
        self.schedules.begin()

    def connect(self) -> None:
        """Let streams and queues tell their sources."""
        for of_stream in self.stream_sources:
            of_stream.stream.told.append(of_stream.told)
        for of_queue in self.queue_sources:
            of_queue.queue.told.append(partial(_tell, of_queue))


def _tell(source: QueueSource, _: object) -> None:
    source.told()
