"""How long a publish may use a topic without reading it, and how a change of the topic waits for that.

See docs/limits.md, Hot keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tagcast.ports import World

CLOCKS_APART_S = 0.1
"""A change answers so much later than publishers may know what was before, because two clocks may run apart."""


@dataclass(frozen=True, slots=True)
class Look:
    """When a process began to read something, on both of its clocks."""

    monotonic_s: float = -math.inf
    at: int = 0

    @classmethod
    def of(cls, world: World) -> Look:
        """Return the look that begins now; where every publish reads for itself, no clock is asked."""
        return cls(world.clock.monotonic(), world.clock.now()) if world.topic_known_s else NEVER

    def still_counts(self, world: World) -> bool:
        """Say whether what was read then may still be used, whichever clock stood still while the process did."""
        known_s = world.topic_known_s
        if not known_s:
            return False
        since_ms = world.clock.now() - self.at
        return world.clock.monotonic() - self.monotonic_s < known_s and 0 <= since_ms < known_s * 1000


NEVER = Look()


def wait_for_publishers(world: World) -> None:
    """Return when no publish that begins from now on knows what was before a change that is stored."""
    if world.topic_known_s:
        world.clock.sleep(world.topic_known_s + CLOCKS_APART_S)
