"""CloudWatch's alarms, as its user guide describes them ("Using Amazon CloudWatch alarms"), over lines of EMF.

One metric, one statistic of its values in each period, M out of N datapoints, and what missing ones count as. Left out
is that CloudWatch looks for older datapoints where some of the last ones are missing.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "SampleCount": len,
    "Average": lambda values: sum(values) / len(values),
}
Dimensions = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Datum:
    """One value of a metric; a metric is a namespace, a name, and exactly these dimensions."""

    namespace: str
    name: str
    dimensions: Dimensions
    at_s: float
    value: float


def data_in(line: str, at_s: float) -> Iterator[Datum]:
    """Yield what a line of EMF tells, as of an instant: a value or a list of values for each set of dimensions."""
    told = json.loads(line)
    for directive in told["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = frozenset((name, str(told[name])) for name in names)
            for metric in directive["Metrics"]:
                values = told[metric["Name"]]
                for value in values if isinstance(values, list) else [values]:
                    yield Datum(directive["Namespace"], metric["Name"], dimensions, at_s, float(value))


def statistic(alarm: Mapping[str, Any], values: Sequence[float]) -> float:
    """Return what the alarm looks at: a statistic, or a percentile with linear interpolation.

    >>> statistic({"ExtendedStatistic": "p50"}, [1.0, 2.0, 10.0, 11.0]), statistic({"Statistic": "Sum"}, [1.0, 2.0])
    (6.0, 3.0)
    """
    if "Statistic" in alarm:
        assert "ExtendedStatistic" not in alarm
        return STATISTICS[alarm["Statistic"]](values)
    ordered = sorted(values)
    place = float(alarm["ExtendedStatistic"].removeprefix("p")) / 100 * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def state(alarm: Mapping[str, Any], data: Sequence[Datum], now_s: float) -> str:
    """Return ALARM, OK or INSUFFICIENT_DATA by the periods that ended until *now_s*."""
    period, periods = int(alarm["Period"]), int(alarm["EvaluationPeriods"])
    last = math.floor(now_s / period)
    verdicts = [_verdict(alarm, data, number * period, period) for number in range(last - periods, last)]
    missing = alarm.get("TreatMissingData", "missing")
    if missing == "missing" and all(each is None for each in verdicts):
        return "INSUFFICIENT_DATA"
    breaching = sum(missing == "breaching" if each is None else each for each in verdicts)
    return "ALARM" if breaching >= int(alarm.get("DatapointsToAlarm", periods)) else "OK"


def _verdict(alarm: Mapping[str, Any], data: Sequence[Datum], begin_s: float, period: int) -> bool | None:
    """Whether the datapoint of one period breaches; None if there is none."""
    identity = frozenset((each["Name"], each["Value"]) for each in alarm["Dimensions"])
    values = [
        each.value
        for each in data
        if (each.namespace, each.name, each.dimensions) == (alarm["Namespace"], alarm["MetricName"], identity)
        and begin_s <= each.at_s < begin_s + period
    ]
    if not values:
        return None
    return COMPARISONS[alarm["ComparisonOperator"]](statistic(alarm, values), float(alarm["Threshold"]))
