"""Event patterns: what the engine of EventBridge said of pairs, and what is decided otherwise."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.errors import InvalidFilterError
from tagcast.filters.kinds import compile_filter

from tests.event_patterns.verdicts import our_verdict

PAIRS = json.loads((Path(__file__).parents[1] / "vectors" / "event_patterns.json").read_text("utf-8"))


def message(body: Any, **properties: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return SimpleNamespace(tags=("t1",), routing_key="order.new", properties=properties, body=content)


def refused(pattern: object, **more: object) -> dict[str, str]:
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter({"kind": "event_pattern", "pattern": pattern, **more})
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def says(pattern: object, body: Any, properties: dict[str, str] | None = None, **more: object) -> bool | None:
    value = {"kind": "event_pattern", "pattern": pattern, **more}
    return compile_filter(value).evaluate(message(body, **(properties or {})))


def test_verdicts_and_refusals_are_those_of_the_official_engine() -> None:
    assert len(PAIRS) >= 600
    different = [(pair, ours) for pair in PAIRS if (ours := our_verdict(pair[0], pair[1])) != pair[2]]
    assert different == []
