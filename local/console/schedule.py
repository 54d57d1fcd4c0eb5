"""What the retry strategy has planned for the head of a lane, and where that stands on a line of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tagcast.model import RetryPolicy, Strategy
from tagcast.pushing.retry import BACKOFF_INTERVAL_S_RANGE, delay_s

PLANNED_SHOWN = 60
MEAN_S = sum(BACKOFF_INTERVAL_S_RANGE) / 2
WIDTH, NOW_AT = 1000.0, 400.0
"""The line of time: the past takes this part of it, and the rest of the life the other."""


@dataclass(frozen=True)
class Plan:
    """Attempts to come if each fails at once; *spent* says that the retries end before the life does.

    *more* are planned beyond those that are named.
    """

    attempts: tuple[datetime, ...]
    spent: bool
    more: bool = False


def policy_of(retry: Mapping[str, Any]) -> RetryPolicy:
    """Return the policy in a subscription as the API tells it."""
    return RetryPolicy(
        Strategy(retry["strategy"]),
        int(retry["max_retries"]),
        retry.get("interval_seconds"),
        int(retry.get("max_interval_seconds", 512)),
    )


def planned(policy: RetryPolicy, attempts: int, first: datetime, expires_at: datetime, time_scale: float = 1.0) -> Plan:
    """Return the attempts from *first* on, of a delivery that had *attempts*, as if each failed at once.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> plan = planned(RetryPolicy(Strategy.BACKOFF_RETRY, 3, 15), 2, noon, noon + timedelta(hours=1))
    >>> [each.second for each in plan.attempts], plan.spent
    ([0, 15], True)
    """
    instants: list[datetime] = []
    at = first
    while at < expires_at and len(instants) < PLANNED_SHOWN:
        instants.append(at)
        wait_s = delay_s(policy, attempts + len(instants), MEAN_S)
        if wait_s is None:
            return Plan(tuple(instants), spent=True)
        at += timedelta(seconds=wait_s / time_scale)
    return Plan(tuple(instants), spent=False, more=at < expires_at)


@dataclass(frozen=True)
class Line:
    """A line of time from *begins* through *now* to *ends*; `at` says where an instant stands on it."""

    begins: datetime
    now: datetime
    ends: datetime

    def at(self, instant: datetime) -> float:
        """Return the place of an instant, from 0 to ``WIDTH``; what is over or to come keeps within the line.

        >>> from datetime import UTC
        >>> noon, hour = datetime(2026, 5, 1, 12, tzinfo=UTC), timedelta(hours=1)
        >>> line = Line(noon, noon + hour, noon + 3 * hour)
        >>> [line.at(noon + n * hour) for n in (0, 1, 2, 3, 9)]
        [0.0, 400.0, 700.0, 1000.0, 1000.0]
        """
        past, rest = self.now - self.begins, self.ends - self.now
        if instant <= self.now:
            return round(NOW_AT * max(0.0, _part(instant - self.begins, past)), 1)
        return round(min(WIDTH, NOW_AT + (WIDTH - NOW_AT) * _part(instant - self.now, rest)), 1)


def _part(of: timedelta, whole: timedelta) -> float:
    return of / whole if whole > timedelta() else 1.0
