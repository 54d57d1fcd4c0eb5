"""What the jobs over the archive are asked: days, and the arguments of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tagcast_cli.job_run import Archive, Link

SAMPLES = 20
"""Messages that a backtest shows of each way in which two filters differ, unless somebody says otherwise."""


@dataclass(frozen=True)
class Days:
    """The days that a job looks at: the first, and the day after the last."""

    first: date
    end: date

    @classmethod
    def of(cls, first: str | None, end: str | None) -> Days:
        """Read both; without them it is today, which is what a local stack has. Raises ValueError."""
        today = datetime.now(UTC).date()
        try:
            begin = today if first is None else date.fromisoformat(first)
            days = cls(begin, max(begin, today) + timedelta(1) if end is None else date.fromisoformat(end))
        except ValueError as fault:
            raise ValueError(f"not a day, expected e.g. 2026-11-20: {fault}") from None
        if days.first >= days.end:
            raise ValueError("--to is the day after the last day: it must be later than --from")
        return days

    def arguments(self) -> list[str]:
        """Return them as jobs take them."""
        return ["--from", self.first.isoformat(), "--to", self.end.isoformat()]


def option(name: str, value: str | None) -> list[str]:
    """Return an option with its value, or nothing without one."""
    return [] if value is None else [name, value]


def audit_arguments(
    place: Archive, days: Days, topic: str | None, as_of: str | None, property: str | None = None
) -> list[str]:
    """Return what an audit is asked; a local archive is complete until *as_of*, and its waits were shortened."""
    arguments = days.arguments() + option("--topic", topic) + option("--as-of", as_of)
    arguments += option("--property", property)
    return arguments + (["--time-scale", f"{place.time_scale:g}"] if place.is_local else [])


def backtest_arguments(
    days: Days, topic: str, candidate: Mapping[str, Any] | None, samples: int = SAMPLES
) -> list[str]:
    """Return what a backtest is asked."""
    return [*days.arguments(), "--topic", topic, "--filter", json.dumps(candidate), "--samples", str(samples)]


def compacting(place: Archive, days: Days) -> Link:
    """Return the job that compacts first what a local stack archived since: elsewhere a schedule does it."""
    return ["compact", *days.arguments()] if place.is_local else ()
