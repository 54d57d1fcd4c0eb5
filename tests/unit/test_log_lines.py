"""The lines of the log are those of Powertools."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from tagcast_aws.runtime.log_lines import LogLines


def raised() -> Any:
    try:
        raise ValueError("fault")
    except ValueError:
        return sys.exc_info()


def record(message: object, *arguments: object, fault: Any = None, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("tagcast", logging.INFO, "/x/telemetry.py", 7, message, arguments, fault, "attempted")
    made.created, made.msecs = 1_800_000_000.125, 125.0
    vars(made).update(extra)
    return made


RECORDS = [
    record("attempted", topic="t", message_id="0000", attempt=1, outcome="é", state="delivered", trace_id=None),
    record("plain"),
    record("%s failed", "relay"),
    record("failed", fault=raised(), topic="t"),
    record({"a": 1}),
    record("told", subscriptions=["A", "B"], at=object.__name__, level="mine"),
]

SETTINGS: dict[str, Any] = {"service": "tagcast", "use_rfc3339": True}


@pytest.mark.parametrize("told", RECORDS, ids=lambda told: str(told.msg))
@pytest.mark.parametrize("keys", [{}, {"cold_start": False, "function_name": "publish", "left_out": None}])
@pytest.mark.parametrize("traced", [False, True])
def test_a_line_is_the_one_that_powertools_writes(
    told: logging.LogRecord, keys: dict[str, Any], traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if traced:
        monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")
    lines = []
    for formatter in (LogLines(**SETTINGS), LambdaPowertoolsFormatter(**SETTINGS)):
        formatter.append_keys(**keys)
        lines.append(formatter.format(told))
    assert lines[0] == lines[1]
