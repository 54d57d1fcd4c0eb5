"""The planned attempts of a lane's head by its retry strategy, and their positions on a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tagcast.model import RetryPolicy, Strategy
from tagcast.pushing.retry import BACKOFF_INTERVAL_S_RANGE, delay_s
from tagcast.settings import DECAY_INTERVAL_S_MAX, RETRIES_FOR_LIFE
from tagcast_cli.push_options import LIFE

PLANNED_SHOWN = 60
MEAN_S = sum(BACKOFF_INTERVAL_S_RANGE) / 2
STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600)
TICKS_MAX = 5
"""At most 5 ticks fit on a phone, each with a time of day."""


@dataclass(frozen=True)
class NextAttempts:
    """The next attempts if each attempt fails immediately. *spent*: the retries end before the message expires.

    *more*: further attempts follow.
    """

    attempts: tuple[datetime, ...]
    spent: bool
    more: bool = False


def policy_of(retry: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy of a subscription in the API's form."""
    return RetryPolicy(
        Strategy(retry["strategy"]),
        RETRIES_FOR_LIFE if retry["max_retries"] == LIFE else int(retry["max_retries"]),
        retry.get("interval_seconds"),
        int(retry.get("max_interval_seconds", DECAY_INTERVAL_S_MAX)),
    )


def plan_attempts(
    policy: RetryPolicy, attempts: int, first: datetime, expires_at: datetime, time_scale: float = 1.0
) -> NextAttempts:
    """Return the attempts from *first* on, if each attempt fails immediately. *attempts* were made before.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> plan = plan_attempts(RetryPolicy(Strategy.BACKOFF_RETRY, 3, 15), 2, noon, noon + timedelta(hours=1))
    >>> [each.second for each in plan.attempts], plan.spent
    ([0, 15], True)
    """
    instants: list[datetime] = []
    at = first
    while at < expires_at and len(instants) < PLANNED_SHOWN:
        instants.append(at)
        wait_s = delay_s(policy, attempts + len(instants), MEAN_S)
        if wait_s is None:
            return NextAttempts(tuple(instants), spent=True)
        at += timedelta(seconds=wait_s / time_scale)
    return NextAttempts(tuple(instants), spent=False, more=at < expires_at)


@dataclass(frozen=True)
class Tick:
    """A tick of a timeline: its position and time of day (UTC)."""

    at: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """A linear timeline from *begins* to *ends*; `at` returns the position of an instant in percent."""

    begins: datetime
    ends: datetime

    def at(self, instant: datetime) -> float:
        """Return the position of an instant, clamped to the timeline.

        >>> from datetime import UTC
        >>> noon, hour = datetime(2026, 5, 1, 12, tzinfo=UTC), timedelta(hours=1)
        >>> line = Timeline(noon, noon + 4 * hour)
        >>> [line.at(noon + n * hour) for n in (-1, 0, 1, 4, 9)]
        [0.0, 0.0, 25.0, 100.0, 100.0]
        """
        whole = self.ends - self.begins
        part = (instant - self.begins) / whole if whole > timedelta() else 1.0
        return round(100 * min(1.0, max(0.0, part)), 2)

    @property
    def ticks(self) -> list[Tick]:
        """A few ticks at round times of day.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 5, 1, 12, 10, tzinfo=UTC)
        >>> [(tick.at, tick.label) for tick in Timeline(noon, noon + timedelta(hours=20)).ticks]
        [(19.17, '16:00'), (39.17, '20:00'), (59.17, '00:00'), (79.17, '04:00'), (99.17, '08:00')]
        """
        whole_s = (self.ends - self.begins).total_seconds()
        step_s = next((step for step in STEPS_S if whole_s / step <= TICKS_MAX), STEPS_S[-1])
        shape = "%H:%M" if step_s >= 60 else "%H:%M:%S"
        first_s = (int(self.begins.timestamp()) // step_s + 1) * step_s
        instants = [datetime.fromtimestamp(first_s + n * step_s, UTC) for n in range(TICKS_MAX + 1)]
        return [Tick(self.at(each), each.strftime(shape)) for each in instants if each < self.ends]
