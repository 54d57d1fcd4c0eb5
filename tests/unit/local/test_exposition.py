"""What Prometheus is told: the numbers of the functions' own lines, in a form that its own parser reads."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tagcast_aws.runtime.telemetry import UNITS

from local.stack.exposition import LABELS, Exposition, describe_metric
from local.stack.stack import Stack, StackOptions
from tests.architecture.test_metrics import told_by_the_code

DASHBOARD = json.loads((Path(__file__).resolve().parents[3] / "docs/grafana.json").read_text())
SAMPLES = {describe_metric(metric).sample for metric in told_by_the_code()}
SAMPLES |= {describe_metric(metric, LABELS).sample for metric in UNITS}


def line(values: Mapping[str, list[float]], **dimensions: str) -> str:
    """A line of EMF, as the library of the functions writes it."""
    named = {"service": "tagcast", **dimensions}
    metrics = [{"Name": name, "Unit": "Count"} for name in values]
    directive = {"Namespace": "tagcast", "Dimensions": [list(named)], "Metrics": metrics}
    return json.dumps({"_aws": {"Timestamp": 0, "CloudWatchMetrics": [directive]}, **named, **values})


def read(exposition: Exposition) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(exposition.text().decode())
    samples = (sample for family in families for sample in family.samples)
    return {
        (each.name, *(each.labels[label] for label in (*LABELS, "le") if label in each.labels)): each.value
        for each in samples
        if not each.name.endswith("_created")
    }


@pytest.fixture
def exposition() -> Exposition:
    return Exposition()


def test_counters_add_up_and_subscriptions_are_told_apart(exposition: Exposition) -> None:
    exposition.hear(line({"Delivered": [1, 1]}))
    exposition.hear(line({"Delivered": [1]}))
    for name, times in (("a", 2), ("b", 3)):
        exposition.hear(line({"Delivered": [1] * times}, topic="orders", subscription=name))

    assert read(exposition) == {
        ("tagcast_delivered_total",): 3,
        ("tagcast_subscription_delivered_total", "orders", "a"): 2,
        ("tagcast_subscription_delivered_total", "orders", "b"): 3,
    }


def test_durations_are_histograms_in_seconds(exposition: Exposition) -> None:
    exposition.hear(line({"FirstRoundMs": [20, 40_000], "Attempts": [1, 3]}))

    told = read(exposition)
    assert (told["tagcast_first_round_seconds_sum",], told["tagcast_first_round_seconds_count",]) == (40.02, 2)
    assert told["tagcast_first_round_seconds_bucket", "0.025"] == 1
    assert told["tagcast_first_round_seconds_bucket", "60.0"] == 2
    assert (told["tagcast_attempts_bucket", "1.0"], told["tagcast_attempts_bucket", "3.0"]) == (1, 2)


def test_a_sweep_tells_anew_what_lanes_owe_and_nothing_of_those_that_are_active_again(exposition: Exposition) -> None:
    for owing in (("a", "b"), ("b",)):
        exposition.hear(line({"OldestBlockedHeadSeconds": [60], "ExpiringWithinHour": [len(owing)]}))
        for name in owing:
            exposition.hear(line({"Backlog": [7]}, topic="orders", subscription=name))

    assert read(exposition) == {
        ("tagcast_oldest_blocked_head_seconds",): 60,
        ("tagcast_expiring_within_hour",): 1,
        ("tagcast_subscription_backlog", "orders", "b"): 7,
    }


@pytest.mark.parametrize("heard", ["START", '{"message": "attempted"}', 'x {"_aws": {}}', ""])
def test_other_lines_of_the_log_are_none_of_its_business(exposition: Exposition, heard: str) -> None:
    exposition.hear(heard)
    assert exposition.text() == b""


@pytest.mark.parametrize(
    "target", [target for panel in DASHBOARD["panels"] for target in panel["targets"]], ids=lambda each: each["expr"]
)
def test_every_query_of_the_dashboard_asks_for_a_metric_that_exists(target: dict[str, Any]) -> None:
    asked = set(re.findall(r"tagcast_\w+", target["expr"]))
    assert asked
    assert asked <= SAMPLES
    assert target["expr"].count("(") == target["expr"].count(")")


def test_the_dashboard_has_its_variables_and_every_panel_its_place() -> None:
    known = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)", json.dumps(DASHBOARD["panels"])))
    assert used == known
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)


def test_of_several_values_of_a_level_the_last_one_counts(exposition: Exposition) -> None:
    exposition.hear(line({"OldestBlockedHeadSeconds": [60], "ExpiringWithinHour": [3, 5, 4]}))

    assert read(exposition)[("tagcast_expiring_within_hour",)] == 4


@pytest.mark.parametrize("said", [line({"Rated": 1}), '{"_aws": broken', '{"note": "_aws", "_aws": 1}'])  # type: ignore[dict-item]
def test_what_a_function_of_the_user_prints_is_no_metric_of_the_service(tmp_path: Path, said: str) -> None:
    stack = Stack(StackOptions(folder=tmp_path))
    stack._hear("rate", said)
    assert stack._exposition.text() == b""
