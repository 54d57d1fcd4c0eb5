"""Functions as endpoints: slow ones, many that never answer, and closed connections."""

from __future__ import annotations

import asyncio
import io
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import ConnectionClosedError
from tagcast.model import Outcome, Protocol
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.filter_function import LambdaFilterFunctions
from tagcast_aws.endpoints.pusher import EndpointPusher

from tests.fakes.pushes import PATIENT_S, push_to
from tests.fakes.stopped_clock import StoppedClock
from tests.http_server import Handler, serving


class FakeLambda:
    """A client of Lambda whose functions answer, or hang until all is over, as their names say."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def __call__(self, service: str, **settings: Any) -> FakeLambda:
        assert service == "lambda"
        return self

    def invoke(self, *, FunctionName: str, **_: Any) -> dict[str, Any]:  # noqa: N803 boto3's
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


def test_a_slow_function_runs_into_the_timeout() -> None:
    assert outcome_beside(0, "hanging", timeout_s=1) == Outcome(False, "timeout after 1 s")


def test_a_healthy_function_is_invoked_while_hundreds_hang() -> None:
    assert outcome_beside(300, "healthy").delivered


def test_connections_of_clients_are_counted_and_those_of_a_client_without_a_running_call_can_be_closed() -> None:
    fake = FakeLambda()
    around = AdapterEnvironment(StoppedClock(), "1", make_client=fake)
    connections, grown = around.aws_connections, list[int]()
    connections.make_room = lambda: grown.append(connections.most)
    pusher = EndpointPusher(around)

    async def attempts() -> tuple[int, int]:
        hanging = [asyncio.create_task(pusher.push(push_to("hanging", Protocol.LAMBDA))) for _ in range(3)]
        others = [pusher.push(push_to("healthy", Protocol.LAMBDA, timeout_s=PATIENT_S - 1)) for _ in range(2)]
        await asyncio.gather(*others)
        while len(grown) < 4:
            await asyncio.sleep(0.01)
        most = connections.most
        connections.close_idle()
        left, before = connections.most, fake.closed
        fake.over.set()
        await asyncio.gather(*hanging)
        assert before == 1
        return most, left

    most, left = pusher.run(attempts())
    connections.close_idle()
    pusher.close()
    assert (left, connections.most, fake.closed) == (3, 0, 2)
    assert most in (4, 5)
    assert grown == list(range(1, most + 1))


def test_a_connection_that_aws_closed_meanwhile_fails_no_push_and_discards_no_message() -> None:
    requests: list[object] = []

    class Closing(Handler):
        """Answers the first request of a connection, and closes the connection at the second."""

        protocol_version = "HTTP/1.1"
        asked = 0

        def serve(self) -> None:
            self.body()
            requests.append(self.client_address)
            self.asked += 1
            self.close_connection = self.asked > 1
            if not self.close_connection:
                self.answer(200, b'{"verdicts": [true]}')

    push = push_to("f", Protocol.LAMBDA)
    settings = replace(push.subscription.settings, filter={"kind": "function", "function": "f"})
    owner = replace(push.subscription, settings=settings)
    with serving(Closing) as url:
        session = boto3.session.Session("id", "key", region_name="eu-west-1")
        around = AdapterEnvironment(StoppedClock(), "1", make_client=partial(session.client, endpoint_url=url))
        pusher, filters = EndpointPusher(around), LambdaFilterFunctions(around)
        outcomes = [pusher.run(pusher.push(push)).delivered for _ in range(2)]
        verdicts = [pusher.run(filters.verdicts(owner, [push.message])) for _ in range(2)]
        pusher.close()

    assert (outcomes, verdicts) == ([True, True], [(True,), (True,)])
    assert (len(requests), len(set(requests))) == (6, 4)


def test_a_call_whose_connections_are_always_closed_is_made_twice() -> None:
    requests = 0

    class Closed(Handler):
        def serve(self) -> None:
            nonlocal requests
            requests += 1
            self.close_connection = True

    with serving(Closed) as url:
        session = boto3.session.Session("id", "key", region_name="eu-west-1")
        around = AdapterEnvironment(StoppedClock(), "1", make_client=partial(session.client, endpoint_url=url))
        pusher = EndpointPusher(around)
        outcome = pusher.run(pusher.push(push_to("f", Protocol.LAMBDA)))
        pusher.close()

    assert (outcome, requests) == (Outcome(False, "lambda: ConnectionClosedError"), 2)


def test_a_push_that_has_timed_out_is_not_sent_again_when_its_connection_closes() -> None:
    """A thread that outlasts its push is frozen with the process, and wakes when AWS has closed the connection."""
    over, requests = threading.Event(), list[str]()

    class Closing(FakeLambda):
        def invoke(self, *, FunctionName: str, **_: Any) -> dict[str, Any]:  # noqa: N803 boto3's
            requests.append(FunctionName)
            over.wait(2 * PATIENT_S)
            raise ConnectionClosedError(endpoint_url="https://x.test")

    around = AdapterEnvironment(StoppedClock(), "1", make_client=Closing())
    pusher = EndpointPusher(around)
    outcome = pusher.run(pusher.push(push_to("f", Protocol.LAMBDA, timeout_s=1)))
    over.set()
    around.threads.shutdown()
    pusher.close()

    assert (outcome, requests) == (Outcome(False, "timeout after 1 s", unreached=True), ["f"])
