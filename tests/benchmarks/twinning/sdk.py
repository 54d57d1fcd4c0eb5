"""What a call costs the processor of the process that makes it: the real SDK is run for it, to no network."""

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Protocol, cast

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from tagcast_aws.runtime.aws_clients import client_factory, with_plain_rows

from tests.aws.box import Box
from tests.aws.calls import Caller
from tests.aws.client import Client
from tests.aws.service_model import Operation
from tests.benchmarks.twinning.computing import ComputingTimeline

TIMES = 5
"""So often a call is repeated to be measured; the least counts, which the machine's other work disturbed least."""


class Sdk(Protocol):
    """What says how long a call keeps a whole processor busy."""

    def ms(self, service: str, operation: Operation, given: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
        """Return the milliseconds that the SDK computes for one call, sockets and TLS not counted."""


class FixedSdk:
    """Every call costs the same: what a test needs."""

    def __init__(self, each_ms: float = 1.0) -> None:
        self._each_ms = each_ms

    def ms(self, service: str, operation: Operation, given: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
        return self._each_ms


class MeasuredSdk:
    """boto3 with the clients' own settings, once for every operation and about every number of items."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._known: dict[tuple[str, str, int], float] = {}
        self._answer = b""

    def ms(self, service: str, operation: Operation, given: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
        key = (service, operation.name, (_items(given) + _items(answer)).bit_length())
        if key not in self._known:
            self._known[key] = self._measured(service, operation, given, answer)
        return self._known[key]

    def _measured(
        self, service: str, operation: Operation, given: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> float:
        client = self._client(service)
        if not client.meta.service_model.metadata["protocol"].startswith("json"):
            return 0.0  # S3 is asked once a process at most, and no cell has functions for subscribers.
        known = {name: value for name, value in answer.items() if name != "ResponseMetadata"}
        self._answer = json.dumps(known, default=lambda content: base64.b64encode(content).decode()).encode()
        taken = []
        for _ in range(1 + TIMES):
            began = time.thread_time_ns()
            getattr(client, operation.method)(**given)
            taken.append((time.thread_time_ns() - began) / 1_000_000)
        return min(taken[1:])

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            session = boto3.Session(aws_access_key_id="twin", aws_secret_access_key="twin", region_name="us-east-1")
            self._clients[service] = with_plain_rows(client_factory(session.client)(service))
            self._clients[service].meta.events.register("before-send", self._answered)
        return self._clients[service]

    def _answered(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        headers = {"content-type": "application/x-amz-json-1.0", "content-length": str(len(self._answer))}
        return AWSResponse(request.url, 200, cast("Any", headers), cast("Any", _Raw(self._answer)))


class _Raw:
    """What urllib3 gives for the body of an answer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        yield self._content


def _items(found: Any) -> int:
    """Return how many rows, entries or records a call carries, to and fro."""
    if isinstance(found, Mapping):
        return sum(map(_items, found.values()))
    return len(found) if isinstance(found, list) else 0


class ComputedClient(Client):
    """A client of the box whose calls cost their process what the SDK would, and not what it takes to play AWS."""

    sdk: Sdk = FixedSdk()

    def __init__(self, box: Box, service: str, caller: Caller, config: Any) -> None:
        super().__init__(box, service, caller, config)
        self._aws = service
        self._kind = caller.name.partition("@")[0] or caller.role

    def _call(self, operation: Operation, parameters: dict[str, Any]) -> dict[str, Any]:
        timeline = self._box.timeline
        if not isinstance(timeline, ComputingTimeline) or timeline.current is None:
            return super()._call(operation, parameters)
        timeline.step_aside(True)
        try:
            answer = super()._call(operation, parameters)
            timeline.compute(self.sdk.ms(self._aws, operation, parameters, answer))
            return answer
        finally:
            timeline.step_aside(False)
