"""A section that another process serves: what Lambda is asked for, and what its answers mean."""

from __future__ import annotations

import asyncio
import io
import json
import time
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from tagcast.errors import UnavailableError
from tagcast.queues import Audience, QueueEntry, entry_in
from tagcast_aws.dispatch.first_rounds import LambdaFirstRounds
from tagcast_aws.runtime.aws_clients import client_factory
from tagcast_aws.runtime.executor import ThreadExecutor

from tests.fakes.log import Log
from tests.fakes.world import InlineExecutor
from tests.integration.scripted import ScriptedClient, refusal

ENTRY = QueueEntry("t", "07457000000000000001", "its order", Audience.IN_ORDER, section=7)
DONE: dict[str, list[str]] = {"batchItemFailures": []}
URL = "https://lambda.test/"


def answered(content: Any, **more: Any) -> dict[str, Any]:
    return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(content).encode()), **more}


def refused(code: str, status: int) -> ClientError:
    return refusal(code, ResponseMetadata={"HTTPStatusCode": status})


def made(answer: Any, log: Log | None = None) -> tuple[bool, ScriptedClient]:
    client = ScriptedClient([answer])
    rounds = LambdaFirstRounds(lambda: client, "s-fan-out", InlineExecutor(), (log or Log()).logger)  # type: ignore[arg-type, return-value]
    return asyncio.run(rounds.make(ENTRY)), client


def test_the_consumer_of_the_queue_is_invoked_with_the_record_that_the_queue_would_bring() -> None:
    log = Log()
    is_over, client = made(answered(DONE), log)

    assert is_over
    [(operation, request)] = client.asked
    event = json.loads(request.pop("Payload"))
    assert (operation, request) == ("invoke", {"FunctionName": "s-fan-out", "InvocationType": "RequestResponse"})
    [record] = event["Records"]
    assert entry_in(record["body"], record["attributes"]["MessageGroupId"]) == ENTRY
    assert log.lines() == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answered({"batchItemFailures": [{"itemIdentifier": "x"}]}), "reported"),
        (answered({"errorType": "Runtime.ExitError"}, FunctionError="Unhandled"), "Unhandled"),
        (refused("TooManyRequestsException", 429), "TooManyRequestsException"),
        (refused("AccessDeniedException", 403), "AccessDeniedException"),
        (EndpointConnectionError(endpoint_url=URL), "EndpointConnectionError"),
        (ConnectTimeoutError(endpoint_url=URL), "ConnectTimeoutError"),
    ],
)
def test_where_nobody_is_at_it_any_more_it_may_be_served_again(answer: Any, told: str) -> None:
    log = Log()

    assert made(answer, log)[0] is False
    [line] = log.lines()
    assert (line["level"], line["error"]) == ("WARNING", told)


@pytest.mark.parametrize(
    "fault",
    [
        ReadTimeoutError(endpoint_url=URL),
        ConnectionClosedError(endpoint_url=URL),
        refused("ServiceException", 500),
        refused("ServiceUnavailableException", 503),
    ],
)
def test_where_somebody_may_be_at_it_nobody_says_that_it_is_over_or_free(fault: Exception) -> None:
    with pytest.raises(UnavailableError):
        made(fault)


def test_all_that_ask_at_once_share_one_client() -> None:
    clients: list[ScriptedClient] = []

    def make_client(service: str, **_: Any) -> ScriptedClient:
        assert service == "lambda"
        clients.append(ScriptedClient([answered(DONE) for _ in range(9)]))
        time.sleep(0.05)
        return clients[-1]

    async def ask() -> list[bool]:
        made_once = partial(client_factory(make_client, attempts_max=0), "lambda")
        rounds = LambdaFirstRounds(made_once, "s-fan-out", ThreadExecutor(), Log().logger)
        return await asyncio.gather(*(rounds.make(ENTRY) for _ in range(9)))

    assert asyncio.run(ask()) == [True] * 9
    assert len(clients) == 1
