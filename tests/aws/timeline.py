"""Virtual time: a list of what happens when, and strands that let time pass; one thing moves at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from tests.aws.strands import Host, Killed, Strand

EPOCH = 1_800_000_000_000
"""The instant (ms since 1970) at which every box begins."""


class Timeline:
    """Instants are whole microseconds inside and milliseconds for everybody else; equal ones keep their order."""

    def __init__(self) -> None:
        self.micros = EPOCH * 1000
        self.steps = 0
        self.current: Strand | None = None
        """The strand that moves now; None while the timeline itself does (effects, the plan's own code)."""
        self.between: Callable[[], None] = lambda: None
        """Is called after whatever moved and before anything else does."""
        self._horizon = self.micros
        self._serial = 0
        self._coming: list[tuple[int, int, Strand | None, int, Callable[[], None] | None]] = []

    @property
    def now(self) -> int:
        """Milliseconds since 1970."""
        return self.micros // 1000

    @property
    def seconds(self) -> float:
        """Seconds since the box began: small enough for a float to hold every microsecond."""
        return (self.micros - EPOCH * 1000) / 1_000_000

    def measured_by(self, host: Host) -> float:
        """Return the seconds that *host* has measured, whose clock may have stood still meanwhile."""
        return (self.micros - EPOCH * 1000 - host.stood_us) / 1_000_000

    def at(self, instant: float, effect: Callable[[], None]) -> None:
        """Let *effect* happen at an instant in milliseconds, or at once if that is over."""
        self._add(round(instant * 1000), None, 0, effect)

    def after(self, ms: float, effect: Callable[[], None]) -> None:
        """Let *effect* happen so many milliseconds from now."""
        self._add(self.micros + round(ms * 1000), None, 0, effect)

    def spend(self, ms: float) -> None:
        """Let time pass for the strand that calls; everything else moves meanwhile.

        The timeline's own code spends nothing.
        """
        if self.current is not None:
            self.park(self.current, self.micros + round(ms * 1000))

    # Strands.

    def start(self, name: str, host: Host, work: Callable[[], None]) -> Strand:
        """Start *work* on a strand of *host*."""
        strand = Strand(name, host, work)
        host.strands.append(strand)
        self.wake(strand)
        return strand

    def park(self, strand: Strand, until: int | None = None) -> None:
        """Hand over until an instant in microseconds, or until somebody wakes the strand; called by itself."""
        if strand.doomed:
            raise Killed
        self.between()
        strand.token += 1
        if until is not None:
            first = self._coming[0][0] if self._coming else until + 1
            if until < first and until <= self._horizon and not strand.host.frozen:
                self.micros = max(self.micros, until)  # Nobody else moves before: changing threads is dear.
                self.steps += 1
                return
            self._add(until, strand, strand.token)
        strand.hand_over()
        if strand.doomed:
            raise Killed

    def wake(self, strand: Strand) -> None:
        """Let a parked strand go on."""
        strand.token += 1
        self._add(self.micros, strand, strand.token)

    def kill(self, host: Host) -> None:
        """End every strand of *host* where it stands; none of them makes another call."""
        assert self.current is None, "a strand cannot unwind its neighbours"
        for strand in list(host.strands):
            strand.doomed = True
            while not strand.done:
                self._resume(strand)

    # Playing.

    def play_until(self, instant: float, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Let everything happen that comes by *instant* (ms), as long as *goes_on* says so between any two."""
        self._horizon = round(instant * 1000)
        while self._coming and self._coming[0][0] <= self._horizon and goes_on():
            self.step()
        if goes_on():
            self.micros = max(self.micros, self._horizon)

    def step(self) -> None:
        """Let the next thing happen."""
        instant, _, strand, token, effect = heapq.heappop(self._coming)
        if strand is not None and (strand.done or token != strand.token):
            return
        self.steps += 1
        self.micros = max(self.micros, instant)
        if strand is None:
            assert effect is not None
            effect()
            self.between()
        elif strand.host.frozen:
            strand.host.held.append((strand, token))
        else:
            self._resume(strand)

    def thaw(self, host: Host) -> None:
        """Let a frozen host go on: what would have moved meanwhile moves now."""
        host.frozen = False
        held, host.held = host.held, []
        for strand, token in held:
            if token == strand.token:
                self._add(self.micros, strand, token)

    def _add(self, micros: int, strand: Strand | None, token: int, effect: Callable[[], None] | None = None) -> None:
        self._serial += 1
        heapq.heappush(self._coming, (max(micros, self.micros), self._serial, strand, token, effect))

    def _resume(self, strand: Strand) -> None:
        self.current = strand
        strand.go_on()
        self.current = None
        self.between()
        if strand.done:
            strand.host.strands.remove(strand)
            if strand.fault is not None:
                raise strand.fault
