"""A function as an endpoint: what it is asked, and how long its answer is waited for."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from typing import Any

from botocore.exceptions import ClientError
from tagcast.model import Outcome, Protocol
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher

from tests.fakes.pushes import PATIENT_S, push_to
from tests.fakes.stopped_clock import StoppedClock


class FakeLambda:
    """A client of Lambda that answers as told."""

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
    outcome = pusher.run(pusher.push(push_to("fn", Protocol.LAMBDA, timeout_s=timeout_s)))
    pusher.close()
    return outcome


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
        hanging = [asyncio.create_task(pusher.push(push_to("hanging", Protocol.LAMBDA))) for _ in range(300)]
        await asyncio.sleep(0)
        try:
            return await pusher.push(push_to("healthy", Protocol.LAMBDA))
        finally:
            over.set()
            await asyncio.wait(hanging)

    assert pusher.run(attempts()).delivered
    pusher.close()
