"""Patterns and events that are made to take long: none is a fault of the service, and none takes long."""

import json
import random
import time
from contextlib import suppress

import pytest
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.kinds import compile_filter
from tagcast.model import Draft

from tests.event_patterns.hostile import hostile_pair
from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

MATCH_CPU_S_MAX = 0.05


def asked(count: int, seed: int) -> tuple[list[float], set[int]]:
    """Return the seconds of each match and the status codes of trying each filter."""
    fakes, dice = FakeWorld(), random.Random(seed)
    seconds, codes = [], set()
    for _ in range(count):
        pattern, event = hostile_pair(dice)
        value = {"kind": "event_pattern", "pattern": pattern}
        said = json.dumps({"filter": value, "message": {"body": event}})
        codes.add(answered(fakes.world, "POST", "/filters/test", said)["statusCode"])
        try:
            filter = compile_filter(value)
        except InvalidFilterError:
            continue
        seconds.append(min(_took(filter, Draft(event.encode() + end)) for end in (b" ", b"  ")))
    return sorted(seconds), codes


def _took(filter: CompiledFilter, draft: Draft) -> float:
    """Return the seconds of reading a body and judging it; the collector may come in between, so it is asked twice."""
    began = time.process_time()
    with suppress(FilterEvaluationError):
        filter.evaluate(draft)
    return time.process_time() - began


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [40, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_hostile_patterns_and_events_are_answered_in_time(count: int) -> None:
    seconds, codes = asked(count, seed=1)

    assert max(codes) < 500
    assert seconds[-1] <= MATCH_CPU_S_MAX, f"slowest ms: {[round(1_000 * each, 1) for each in seconds[-5:]]}"
