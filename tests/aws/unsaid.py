"""What AWS does not say, as one account has it: each history draws it from the ranges of the table of limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tests.aws import limits


@dataclass(frozen=True)
class Unsaid:
    """How this account behaves where nothing is documented; as it is here, tests of single parts have it."""

    first_pause_ms: float = 1_000
    """Before the first repetition of a stream's batch; each further one is twice as long."""
    longest_pause_ms: float = 60_000
    growth_a_minute: float = limits.QUEUE_GROWTH_A_MINUTE[1]
    """Connections that a busy source of a queue gains."""
    sleeps_s: float = 2 * 3_600
    """How long an environment lives at most that has nothing to do."""
    clock_stands: bool = False
    """Whether what a process measures stands still while it is frozen; the time of day goes on."""
    cuts_silently: bool = False
    """Whether a process is told nothing of a connection that was closed while it was frozen."""

    def pause_ms(self, tries: int) -> float:
        """Return how long a source waits at most after that many failures of a batch.

        >>> [Unsaid().pause_ms(tries) for tries in (1, 2, 20)]
        [1000, 2000, 60000]
        """
        return min(self.longest_pause_ms, self.first_pause_ms * (1 << max(0, min(tries - 1, 30))))


USUAL = Unsaid()


def draw_unsaid(seed: int | str) -> Unsaid:
    """Return how the account of a history behaves: anything of the ranges, small and large alike."""
    dice = Random(f"unsaid {seed}")
    return Unsaid(
        first_pause_ms=_drawn(dice, limits.STREAM_FIRST_PAUSE_MS),
        longest_pause_ms=_drawn(dice, limits.STREAM_LONGEST_PAUSE_MS),
        growth_a_minute=_drawn(dice, limits.QUEUE_GROWTH_A_MINUTE),
        sleeps_s=_drawn(dice, limits.LAMBDA_SLEEPS_S),
        clock_stands=dice.random() < 0.5,
        cuts_silently=dice.random() < 0.3,
    )


def _drawn(dice: Random, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return math.exp(dice.uniform(math.log(low), math.log(high)))
