"""What operators can count."""

from __future__ import annotations

import json
from io import StringIO

from aws_lambda_powertools import Logger, Metrics
from tagcast_aws.journal import PowertoolsJournal


def test_a_failing_filter_is_counted_under_its_topic_and_subscription(capsys, monkeypatch):
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "tagcast")
    journal = PowertoolsJournal(Logger(service="test"), Metrics(namespace="tagcast", service="test"))

    journal.filter_failed("test1", ["A", "B"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert [(line["topic"], line["subscription"], line["FilterErrors"]) for line in lines] == [
        ("test1", "A", [1.0]),
        ("test1", "B", [1.0]),
    ]


def test_a_piece_of_work_that_failed_is_counted_and_told_with_its_reason(monkeypatch):
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "tagcast")
    metrics, lines = Metrics(namespace="tagcast", service="test"), StringIO()
    journal = PowertoolsJournal(Logger(service="told", stream=lines), metrics)

    journal.failed("a due row", ValueError("no such state"))

    told = json.loads(lines.getvalue())
    assert (told["level"], told["message"]) == ("ERROR", "a due row failed")
    assert "ValueError: no such state" in told["exception"]
    assert metrics.serialize_metric_set()["Failed"] == [1.0]
