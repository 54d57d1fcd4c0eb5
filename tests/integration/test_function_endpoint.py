"""Functions as endpoints: slow ones, throttled ones, and many at once that never answer."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

from botocore.exceptions import ClientError
from tagcast.model import Outcome, Protocol
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher

from tests.fakes.pushes import PATIENT_S, push_to
from tests.fakes.stopped_clock import StoppedClock


class FakeLambda:
    """A client of Lambda whose functions answer, hang until all is over, or are throttled, as their names say."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, service: str, **settings: Any) -> FakeLambda:
        assert service == "lambda"
        return self

    def invoke(self, *, FunctionName: str, **_: Any) -> dict[str, Any]:  # noqa: N803 boto3's
        if FunctionName == "throttled":
            raise ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "hush"}}, "Invoke")
        if FunctionName == "hanging":
            self.over.wait(2 * PATIENT_S)
        return {"StatusCode": 200, "Payload": io.BytesIO(b"null")}


def outcome_beside(hanging: int, name: str, timeout_s: int = PATIENT_S) -> Outcome:
    """Return the outcome of one push while so many others hang."""
    fake = FakeLambda()
    pusher = EndpointPusher(AdapterEnvironment(StoppedClock(), "1", make_client=fake))

    async def attempts() -> Outcome:
        others = [asyncio.create_task(pusher.push(push_to("hanging", Protocol.LAMBDA))) for _ in range(hanging)]
        await asyncio.sleep(0)
        try:
            return await pusher.push(push_to(name, Protocol.LAMBDA, timeout_s=timeout_s))
        finally:
            fake.over.set()
            await asyncio.gather(*others)

    outcome = pusher.run(attempts())
    pusher.close()
    return outcome


def test_a_throttled_invocation_is_a_failure_with_the_code_of_aws() -> None:
    assert outcome_beside(0, "throttled") == Outcome(False, "lambda: TooManyRequestsException")


def test_a_slow_function_runs_into_the_timeout() -> None:
    assert outcome_beside(0, "hanging", timeout_s=1) == Outcome(False, "timeout after 1 s")


def test_a_healthy_function_is_invoked_while_hundreds_hang() -> None:
    assert outcome_beside(300, "healthy").delivered
