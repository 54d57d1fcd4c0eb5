"""Virtual time, strands, the event loop on them and the network in memory."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

import aiohttp
import pytest
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher
from tagcast_aws.runtime.system import ThreadExecutor

from tests.aws.loop import StrandExecutor, VirtualLoop
from tests.aws.network import Connection, Network, Request
from tests.aws.strands import Host, Killed
from tests.aws.timeline import EPOCH, Timeline
from tests.fakes.pushes import push_to


class Stage:
    """A timeline with a process and a network, and what happened when."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(1))
        self.host = Host("process")
        self.loop = VirtualLoop(self.timeline, self.host, self.network)
        self.told: list[tuple[int, str]] = []

    def threads(self, size: int) -> StrandExecutor:
        return StrandExecutor(self.timeline, self.host, size)

    def spend_and_tell(self, ms: float, what: str) -> None:
        self.timeline.spend(ms)
        self.tell(what)

    def tell(self, what: str) -> None:
        self.told.append((self.timeline.now - EPOCH, what))

    def run(self, work: object, *, until_ms: int = 100_000_000) -> list[tuple[int, str]]:
        runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.timeline.start("main", self.host, lambda: runner.run(work))  # type: ignore[arg-type]
        self.timeline.play_until(EPOCH + until_ms)
        return self.told


class Answering:
    """A listener that answers every request after a while."""

    def __init__(self, stage: Stage, after_ms: float) -> None:
        self.stage, self.after_ms = stage, after_ms
        self.requests: list[Request] = []
        self.meets = "open"

    def reached(self) -> str:
        return self.meets

    def asked(self, request: Request, connection: Connection) -> None:
        self.requests.append(request)
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        self.stage.timeline.after(self.after_ms, lambda: connection.send(answer))

    def left(self, connection: Connection) -> None:
        self.stage.tell("left")


def test_a_blocking_call_on_the_loop_holds_up_the_loop_and_one_in_a_thread_does_not() -> None:
    def played(call: object) -> list[tuple[int, str]]:
        stage = Stage()

        async def ticking() -> None:
            for _ in range(3):
                await asyncio.sleep(0.010)
                stage.tell("tick")

        async def work() -> None:
            await asyncio.gather(ticking(), call(stage))  # type: ignore[operator]
            stage.tell("end")

        return stage.run(work())

    async def blocking(stage: Stage) -> None:
        stage.timeline.spend(100)

    async def beside(stage: Stage) -> None:
        await ThreadExecutor(threads=stage.threads(32)).run(lambda: stage.timeline.spend(100))

    assert [at for at, what in played(blocking) if what == "tick"] == [100, 110, 120]
    assert [at for at, what in played(beside) if what == "tick"] == [10, 20, 30]
    assert played(beside)[-1] == (100, "end")


def test_an_executor_has_as_many_threads_as_it_says() -> None:
    stage = Stage()

    async def work() -> None:
        executor = ThreadExecutor(threads=stage.threads(2))
        await asyncio.gather(*(executor.run(lambda: stage.timeline.spend(10)) for _ in range(5)))
        stage.tell("end")

    assert stage.run(work()) == [(30, "end")]


def test_strands_move_in_the_order_of_their_instants_and_hours_take_no_time() -> None:
    stage, began = Stage(), time.perf_counter()
    for name, ms in (("a", 3_600_000), ("b", 5), ("c", 5)):
        stage.timeline.start(name, stage.host, partial(stage.spend_and_tell, ms, name))
    stage.timeline.play_until(EPOCH + 4_000_000)

    assert stage.told == [(5, "b"), (5, "c"), (3_600_000, "a")]
    assert time.perf_counter() - began < 60


def test_a_frozen_process_goes_on_with_what_came_meanwhile_when_it_wakes() -> None:
    stage = Stage()
    stage.timeline.start("sleeper", stage.host, partial(stage.spend_and_tell, 100, "woke"))
    stage.timeline.at(EPOCH + 50, lambda: setattr(stage.host, "frozen", True))
    stage.timeline.at(EPOCH + 3_600_000, lambda: stage.timeline.thaw(stage.host))
    stage.timeline.play_until(EPOCH + 4_000_000)

    assert stage.told == [(3_600_000, "woke")]


def test_a_killed_process_makes_no_further_call() -> None:
    stage = Stage()

    def body() -> None:
        try:
            stage.timeline.spend(100)
            stage.tell("never")
        finally:
            stage.tell("unwound")
            with pytest.raises(Killed):
                stage.timeline.spend(1)

    stage.timeline.start("victim", stage.host, body)
    stage.timeline.at(EPOCH + 50, lambda: stage.timeline.kill(stage.host))
    stage.timeline.play_until(EPOCH + 1_000)

    assert stage.told == [(50, "unwound")]
    assert stage.host.strands == []


def test_the_http_client_speaks_real_bytes_over_kept_connections() -> None:
    stage = Stage()
    listener = Answering(stage, 250)
    stage.network.listen("a.example", listener)

    class Resolver(aiohttp.abc.AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:  # type: ignore[override]
            address = stage.network.look_up(host)[0]
            return [{"hostname": host, "host": address, "port": port, "family": 2, "proto": 0, "flags": 0}]

        async def close(self) -> None: ...

    async def work() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Resolver())) as session:
            for number in range(2):
                async with session.post("http://a.example/in", data=b"body" * 3000) as answer:
                    stage.tell(f"{number} {answer.status} {await answer.text()}")

    told = stage.run(work())

    assert [what for _, what in told] == ["0 200 ok", "1 200 ok", "left"]
    assert 250 < told[0][0] < 262
    assert [(request.path, len(request.body)) for request in listener.requests] == [("/in", 12_000)] * 2


class Clock:
    def now(self) -> int:
        return EPOCH

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("meets", "after_ms", "detail", "ends_ms"),
    [
        ("open", 10, "http 200", 15),
        ("open", 6_000, "timeout after 5 s", 5_000),
        ("refused", 0, "connection refused", 3),
        ("silent", 0, "timeout after 5 s", 5_000),
    ],
)
def test_the_shipped_pusher_meets_what_listeners_do(meets: str, after_ms: int, detail: str, ends_ms: int) -> None:
    stage = Stage()
    listener = Answering(stage, after_ms)
    listener.meets = meets
    stage.network.listen("a.example", listener)
    around = AdapterEnvironment(Clock(), "1", lookup=stage.network.look_up)  # type: ignore[arg-type]
    pusher = EndpointPusher(around, lambda: stage.loop)

    def work() -> None:
        outcome = pusher.run(pusher.push(push_to("http://a.example/", timeout_s=5)))
        stage.tell(outcome.detail)

    stage.timeline.start("main", stage.host, work)
    stage.timeline.play_until(EPOCH + 200_000)

    [(at, told)] = [each for each in stage.told if each[1] != "left"]
    assert told == detail
    assert abs(at - ends_ms) <= 3


def test_a_pool_of_threads_serves_in_order() -> None:
    stage = Stage()

    async def work() -> None:
        threads, loop = ThreadPoolExecutor(1), asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(threads, stage.tell, name) for name in "abc"))

    assert [what for _, what in stage.run(work())] == ["a", "b", "c"]
