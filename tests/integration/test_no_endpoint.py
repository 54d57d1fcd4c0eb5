"""Clients of the functions without any endpoint: the SDK finds AWS's addresses by itself, in every partition.

Every variable of an endpoint is unset or empty, as in the template, and each request is caught before it leaves. What
the code puts together by hand, the URL of a queue of which it has the ARN or the name, lies behind the same address.
The jobs are asked the same in tests/spark/test_amazons_s3.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
import pytest
import tagcast_aws
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError
from tagcast.archive.record import RecordKind
from tagcast.errors import UnavailableError
from tagcast.membership import Client, MemberChange, MembershipChange
from tagcast.ports import GroupQueue, Key, QueueEntry, Table
from tagcast.resource_names import queue_named
from tagcast_aws import wiring
from tagcast_aws.endpoints.clients import Caller
from tagcast_aws.endpoints.sqs import _url
from tagcast_aws.runtime.settings import Settings

from local.rules.needs import Account
from local.template.intrinsics import Resolver
from local.template.parameters import LOCAL
from tests.aws.environments import environ_of
from tests.aws.stack import translated
from tests.fakes.stopped_clock import StoppedClock

NUMBER = "123456789012"
PARTITIONS = {
    "us-east-1": ("aws", "amazonaws.com"),
    "eu-west-3": ("aws", "amazonaws.com"),
    "cn-north-1": ("aws-cn", "amazonaws.com.cn"),
    "us-gov-west-1": ("aws-us-gov", "amazonaws.com"),
}
SERVICES = {"stepfunctions": "states"}
"""What their addresses begin with, where that is not the service's name."""
USED = {"dynamodb", "events", "firehose", "kms", "lambda", "s3", "secretsmanager", "sqs", "stepfunctions"}
JOINED = MembershipChange("orders", "workers", Client("10.0.0.1@7", "1.4"), MemberChange.JOINED, 2)
GROUP = GroupQueue("07457000000000000001.3", ordered=True)


class Unhurried(StoppedClock):
    """Waits for the next attempt end at once."""

    def sleep(self, seconds: float) -> None:
        pass


@dataclass
class Caught:
    """Requests that were about to leave: their hosts by service, and the URLs of queues that they named."""

    hosts: dict[str, set[str]] = field(default_factory=dict)
    queue_urls: set[str] = field(default_factory=set)
    session: boto3.session.Session = field(default_factory=boto3.session.Session)

    def client(self, service: str, **how: Any) -> Any:
        """Make a client as a function does, from the environment alone."""
        client = self.session.client(service, **how)  # type: ignore[call-overload]
        client.meta.events.register("before-send", partial(self._catch, service))
        return client

    def _catch(self, service: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        url = urlsplit(request.url)
        assert url.scheme == "https"
        self.hosts.setdefault(service, set()).add(str(url.hostname))
        if service == "sqs" and (named := json.loads(cast("bytes", request.body or b"{}")).get("QueueUrl")):
            self.queue_urls.add(named)
        return AWSResponse(request.url, 400, cast("Any", {}), _Nothing())


class _Nothing:
    """The body of an answer that refuses whatever was asked."""

    def stream(self, **_: Any) -> list[bytes]:
        return [b'{"__type": "Caught"}']

    def read(self, *_: Any, **__: Any) -> bytes:
        return b""


@pytest.fixture(params=PARTITIONS)
def region(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A region in whose Lambda the functions run."""
    for name in os.environ:
        if name.startswith("AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", request.param)
    monkeypatch.setenv("AWS_DEFAULT_REGION", request.param)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")  # As the template has it.
    return str(request.param)


def ground(region: str, caught: Caught) -> wiring.Dependencies:
    partition, domain = PARTITIONS[region]
    queues = {name: f"https://sqs.{region}.{domain}/{NUMBER}/{name}" for name in ("DeliveryQueue", "ArchiveFailures")}
    stack = Resolver(translated(), Account(NUMBER, region, partition), "tagcast", LOCAL, queues)
    variables = environ_of(next(properties for _, properties in stack.of_type("AWS::Lambda::Function")))
    return wiring.Dependencies(variables, caught.client, Unhurried())


def uses(ground: wiring.Dependencies) -> list[Callable[[], object]]:
    """One call of each client of the functions, those of endpoints aside."""
    process = wiring.Process(ground)
    world = process.world
    return [
        lambda: world.store.get(Key(Table.MESSAGES, "MSG#t#1", "MSG")),
        lambda: world.queue.send([QueueEntry("t", "07457000000000000001", "g")]),
        lambda: world.workflow.start("t", "07457000000000000001.3", "1"),
        lambda: world.index_archive.load("x"),
        lambda: world.vault.seal(b"x", {}),
        world.signer.prepare,
        lambda: world.group_queues.make(GROUP),
        lambda: world.group_queues.send(GROUP, [QueueEntry("t", "07457000000000000001", "g")]),
        lambda: world.group_queues.receive(GROUP, limit=1, wait_s=0, visibility_timeout_s=10),
        lambda: process.archive.put([(0, RecordKind.LANES, "{}")]),
        lambda: process.kept_changes.keep({"eventID": "1"}),
        process.kept_changes.receive,
        lambda: process.cmq_keys.text(0),
        lambda: world.event_bus.announce(JOINED),
    ]


def test_every_client_of_a_function_asks_aws_in_its_region(region: str) -> None:
    caught, domain = Caught(), PARTITIONS[region][1]
    for use in uses(ground(region, caught)):
        with suppress(ClientError, UnavailableError):
            use()

    buckets = {"tagcast-indexbucket", "tagcast-keptchanges"}
    assert caught.hosts.pop("s3") == {f"{bucket}.{_s3(region)}.{domain}" for bucket in buckets}
    assert caught.hosts == {
        service: {f"{SERVICES.get(service, service)}.{region}.{domain}"} for service in USED - {"lambda", "s3"}
    }
    queues = ("tagcast-delivery.fifo", "DeliveryQueue", "ArchiveFailures", "tagcast-group-07457000000000000001-3.fifo")
    assert caught.queue_urls <= {f"https://sqs.{region}.{domain}/{NUMBER}/{name}" for name in queues}
    assert len(caught.queue_urls) == 3


def _s3(region: str) -> str:
    """How S3's address names the region: us-east-1 is the one that it does not name."""
    return "s3" if region == "us-east-1" else f"s3.{region}"


@pytest.mark.parametrize("elsewhere", [None, "other"])
def test_endpoints_are_asked_in_the_region_of_their_name(region: str, elsewhere: str | None) -> None:
    caught, (partition, domain) = Caught(), PARTITIONS[region]
    others = {"aws": "eu-central-1", "aws-cn": "cn-northwest-1", "aws-us-gov": "us-gov-east-1"}
    there = others[partition] if elsewhere else None
    base = ground(region, caught)
    around = wiring._surroundings(base, Settings(base.environ), lambda *_: ())
    queue = queue_named(f"arn:{partition}:sqs:{there or region}:{NUMBER}:orders")
    assert queue is not None

    sqs, function = (Caller(service, around)._client(there, 15) for service in ("sqs", "lambda"))
    with suppress(ClientError):
        sqs.send_message(QueueUrl=_url(sqs, f"arn:{partition}:sqs:x", queue), MessageBody="x")
    with suppress(ClientError):
        function.invoke(FunctionName="bill", Payload=b"{}")

    assert caught.hosts == {service: {f"{service}.{there or region}.{domain}"} for service in ("sqs", "lambda")}
    assert caught.queue_urls == {f"https://sqs.{there or region}.{domain}/{NUMBER}/orders"}


def test_every_service_that_a_function_makes_a_client_of_is_asked_here() -> None:
    named = re.compile(r'(?:client\(|Caller\(|make_client\)?\(|WAITING\), )"(\w+)"')
    text = "\n".join(file.read_text() for file in Path(tagcast_aws.__file__).parent.rglob("*.py"))
    assert set(named.findall(text)) == USED
