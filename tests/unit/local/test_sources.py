"""Which function gets what the engine forgot at its end."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.sources.sources import Sources
from local.template.translated import SourceSpec


@pytest.mark.parametrize(("function", "gets_lanes"), [("RelayFunction", True), ("ArchiveFunction", False)])
def test_open_lanes_are_told_again_to_the_function_that_starts_workflows_alone(
    tmp_path: Path, function: str, gets_lanes: bool
) -> None:
    anything = SimpleNamespace(
        waiting=0, functions={function: SimpleNamespace(name=function)}, positions=tmp_path,
        calls=lambda _: SimpleNamespace(call=print),
        outputs={"ArnSource": "arn:aws:dynamodb:us-east-1:1:table/lanes/stream/1"},
    )  # fmt: skip
    parts: Any = anything
    sources = Sources(parts, asyncio.new_event_loop(), 1.0, tmp_path, parts, parts)
    spec = SourceSpec("Source", function, {"StartingPosition": "TRIM_HORIZON"})

    made = sources._stream_source(spec, parts, parts)

    assert (made.first is not None) is gets_lanes
