"""Execution environments of Lambda: a process with its own wiring and caches, frozen whenever it has nothing to do."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from tagcast.ids import ID_SEQUENCE_BITS
from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.runtime.system import CALLS_MAX

from tests.aws.loop import StrandExecutor, VirtualLoop
from tests.aws.network import Network
from tests.aws.strands import Host, Strand
from tests.aws.timeline import Timeline

if TYPE_CHECKING:
    from tests.aws.lambdas import Function

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""One for all: to read the machine's certificates takes longer than most histories."""


@dataclass(eq=False)
class Invocation:
    """One event in one environment."""

    function: Function
    environment: Environment
    event: Any
    then: Callable[[Any], None]
    """Is told how it ended."""
    request_id: str
    began_at: int
    deadline: int
    label: str = ""
    action: Any = None
    """What the outside world wanted by it, where it did."""
    over: bool = False


@dataclass(frozen=True)
class Context:
    """What Lambda gives a handler besides the event."""

    function_name: str
    invoked_function_arn: str
    memory_limit_in_mb: int
    aws_request_id: str
    remaining_ms: Callable[[], int]

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms()


class EnvironmentClock:
    """The port ``Clock`` of one process; its clock may be wrong, what it measures is not."""

    def __init__(self, timeline: Timeline, environment: Environment) -> None:
        self._timeline, self._environment = timeline, environment

    def now(self) -> int:
        environment = self._environment
        seen = self._timeline.now + environment.skew_ms
        environment.seen(seen)
        return seen

    def monotonic(self) -> float:
        return self._timeline.measured_by(self._environment)

    def sleep(self, seconds: float) -> None:
        self._timeline.spend(1000 * max(0.0, seconds))

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class EnvironmentDice:
    """The port ``Dice`` as the shipped one is, from a seed."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._last = 0

    def uniform(self, low: float, high: float) -> float:
        return self._dice.uniform(low, high)

    def unique_id(self, now: int) -> str:
        fresh = (now << ID_SEQUENCE_BITS) | self._dice.getrandbits(ID_SEQUENCE_BITS - 1)
        self._last = fresh if fresh >> ID_SEQUENCE_BITS > self._last >> ID_SEQUENCE_BITS else self._last + 1
        return f"{self._last:020d}"

    def secret(self) -> str:
        return f"{self._dice.getrandbits(256):064x}"


class Socket:
    """What aiohttp takes for a socket until the loop has connected it; real ones cost more than all the rest."""

    def __init__(self, addrinfo: object) -> None:
        self.addrinfo = addrinfo

    def setblocking(self, flag: bool) -> None:
        pass

    def close(self) -> None:
        pass


class AtOnce(Executor):
    """A thread whose work is done when it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as fault:  # noqa: BLE001  as a thread of the pool does
            future.set_exception(fault)
        return future


class SmallProcess(wiring.Process):
    """A process in which fewer things are many: *sizes* by the names of the world's fields."""

    def __init__(self, ground: wiring.Dependencies, sizes: Mapping[str, int]) -> None:
        super().__init__(ground)
        self._sizes = sizes

    @cached_property
    def world(self) -> World:
        return replace(wiring.compose(self._ground), **self._sizes)  # type: ignore[arg-type]


class EnvironmentLoop(VirtualLoop):
    """A loop that knows in which invocation each task began."""

    def __init__(self, timeline: Timeline, environment: Environment, network: Network) -> None:
        super().__init__(timeline, environment, network)
        self._environment = environment
        self.births: weakref.WeakKeyDictionary[Any, Invocation | None] = weakref.WeakKeyDictionary()

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> Any:
        task = super().create_task(coro, name=name, context=context)
        self.births[task] = self._environment.invocation
        return task


class Environment(Host):
    """A process of one function."""

    def __init__(
        self,
        function: Function,
        name: str,
        timeline: Timeline,
        network: Network,
        dice: Random,
        sizes: Mapping[str, int],
    ) -> None:
        super().__init__(name)
        self.function = function
        self.invocation: Invocation | None = None
        self.skew_ms = 0
        self.idle_since_us = timeline.micros
        self.alive = True
        self.seen: Callable[[int], None] = lambda instant: None
        """Is told of every reading of its clock."""
        self._loops: list[EnvironmentLoop] = []
        self._births: weakref.WeakKeyDictionary[Strand, Invocation | None] = weakref.WeakKeyDictionary()
        self._timeline, self._network = timeline, network
        clock = EnvironmentClock(timeline, self)
        self.process = SmallProcess(
            wiring.Dependencies(
                environ=function.environ,
                make_client=self._client,
                clock=clock,
                dice=EnvironmentDice(dice),
                lookup=network.look_up,
                make_tls=lambda: TLS,
                make_loop=self._make_loop,
                make_socket=Socket,  # type: ignore[arg-type]
                make_thread=AtOnce,
                make_threads=lambda: StrandExecutor(timeline, self, CALLS_MAX),
            ),
            sizes,
        )

    def enter(self) -> None:
        wiring.PROCESS.set(self.process)
        assert self._timeline.current is not None
        self._births[self._timeline.current] = self.invocation

    def origin(self) -> Invocation | None:
        """Return the invocation in which what moves now began: the running task, or the strand."""
        for loop in self._loops:
            task = asyncio.current_task(loop)
            if task is not None and loop.is_run_by(self._timeline.current):
                return loop.births.get(task)
        return self._births.get(self._timeline.current) if self._timeline.current is not None else None

    def end(self) -> None:
        """Be no more."""
        self.alive = False
        self._timeline.kill(self)
        for loop in self._loops:
            loop.abandon()

    def _client(self, service: str, **how: Any) -> Any:
        return self.function.client(service, self, how.get("config"))

    def _make_loop(self) -> EnvironmentLoop:
        loop = EnvironmentLoop(self._timeline, self, self._network)
        self._loops.append(loop)
        return loop


def environ_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a function of the template."""
    return {name: str(value) for name, value in properties.get("Environment", {}).get("Variables", {}).items()}
