"""Queues as endpoints, reached by the shipped adapter with the roles that the template gives the functions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tagcast.model import (
    ContentFormat,
    Outcome,
    Protocol,
)
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.sqs import QueueEndpoint
from tagcast_aws.runtime.system import SystemClock

from tests.aws.account import furnished
from tests.aws.box import Box
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.sqs import SQS
from tests.aws.stack import deployed
from tests.fakes.pushes import push_to

PUSHING = ("FanOutFunction", "RetryFunction")


def delivered(box: Box, role: str, target: str) -> Outcome:
    def make_client(service: str, config: Any = None, **_: Any) -> Any:
        return box.client(service, role, config)

    async def deliver() -> Outcome:
        endpoint = QueueEndpoint(AdapterEnvironment(SystemClock(), "1", make_client=make_client))
        try:
            return await endpoint.deliver(
                push_to(target, Protocol.SQS, content_format=ContentFormat.SIMPLIFIED, timeout_s=5)
            )
        finally:
            await endpoint.close()

    return asyncio.run(deliver())


@pytest.mark.parametrize("role", PUSHING)
def test_a_queue_named_by_its_arn_is_reached_with_the_permissions_of_the_function(role: str) -> None:
    box = furnished(deployed(), SoloTimeline())
    sqs = box.services["sqs"]
    assert isinstance(sqs, SQS)
    orders = sqs.create("orders", {})
    for target in (orders.url, orders.arn):
        assert delivered(box, role, target) == Outcome(True, "sqs accepted")
    assert [message.body for message in orders.messages()] == ["hi", "hi"]


@pytest.mark.parametrize("role", PUSHING)
def test_the_queues_of_the_service_itself_are_no_endpoints(role: str) -> None:
    box = furnished(deployed(), SoloTimeline())
    for target in (deployed().reference("DeliveryQueue"), deployed().arn("RelayFailures")):
        assert delivered(box, role, target) == Outcome(False, "sqs: AccessDenied")
