"""The command-line arguments of the archive's jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tagcast_cli.job_run import Archive, Link

SAMPLES = 20
"""The default number of sample messages of a backtest, for each kind of difference."""


@dataclass(frozen=True)
class Days:
    """The days of a job: the first one, and the day after the last one."""

    first: date
    end: date

    @classmethod
    def of(cls, first: str | None, end: str | None) -> Days:
        """Parse both days; the default is today, which is all that a local stack has. Raises ValueError."""
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
        """Return the days as arguments of a job."""
        return ["--from", self.first.isoformat(), "--to", self.end.isoformat()]


def option(name: str, value: str | None) -> list[str]:
    """Return an option with its value; empty for None."""
    return [] if value is None else [name, value]


def report_arguments(days: Days, topic: str | None) -> list[str]:
    """Return the command-line arguments of a report job."""
    return days.arguments() + option("--topic", topic)


def audit_arguments(
    place: Archive, days: Days, topic: str | None, as_of: str | None, property: str | None = None
) -> list[str]:
    """Return the command-line arguments of an audit job.

    A local archive is complete until *as_of*. The job gets the local stack's time scale, by which waits were shortened.
    """
    arguments = days.arguments() + option("--topic", topic) + option("--as-of", as_of)
    arguments += option("--property", property)
    return arguments + (["--time-scale", f"{place.time_scale:g}"] if place.is_local else [])


def backtest_arguments(
    days: Days, topic: str, candidate: Mapping[str, Any] | None, samples: int = SAMPLES
) -> list[str]:
    """Return the command-line arguments of a backtest job."""
    return [*days.arguments(), "--topic", topic, "--filter", json.dumps(candidate), "--samples", str(samples)]


def erase_arguments(
    messages: Sequence[str], topic: str | None, property: str | None, before: str | None, by: str | None
) -> list[str]:
    """Return the command-line arguments of an erasure job.

    >>> erase_arguments(["1", "2"], None, None, None, "me")
    ['--message', '1,2', '--by', 'me']
    """
    chosen = option("--message", ",".join(messages) or None) + option("--topic", topic)
    return chosen + option("--property", property) + option("--before", before) + option("--by", by)


def retain_arguments(bodies_days: int, properties_days: int) -> list[str]:
    """Return the command-line arguments of a retention job."""
    return ["--bodies-days", str(bodies_days), "--properties-days", str(properties_days)]


def compacting(place: Archive, days: Days) -> Link:
    """Return the job that first compacts the new files of a local archive. A deployment compacts on a schedule."""
    return ["compact", *days.arguments()] if place.is_local else ()
