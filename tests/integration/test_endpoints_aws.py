"""SQS and Lambda endpoints against moto."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from tagcast.model import (
    ContentFormat,
    Draft,
    Endpoint,
    Message,
    Outcome,
    Protocol,
    Push,
    PushBatch,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.pushing.content_formats import envelope
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher

from tests.fakes.stopped_clock import StoppedClock

REGION = "eu-west-1"
PATIENT_S = 30
"""So long a push may take whose answer a test waits for: on a machine with much else to do, seconds are short."""


@pytest.fixture
def pusher(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointPusher]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        pusher = EndpointPusher(AdapterEnvironment(StoppedClock(), "1"))
        yield pusher
        pusher.close()


def push_to(
    protocol: Protocol,
    target: str,
    content_format: ContentFormat = ContentFormat.JSON,
    draft: Draft = Draft("Grüße".encode(), tags=("apple",)),  # noqa: B008 It is a constant.
    timeout_s: int = PATIENT_S,
) -> Push:
    subscription = Subscription(
        topic="fruit",
        name="A",
        topic_id="07457000000000000001",
        ordinal=0,
        settings=SubscriptionSettings(
            endpoint=Endpoint(protocol, target),
            filter=None,
            retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3),
            timeout_s=timeout_s,
            content_format=content_format,
            secret=None,
        ),
        version=1,
        created_at=0,
        updated_at=0,
    )
    return Push(subscription, Message("fruit", "07457000000000000042", draft, 0, 1), 1)


def received(sqs: Any, url: str) -> dict[str, Any]:
    answer = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"])
    message: dict[str, Any] = answer["Messages"][0]
    return message


@pytest.mark.parametrize("named_by", ["url", "arn"])
def test_a_queue_in_any_region_is_reached_by_url_and_by_arn(pusher: EndpointPusher, named_by: str) -> None:
    sqs = boto3.client("sqs", region_name=REGION)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    target = url if named_by == "url" else f"arn:aws:sqs:{REGION}:123456789012:q"
    push = push_to(Protocol.SQS, target)
    for _ in range(2):
        assert pusher.run(pusher.push(push)) == Outcome(True, "sqs accepted")
    assert json.loads(received(sqs, url)["Body"]) == envelope(push)


def test_a_bare_body_has_its_tags_beside_it(pusher: EndpointPusher) -> None:
    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert pusher.run(pusher.push(push_to(Protocol.SQS, url, ContentFormat.SIMPLIFIED))).delivered
    message = received(sqs, url)
    assert message["Body"] == "Grüße"
    assert message["MessageAttributes"]["tags"]["StringValue"] == '["apple"]'


def test_a_binary_body_is_base64_in_a_queue(pusher: EndpointPusher) -> None:
    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    push = push_to(Protocol.SQS, url, ContentFormat.SIMPLIFIED, Draft(b"\xff\x00", is_text=False))
    assert pusher.run(pusher.push(push)).delivered
    assert base64.b64decode(received(sqs, url)["Body"]) == b"\xff\x00"


@pytest.mark.parametrize(("ordering_key", "group"), [(None, "fruit"), ("k1", "k1")])
def test_a_fifo_queue_gets_the_group_and_drops_repetitions(
    pusher: EndpointPusher, ordering_key: str | None, group: str
) -> None:
    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    push = push_to(Protocol.SQS, url, draft=Draft(b"a", ordering_key=ordering_key))
    assert pusher.run(pusher.push(push)).delivered
    assert pusher.run(pusher.push(replace(push, attempt=2))).delivered
    attributes = received(sqs, url)["Attributes"]
    assert attributes["MessageGroupId"] == group
    assert attributes["MessageDeduplicationId"] == "07457000000000000042"
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_batch_arrives_as_messages_of_a_queue_and_its_repetition_is_dropped_message_by_message(
    pusher: EndpointPusher,
) -> None:
    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    first = push_to(Protocol.SQS, url)
    second, third = (
        replace(first, message=replace(first.message, message_id=f"0745700000000000004{last}")) for last in (3, 4)
    )
    for pushes in ((first, second), (second, third)):
        outcome = pusher.run(pusher.push_batch(PushBatch(first.subscription, pushes, "batch_1")))
        assert outcome == Outcome(True, "sqs accepted")
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(each["Body"])["message_id"][-2:] for each in found] == ["42", "43", "44"]


def test_a_missing_queue_is_a_failure_with_the_code_of_aws(pusher: EndpointPusher) -> None:
    outcome = pusher.run(pusher.push(push_to(Protocol.SQS, f"arn:aws:sqs:{REGION}:123456789012:none")))
    assert not outcome.delivered
    assert outcome.detail.startswith("sqs: ")
    assert "NonExistentQueue" in outcome.detail or "QueueDoesNotExist" in outcome.detail


class FakeLambda:
    """A client of Lambda that answers as told, for what moto cannot do without containers."""

    def __init__(self, answer: dict[str, Any] | Exception, takes_s: float = 0.0) -> None:
        self.answer = answer
        self.takes_s = takes_s
        self.asked: list[dict[str, Any]] = []

    def __call__(self, service: str, **settings: Any) -> FakeLambda:
        assert service == "lambda"
        return self

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        time.sleep(self.takes_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def outcome_of(fake: FakeLambda, timeout_s: int = PATIENT_S) -> Outcome:
    pusher = EndpointPusher(AdapterEnvironment(StoppedClock(), "1", make_client=fake))
    outcome = pusher.run(pusher.push(push_to(Protocol.LAMBDA, "fn", timeout_s=timeout_s)))
    pusher.close()
    return outcome


def test_a_function_is_invoked_synchronously_with_the_event() -> None:
    fake = FakeLambda({"StatusCode": 200, "Payload": io.BytesIO(b"null")})
    assert outcome_of(fake) == Outcome(True, "function returned")
    assert fake.asked[0]["InvocationType"] == "RequestResponse"
    assert json.loads(fake.asked[0]["Payload"])["body"] == "Grüße"


@pytest.mark.parametrize(
    ("payload", "detail"),
    [
        (b'{"errorType": "KeyError", "errorMessage": "hush"}', "function error: KeyError"),
        (b"not json", "function error: Unhandled"),
        (b'{"errorType": "hush hush"}', "function error: Unhandled"),
        (b"[]", "function error: Unhandled"),
    ],
)
def test_a_function_error_is_a_failure_that_tells_only_the_type(payload: bytes, detail: str) -> None:
    fake = FakeLambda({"StatusCode": 200, "FunctionError": "Unhandled", "Payload": io.BytesIO(payload)})
    assert outcome_of(fake) == Outcome(False, detail)


def test_a_throttled_invocation_is_a_failure_with_the_code_of_aws() -> None:
    fault = ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "hush"}}, "Invoke")
    assert outcome_of(FakeLambda(fault)) == Outcome(False, "lambda: TooManyRequestsException")


def test_a_slow_function_runs_into_the_timeout() -> None:
    fake = FakeLambda({"StatusCode": 200, "Payload": io.BytesIO(b"null")}, takes_s=1.5)
    assert outcome_of(fake, timeout_s=1) == Outcome(False, "timeout after 1 s")


def test_a_healthy_function_is_invoked_while_hundreds_hang() -> None:
    over = threading.Event()

    class Hanging(FakeLambda):
        def invoke(self, **request: Any) -> dict[str, Any]:
            if request["FunctionName"] == "hanging":
                over.wait(2 * PATIENT_S)
            return super().invoke(**request)

    hanging_client = Hanging({"StatusCode": 200, "Payload": io.BytesIO(b"null")})
    pusher = EndpointPusher(AdapterEnvironment(StoppedClock(), "1", make_client=hanging_client))

    async def attempts() -> Outcome:
        hanging = [asyncio.create_task(pusher.push(push_to(Protocol.LAMBDA, "hanging"))) for _ in range(300)]
        await asyncio.sleep(0)
        try:
            return await pusher.push(push_to(Protocol.LAMBDA, "healthy"))
        finally:
            over.set()
            await asyncio.wait(hanging)

    assert pusher.run(attempts()).delivered
    pusher.close()


def test_a_missing_function_is_a_failure_with_the_code_of_aws(pusher: EndpointPusher) -> None:
    outcome = pusher.run(pusher.push(push_to(Protocol.LAMBDA, "none")))
    assert outcome == Outcome(False, "lambda: ResourceNotFoundException")
