"""How long whoever publishes may know a topic without reading it, and how who changes it waits for that.

See docs/architecture.md, Hot keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tagcast.ports import World
from tagcast.topic_settings import TopicReads

KNOWN_S = 1.0
AWAITED_S = 1.1
"""Longer than that, as two clocks may run apart."""


@dataclass(frozen=True, slots=True)
class Look:
    """When a process began to read something, on both of its clocks."""

    monotonic_s: float = -math.inf
    at: int = 0

    @classmethod
    def of(cls, world: World) -> Look:
        """Return the look that begins now."""
        return cls(world.clock.monotonic(), world.clock.now())

    def still_counts(self, world: World) -> bool:
        """Say whether what was read then may still be used, whichever clock stood still while the process did."""
        if world.topic_reads is not TopicReads.SECOND:
            return False
        since_ms = world.clock.now() - self.at
        return world.clock.monotonic() - self.monotonic_s < KNOWN_S and 0 <= since_ms < KNOWN_S * 1000


NEVER = Look()


def wait_for_publishers(world: World) -> None:
    """Return when no publish that begins from now on knows what was before a change that is stored."""
    if world.topic_reads is not TopicReads.EVERY:
        world.clock.sleep(AWAITED_S)
