"""Many histories on the box, and failing ones without what their failure does not need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from tests.aws.histories.history import History
from tests.aws.histories.plan import AwsPlan, draw_plan
from tests.simulation.campaign import Tally
from tests.simulation.history import Result
from tests.simulation.plan import Plan
from tests.simulation.shrink import shrink, told


def play(seeds: Iterable[int]) -> Tally:
    """Play some seeds in this process."""
    tally = Tally()
    for seed in seeds:
        tally.add(History(draw_plan(seed)).run())
    return tally


def shrunk(plan: AwsPlan) -> AwsPlan:
    """Return a smaller plan that breaks the same promise."""
    small = cast("AwsPlan", shrink(plan, _run))
    broken = _run(small).broken
    for outage in small.outages:
        candidate = replace(small, outages=tuple(other for other in small.outages if other is not outage))
        found = _run(candidate).broken
        if broken is not None and found is not None and found.invariant == broken.invariant:
            small = candidate
    return small


def told_of(plan: AwsPlan) -> Iterator[str]:
    """Yield what is left of a plan, for people."""
    yield from told(plan)
    for outage in plan.outages:
        yield f"{outage.service} is away from {outage.began_ms} to {outage.ended_ms} ms: {outage.kind.name}"


def _run(plan: Plan) -> Result:
    return History(cast("AwsPlan", plan)).run()
