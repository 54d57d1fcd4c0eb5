"""Histories that are bent towards one place of the code."""

import time
from collections.abc import Callable
from itertools import count

from tests.simulation.history import History
from tests.simulation.ledger import Broken
from tests.simulation.plan import ANYTHING, Aim, draw_plan
from tests.simulation.planted import BUGS, aim_of

FIRST_SEED = 500_000


def aims_for(module: str, function: str) -> tuple[Aim, ...]:
    """Return the aims of the bugs that are planted in *function*, then of those elsewhere in *module*, then none."""
    here = [aim_of(bug) for bug in BUGS if bug.changes[0][0] == f"{module}:{function}"]
    near = [aim_of(bug) for bug in BUGS if bug.changes[0][0].startswith(f"{module}:")]
    return tuple(dict.fromkeys((*here, *near, ANYTHING)))


def play(module: str, function: str, seconds: float, tell: Callable[[], None]) -> Broken | None:
    """Play bent histories for so many *seconds* of one core, or until a promise does not hold; each calls *tell*."""
    aims = aims_for(module, function)
    until = time.process_time() + seconds
    for number in count():
        tell()
        broken = History(draw_plan(FIRST_SEED + number // len(aims), aims[number % len(aims)])).run().broken
        if broken is not None or time.process_time() >= until:
            return broken
    raise AssertionError("seeds never end")
