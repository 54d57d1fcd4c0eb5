"""What operators can read and count: never a body or a secret."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools import Metrics
from tagcast.model import Endpoint, EntryState, Outcome, Protocol, Push
from tagcast_aws.runtime.telemetry import PowertoolsTelemetry, SubscriptionMetrics

from tests.fakes.log import Log
from tests.fakes.world import FakeClock, FakeWorld


@pytest.fixture
def push(fake: FakeWorld) -> Push:
    fake.subscribe("A")
    fake.first_round("a secret body")
    return fake.pusher.pushes[0]


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    fresh = Metrics(namespace="tagcast", service="test")
    fresh.clear_metrics()
    yield fresh
    fresh.clear_metrics()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def telemetry(log: Log, metrics: Metrics) -> PowertoolsTelemetry:
    return PowertoolsTelemetry(log.logger, metrics, FakeClock(), SubscriptionMetrics())


def counted(metrics: Metrics) -> dict[str, list[float]]:
    return {name: values["Value"] for name, values in metrics.provider.metric_set.items()}


def test_failing_filters_are_told_by_name_and_counted(
    capsys: Any, log: Log, telemetry: PowertoolsTelemetry, metrics: Metrics
) -> None:
    telemetry.record_filter_failures("test1", iter(["A", "B"]), 2)

    [warning] = log.lines()
    assert (warning["level"], warning["topic"], warning["subscriptions"]) == ("WARNING", "test1", ["A", "B"])
    assert counted(metrics) == {"FilterErrors": [2.0]}
    assert capsys.readouterr().out == ""


def test_an_attempt_is_one_line_that_says_who_what_and_how_long(
    log: Log, telemetry: PowertoolsTelemetry, push: Push
) -> None:
    telemetry.record_attempt(push, Outcome(False, "http 500"), EntryState.BLOCKED, 123)

    [line] = log.lines()
    about = {"topic": "test1", "subscription": "A", "message_id": push.message.message_id, "attempt": 1}
    told = {"message": "attempted", "level": "INFO", "outcome": "http 500", "state": "blocked", "took_ms": 123}
    assert (about | told).items() <= line.items()
    assert "secret" not in json.dumps(line)


@pytest.mark.parametrize(("attempt", "lines"), [(1, 0), (2, 1)])
def test_what_was_delivered_at_once_is_no_line_at_the_level_of_a_deployment(
    log: Log, telemetry: PowertoolsTelemetry, push: Push, attempt: int, lines: int
) -> None:
    telemetry.record_attempt(replace(push, attempt=attempt), Outcome(True, "http 200"), EntryState.DELIVERED, 1)

    assert len(log.lines()) == lines


def test_what_was_acknowledged_is_counted_without_a_line(
    log: Log, telemetry: PowertoolsTelemetry, metrics: Metrics, push: Push
) -> None:
    telemetry.record_end(push.message, push.subscription, EntryState.DELIVERED)

    assert log.lines() == []
    assert counted(metrics) == {"Delivered": [1.0]}


@pytest.mark.parametrize(
    ("state", "metric"),
    [
        (EntryState.DELIVERED, "Delivered"),
        (EntryState.BLOCKED, "AttemptFailed"),
        (EntryState.DISCARDED, "Discarded"),
        (EntryState.EXPIRED, "Expired"),
    ],
)
def test_each_attempt_is_counted_by_what_it_led_to(
    telemetry: PowertoolsTelemetry, metrics: Metrics, push: Push, state: EntryState, metric: str
) -> None:
    telemetry.record_attempt(push, Outcome(False, "x"), state, 1)

    assert counted(metrics) == {metric: [1.0]}
    assert {values["Unit"] for values in metrics.provider.metric_set.values()} == {"Count"}


def test_an_end_without_a_push_is_counted_and_one_line(
    log: Log, telemetry: PowertoolsTelemetry, metrics: Metrics, push: Push
) -> None:
    telemetry.record_end(push.message, push.subscription, EntryState.EXPIRED)

    [line] = log.lines()
    about = {"topic": "test1", "subscription": "A", "message_id": push.message.message_id}
    assert (about | {"message": "ended", "state": "expired"}).items() <= line.items()
    assert counted(metrics) == {"Expired": [1.0]}


def test_a_metric_counts_one_unless_told_otherwise_and_an_invocation_tells_the_sum(
    telemetry: PowertoolsTelemetry, metrics: Metrics
) -> None:
    telemetry.count("Swept")
    telemetry.count("Swept", 3)

    assert counted(metrics) == {"Swept": [4.0]}


def test_a_piece_of_work_that_failed_is_counted_and_told_with_its_reason(
    telemetry: PowertoolsTelemetry, metrics: Metrics, log: Log
) -> None:
    telemetry.record_failure("a due row", ValueError("no such state"))

    [told] = log.lines()
    assert (told["level"], told["message"]) == ("ERROR", "a due row failed")
    assert "ValueError: no such state" in told["exception"]
    assert counted(metrics) == {"Failed": [1.0]}


def test_no_line_of_the_log_has_a_key_an_address_or_a_body(
    capsys: Any, log: Log, telemetry: PowertoolsTelemetry, push: Push
) -> None:
    settings = replace(
        push.subscription.settings,
        endpoint=Endpoint(Protocol.HTTPS, "https://example.com/planted-path?key=planted-query"),
        secret="whsec_planted",
    )
    subscription = replace(push.subscription, settings=settings)
    message = replace(push.message, draft=replace(push.message.draft, body=b"planted-body"))

    planted = replace(push, subscription=subscription, message=message)
    for state in (EntryState.DELIVERED, EntryState.BLOCKED, EntryState.DISCARDED, EntryState.EXPIRED):
        telemetry.record_attempt(planted, Outcome(False, "x"), state, 1)
    for state in EntryState:
        telemetry.record_end(message, subscription, state)
    telemetry.record_filter_failures(message.topic, [subscription.name])

    assert len(log.lines()) > len(EntryState)
    assert "planted" not in json.dumps(log.lines()) + capsys.readouterr().out
