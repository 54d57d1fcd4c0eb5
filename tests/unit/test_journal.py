"""What operators can count."""

from __future__ import annotations

import json

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
