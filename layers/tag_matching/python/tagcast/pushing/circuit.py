"""The circuit breaker of a host: while many lanes get no response, one lane at a time makes an attempt, the *probe*.

Lanes that were active until now have a second probe of their own. While a host responds, its row is neither read nor
written. The row is written after an attempt without a response. It is read before the next attempt, and after the next
response. See docs/protocol.md, Circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.errors import ConditionLostError, TableThrottledError
from tagcast.model import Outcome, Subscription
from tagcast.ports import World
from tagcast.rows.due import PendingDelivery
from tagcast.rows.host import HOSTS, Host, host_put
from tagcast.subscription_settings import UNVERIFIED

CIRCUIT = "circuit"
"""The outcome of a delivery that waits because the circuit of its host is open."""
LANES_MIN, WINDOW_S = 5, 60
"""The circuit opens when this number of lanes got no response within this number of seconds."""
PROBE_GAP_S = 10
"""The next probe may begin 10 s after a failed probe."""
NEW_UNTIL_CLAIM = 3
"""A lane is new until its third claim: it was active until now, and need not wait behind lanes that hang for long."""
CIRCUIT_WAIT_S_MIN, CIRCUIT_WAIT_S_MAX = 20.0, 512.0
"""A lane checks an open circuit again after 50 to 100 % of the circuit's age, which counts as 20 to 512 s."""
REOPENED_S = CIRCUIT_WAIT_S_MAX
"""A circuit that opens again within this time after it closed keeps its age."""
PROBE_GRACE_S = 30
"""Another lane may probe 30 s after the expected end of a probe, because the worker of that probe may have died."""
UNREACHED_S = 3_600
"""A host's row counts for an hour after its last write."""
HOSTS_MAX = 10_000


@dataclass(slots=True)
class _News:
    """The last response of a host to this process, and the last attempt without a response since then."""

    answered_at: int | None = None
    unreached_at: int | None = None


class HostNews(dict[str, _News]):
    """The instants of the last response and of the last attempt without a response, by the name of the host."""


@dataclass(slots=True)
class CircuitCheck:
    """Decides whether an invocation may push to a host: freely, as the *probe* of an open circuit, or not at all.

    *is_new* is True if the lane was active until now, so that it may make the second probe. *probe* is the host's row
    as written when this lane claimed a probe, or None if it claimed none. If *until* is set, no attempt is made before
    *until*. *reached* is None before the first attempt; then it says whether the host responded to any attempt.
    *is_news* is True if a response followed an attempt without a response. *has_news* is True if the results may change
    the host's row, so that `record` must be called.
    """

    world: World
    subscription: Subscription
    host: str
    is_new: bool = False
    probe: Host | None = None
    until: int | None = None
    reached: bool | None = None
    is_news: bool = False
    has_news: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether this process's last attempt at the host got no response, and no other in the last minute got one."""
        news = self.world.memory.of(HostNews).get(self.host)
        if news is None or news.unreached_at is None:
            return False
        return news.answered_at is None or news.answered_at <= self.world.clock.now() - _ms(self.world, WINDOW_S)

    def doubt(self) -> None:
        """Count the host's last attempt as one without a response, so that the host becomes doubtful.

        A host that responded to this process in the last minute does not become doubtful.
        """
        _news(self.world, self.host).unreached_at = self.world.clock.now()

    def hear(self, outcome: Outcome) -> None:
        """Record whether one attempt got a response. An attempt that was not sent does not count."""
        if outcome.unsent:
            return
        news, now = _news(self.world, self.host), self.world.clock.now()
        self.reached = self.reached or not outcome.unreached
        if outcome.unreached:
            news.unreached_at = now
        else:
            self.is_news = self.is_news or news.unreached_at is not None
            news.answered_at, news.unreached_at = now, None
        self.has_news = self.has_news or self.is_news or outcome.unreached

    async def ask(self, attempt_s: float, attempted_at: int | None) -> None:
        """Read the circuit of a doubtful host before an attempt that takes up to *attempt_s* seconds.

        If the circuit is open, the lane either claims a free probe (*probe*) or must wait (*until*). A lane that was
        recently attempted leaves the probe to other lanes, to spare its own retries. This does not apply to a new lane
        (*is_new*). *attempted_at* is the time of the lane's last attempt, or None if there was none.
        """
        host, now = await self.read_host(), self.world.clock.now()
        if host is None or host.probe_at is None or not host.is_open(now):
            _news(self.world, self.host).unreached_at = None
            return
        longest_s = CIRCUIT_WAIT_S_MIN if self.is_new else _wait_s(self.world, host)
        rested_at = 0 if self.is_new else (attempted_at or 0) + _ms(self.world, longest_s / 2)
        if self._free_at(host) <= now and rested_at <= now:
            claimed = self._with_probe(host, now + round((attempt_s + PROBE_GRACE_S) * 1000))
            try:
                await self._write(host, claimed)
            except ConditionLostError:
                pass
            else:
                self.probe, self.has_news = claimed, True
                return
        self.until = self.world.clock.now() + _ms(self.world, self.world.dice.uniform(longest_s / 2, longest_s))

    async def record(self) -> None:
        """Write the results to the host's row. A response closes the circuit, and other attempts may open it.

        After a failed probe, the circuit stays open, and another probe may begin.
        """
        probe = self.probe
        if self.reached and (probe is not None or self.is_news):
            if await self._change(probe or await self.read_host(), self._as_closed):
                self.world.telemetry.count("CircuitsClosed")
        elif probe is not None:
            await self._change(probe, self._without_probe)
        elif self.reached is False and self.is_doubtful:
            await self._record()

    async def _change(self, known: Host | None, change: Callable[[Host], Host]) -> bool:
        """Write a change of the host's row if :meth:`_counts` allows it; retry on conflicts. Return whether written."""
        for _ in range(TRIES_MAX):
            if known is None or not self._counts(known):
                return False
            try:
                await self._write(known, change(known))
            except ConditionLostError:
                known = await self.read_host()
            else:
                return True
        return False

    def _as_closed(self, host: Host) -> Host:
        now = self.world.clock.now()
        return _next(self.world, host, probe_at=None, first_probe_at=None, failures={}, closed_at=now)

    def _without_probe(self, host: Host) -> Host:
        gap_s = 0 if self.reached is None else PROBE_GAP_S
        return self._with_probe(host, self.world.clock.now() + _ms(self.world, gap_s))

    def _counts(self, host: Host) -> bool:
        """Return whether the circuit is open, and no other lane has taken over this lane's probe."""
        is_taken_over = self.probe is not None and self._free_at(host) != self._free_at(self.probe)
        return host.is_open(self.world.clock.now()) and not is_taken_over

    def _free_at(self, host: Host) -> int:
        return (host.first_probe_at if self.is_new else host.probe_at) or 0

    def _with_probe(self, host: Host, until: int) -> Host:
        return _next(self.world, host, **{"first_probe_at" if self.is_new else "probe_at": until})

    async def _record(self) -> None:
        """Record an attempt without a response. If throttling or conflicts prevent this, it is not recorded."""
        lane = self.subscription.subscription_id
        for lost in range(1, TRIES_MAX + 1):
            known = await self.read_host()
            if known is not None and known.is_open(self.world.clock.now()):
                return
            changed = add_failure(self.world, known, self.host, lane)
            try:
                await self._write(known, changed)
            except TableThrottledError:
                return
            except ConditionLostError:
                await self.world.clock.pause(pause_s(self.world, lost))
                continue
            if changed.probe_at is not None:
                self.world.telemetry.count("CircuitsOpened")
            return

    async def read_host(self) -> Host | None:
        """Return the row of the host, or None if the host has no row."""
        return await self.world.executor.run(HOSTS.read, self.world.store, self.host)

    async def _write(self, known: Host | None, changed: Host) -> None:
        await self.world.executor.run(self.world.store.write, host_put(known, changed))


def _wait_s(world: World, host: Host) -> float:
    """Return the maximal wait of a lane before it checks again. It grows with the age of the open circuit."""
    open_s = 0.0 if host.opened_at is None else (world.clock.now() - host.opened_at) / 1000 * world.time_scale
    return min(max(open_s, CIRCUIT_WAIT_S_MIN), CIRCUIT_WAIT_S_MAX)


def as_waiting(dues: Sequence[PendingDelivery], head: PendingDelivery | None) -> list[PendingDelivery]:
    """Return *dues* for display. If all deliveries wait with *head*, those without an outcome get the head's outcome.

    All wait if the head waits for an open circuit or an unverified endpoint. Only the head's row records this outcome,
    because a backlog may be long. *head* is None if the backlog is empty.
    """
    if head is None or head.last_outcome not in (CIRCUIT, UNVERIFIED):
        return list(dues)
    return [replace(due, last_outcome=due.last_outcome or head.last_outcome) for due in dues]


def add_failure(world: World, known: Host | None, name: str, lane: str) -> Host:
    """Return the row of host *name* after an attempt of *lane* without a response. The caller writes the row.

    The circuit opens when :data:`LANES_MIN` lanes got no response within :data:`WINDOW_S` seconds. *known* is the
    stored row, or None.
    """
    now = world.clock.now()
    if known is None or now >= known.kept_until:
        known = Host(name, 0 if known is None else known.version, {}, 0)
    since = now - _ms(world, WINDOW_S)
    others = sorted((at, each) for each, at in known.failures.items() if at > since and each != lane)
    failures = {each: at for at, each in others[1 - LANES_MIN :]} | {lane: now}
    if len(failures) < LANES_MIN:
        return _next(world, known, failures=failures)
    goes_on = known.closed_at is not None and now - known.closed_at < _ms(world, REOPENED_S)
    return _next(
        world,
        known,
        failures=failures,
        opened_at=known.opened_at if goes_on else now,
        closed_at=None,
        probe_at=now + _ms(world, PROBE_GAP_S),
        first_probe_at=None,
    )


def _next(world: World, host: Host, **changes: Any) -> Host:
    kept_until = world.clock.now() + _ms(world, UNREACHED_S)
    return replace(host, version=host.version + 1, kept_until=kept_until, **changes)


def _news(world: World, host: str) -> _News:
    known = world.memory.of(HostNews)
    if host not in known and len(known) >= HOSTS_MAX:
        known.clear()
    return known.setdefault(host, _News())


def _ms(world: World, seconds: float) -> int:
    return round(seconds * 1000 / world.time_scale)
