"""What a function counted before it failed is written out, and what it counted later is not told twice."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.metrics import MetricUnit
from tagcast_aws import wiring
from tagcast_aws.runtime import telemetry

from tests.cloudwatch.deployed import Deployed

NAMES = sorted(path.parent.name for path in (Path(__file__).parents[2] / "functions").glob("*/app.py"))
PARTS = ("world", "cmq_keys", "home", "archive", "tail", "events", "kept_changes")
"""What functions are wired with besides the world; nobody looks at it here."""


class BrokenError(Exception):
    """What a handler raises here."""


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_function_counted_before_it_raised_is_written_out_and_only_once(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    app = importlib.import_module(f"functions.{name}.app")
    context = SimpleNamespace(
        function_name=name, memory_limit_in_mb=512, invoked_function_arn="arn", aws_request_id="r",
        get_remaining_time_in_millis=lambda: 60_000,
    )  # fmt: skip

    def counts(*_: object) -> None:
        telemetry.by_subscription().add("test1", 0, "A", {"Delivered": 1})
        wiring.metrics().add_metric(name="Delivered", unit=MetricUnit.Count, value=1)
        raise BrokenError

    def fails(*_: object) -> None:
        raise BrokenError

    monkeypatch.setattr(wiring, "process", lambda: SimpleNamespace(**dict.fromkeys(PARTS)))
    capsys.readouterr()
    for handle, lines in ((counts, 2), (fails, 0)):
        monkeypatch.setattr(app, "handle", handle)
        with pytest.raises(BrokenError):
            app.lambda_handler({"requestContext": {"requestId": "r"}}, context)
        found = told(capsys)
        assert [line["Delivered"] for line in found] == [[1.0]] * lines
        assert sum(line.get("subscription") == "A" for line in found) == lines // 2
