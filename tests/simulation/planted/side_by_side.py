"""Bugs of sections in an order that other processes serve: what became of them, and what stands behind them."""

from __future__ import annotations

from tagcast.model import Strategy

from tests.simulation.plan import Aim
from tests.simulation.planted.mutant import Mutant

_MADE = "if not await self.world.first_rounds.make(entry):"
_IN_ORDER = Aim(strategy=Strategy.BACKOFF_RETRY, wide=1.0, restless=True)
_REFUSED = Aim(faults=("throttle",), rate=0.08, strategy=Strategy.BACKOFF_RETRY, wide=1.0)
_UNHEARD = Aim(faults=("applied_error", "crash"), rate=0.08, strategy=Strategy.BACKOFF_RETRY, wide=1.0)

MUTANTS = (
    Mutant(
        "a section that another process refused counts as served",
        "tagcast.delivery.fan_out:_Line._elsewhere",
        _MADE,
        "if not await self.world.first_rounds.make(entry) and False:",
        _REFUSED,
    ),
    Mutant(
        "a section of which nobody knows what became of it counts as served",
        "tagcast.delivery.fan_out:_Line._elsewhere",
        f"{_MADE}\n            left.add(entry)",
        "with __import__('contextlib').suppress(Exception):\n            await self.world.first_rounds.make(entry)",
        _UNHEARD,
    ),
    Mutant(
        "the next message begins beside the last section of the one before",
        "tagcast.delivery.fan_out:_first_part",
        " or entry.message_id != entries[0].message_id",
        "",
        _IN_ORDER,
    ),
    Mutant(
        "nobody waits for the sections that other processes serve",
        "tagcast.delivery.fan_out:_Line._elsewhere",
        f"{_MADE}\n            left.add(entry)",
        "__import__('asyncio').get_running_loop().create_task(self.world.first_rounds.make(entry))",
        _IN_ORDER,
    ),
    Mutant(
        "one of the sections that nobody served is skipped",
        "tagcast.delivery.fan_out:_Line.serve",
        "return [entry for entry in others if entry in left]",
        "return [entry for entry in others if entry in left][1:]",
        _REFUSED,
    ),
)
