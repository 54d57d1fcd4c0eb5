"""Ratios of benchmarks: what is lost is marked, tried once more, and makes the run fail."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import ratios
from tests.benchmarks.__main__ import BENCHMARKS, measured
from tests.benchmarks.ratios import RECORD, REPORTS, Ratio, read, report, reported, verdict, write

BEFORE = {"keys": Ratio("keys", 1.5, "paho")}


@pytest.mark.parametrize(
    ("ratio", "goal", "said"),
    [
        (1.6, 0.0, "as recorded (1.50)"),
        (1.36, 0.0, "as recorded (1.50)"),
        (1.34, 0.0, "lost 11 % (1.50)"),
        (1.45, 1.5, "below its goal of 1.5"),
    ],
)
def test_a_ratio_that_lost_more_than_a_tenth_or_misses_its_goal_is_marked(ratio: float, goal: float, said: str) -> None:
    assert verdict(BEFORE, Ratio("keys", ratio, "paho", goal)) == said


def test_a_ratio_to_another_baseline_is_not_compared_with_the_record() -> None:
    assert verdict(BEFORE, Ratio("keys", 0.1, "another")) == "not recorded"
    assert verdict(BEFORE, Ratio("other", 0.1, "paho")) == "not recorded"


def test_a_benchmark_with_a_lost_ratio_runs_once_more_and_the_better_counts() -> None:
    runs = {"good": iter([1.5]), "noisy": iter([1.0, 1.45]), "lost": iter([1.0, 1.1])}
    record = {name: Ratio(name, 1.5, "paho") for name in runs}

    failed, found = measured(list(runs), record, lambda name: (True, {name: Ratio(name, next(runs[name]), "paho")}))

    assert failed == []
    assert {name: each.ratio for name, each in found.items()} == {"good": 1.5, "noisy": 1.45, "lost": 1.1}
    assert [name for name, each in found.items() if verdict(record, each).startswith("lost")] == ["lost"]


def test_a_benchmark_that_fails_is_named() -> None:
    assert measured(["broken"], {}, lambda _: (False, {})) == (["broken"], {})


def test_what_benchmarks_report_is_recorded_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, reports = tmp_path / "ratios.json", tmp_path / "reports"
    record.write_text(json.dumps({"kept": {"ratio": 7, "baseline": "x"}, "keys": {"ratio": 9, "baseline": "x"}}))
    monkeypatch.setenv(REPORTS, str(reports))

    report("keys", 1.2345, "paho")
    report("tags", 2.0, "ruler", goal=1.0)
    write(reported(reports), record)

    assert read(record) == {
        "kept": Ratio("kept", 7, "x"), "keys": Ratio("keys", 1.23, "paho"), "tags": Ratio("tags", 2.0, "ruler"),
    }  # fmt: skip


def test_the_record_names_a_baseline_for_each_ratio() -> None:
    assert ratios.read(RECORD)
    assert all(each.ratio > 0 and each.baseline for each in read(RECORD).values())


def test_every_module_of_the_folder_that_prints_is_a_benchmark() -> None:
    assert {"filters", "push", "twin"} <= set(BENCHMARKS)
    assert {"receivers", "ratios"}.isdisjoint(BENCHMARKS)
