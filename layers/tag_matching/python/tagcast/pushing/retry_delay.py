"""The retry strategies: when a failed delivery is attempted again (docs/semantics.md, Retries).

Other modules decide other waits. A delivery that the service could not attempt waits for ``PUT_OFF_S`` of the engine.
The circuit, the rate and the verification of an endpoint may hold deliveries, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.model import EntryState, RetryPolicy, Strategy
from tagcast.rows.due import PendingDelivery
from tagcast.subscription_settings import RETRIES_FOR_LIFE

BACKOFF_RETRIES_DEFAULT, BACKOFF_RETRIES_MAX = 3, 100
BACKOFF_INTERVAL_S_RANGE = (10.0, 20.0)
DECAY_RETRIES_MAX = 176


@dataclass(frozen=True, slots=True)
class Disposition:
    """The state of a delivery after an attempt. *next_attempt_at* is set if the state is BLOCKED, and only then."""

    state: EntryState
    next_attempt_at: int | None = None


def delay_s(policy: RetryPolicy, failures: int, jitter_s: float) -> float | None:
    """Return the seconds between the *failures*-th failure and the next attempt, or None after the last retry.

    *jitter_s* is a random wait in ``BACKOFF_INTERVAL_S_RANGE``; only BACKOFF_RETRY without an interval uses it.

    >>> decay = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, max_retries=176)
    >>> [delay_s(decay, n, 0.0) for n in (1, 2, 3, 9, 10, 11, 176, 177)]
    [1.0, 2.0, 4.0, 256.0, 512.0, 512.0, 512.0, None]
    >>> sum(delay_s(decay, n, 0.0) for n in range(1, 177))
    86015.0
    >>> backoff = RetryPolicy(Strategy.BACKOFF_RETRY, max_retries=3)
    >>> [delay_s(backoff, n, 14.5) for n in (1, 3, 4)]
    [14.5, 14.5, None]
    >>> for_life = RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE, interval_s=5, interval_s_max=60)
    >>> [delay_s(for_life, n, 14.5) for n in (1, 2, 4, 5, 5_000)]
    [5.0, 10.0, 40.0, 60.0, 60.0]
    """
    assert failures >= 1
    if failures > policy.max_retries:
        return None
    if policy.strategy is Strategy.BACKOFF_RETRY and policy.max_retries < RETRIES_FOR_LIFE:
        return jitter_s if policy.interval_s is None else float(policy.interval_s)
    first_s = policy.interval_s or 1
    return float(min(policy.interval_s_max, first_s << (failures - 1)))


def is_retry_now(due: PendingDelivery, retry_all_at: int) -> bool:
    """Return whether *due* was last attempted before a *retry now* of all deliveries at *retry_all_at*.

    If *due* was never attempted, the acceptance of its message counts instead.
    """
    return (due.last_attempt_at or due.accepted_at) < retry_all_at


def retry_at(policy: RetryPolicy, due: PendingDelivery, retry_all_at: int, time_scale: float) -> int:
    """Return when an independent delivery may be attempted: by its schedule, or by a later Retry-After.

    The result is 0 if a *retry now* at *retry_all_at* includes the delivery. The result is never later than the expiry.
    *time_scale* divides the schedule's waits.

    >>> decay = RetryPolicy(Strategy.INDEPENDENT_RETRY, max_retries=176)
    >>> due = PendingDelivery("t.1", "0", "7", attempts=2, expires_at=90_000, last_attempt_at=10_000)
    >>> asked = PendingDelivery("t.1", "0", "7", 2, 90_000, 10_000, not_before=99_000)
    >>> retry_at(decay, due, 0, 1.0), retry_at(decay, due, 10_001, 1.0), retry_at(decay, asked, 0, 1.0)
    (12000, 0, 90000)
    """
    if is_retry_now(due, retry_all_at):
        return 0
    planned_at = due.not_before or 0
    if due.attempts:
        wait_s = delay_s(policy, due.attempts, BACKOFF_INTERVAL_S_RANGE[0]) or 0.0
        planned_at = max(planned_at, (due.last_attempt_at or 0) + round(wait_s / time_scale * 1000))
    return min(planned_at, due.expires_at)


def probe_delay_s(policy: RetryPolicy, lost_s: float) -> float:
    """Return the seconds until the next attempt at a receiver that accepted nothing for *lost_s* seconds.

    While the receiver accepts nothing, the waits are 1, 2, 4 … seconds, as in the schedule of a single delivery.

    >>> decay = RetryPolicy(Strategy.INDEPENDENT_RETRY, max_retries=176)
    >>> [probe_delay_s(decay, lost_s) for lost_s in (0.0, 1.5, 60.0, 9_000.0)]
    [1.0, 2.5, 61.0, 512.0]
    """
    return min(float(policy.interval_s_max), 1.0 + lost_s)


def after_failure(
    policy: RetryPolicy,
    failures: int,
    *,
    ended_at: int,
    expires_at: int,
    retry_after_s: float | None,
    jitter_s: float,
    time_scale: float,
) -> Disposition:
    """Return the disposition of a delivery whose *failures*-th attempt failed at *ended_at*.

    If no retry is left, the delivery is discarded. If the retry would start at or after *expires_at*, the delivery
    expires. *retry_after_s* is the receiver's Retry-After, or None. It counts only if it ends before *expires_at*.
    *time_scale* divides the service's own delays, but not Retry-After.

    >>> decay = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, max_retries=176)
    >>> def after(failures, expires_at):
    ...     return after_failure(decay, failures, ended_at=1_000, expires_at=expires_at,
    ...                          retry_after_s=None, jitter_s=0.0, time_scale=1.0)
    >>> after(1, 2_001).next_attempt_at, after(1, 2_000).state.value, after(177, 9**9).state.value
    (2000, 'expired', 'discarded')
    """
    wait_s = delay_s(policy, failures, jitter_s)
    if wait_s is None:
        return Disposition(EntryState.DISCARDED)
    wait_s = wait_s / time_scale
    if retry_after_s is not None and ended_at + round(retry_after_s * 1000) < expires_at:
        wait_s = max(wait_s, retry_after_s)
    next_attempt_at = ended_at + max(1, round(wait_s * 1000))
    if next_attempt_at >= expires_at:
        return Disposition(EntryState.EXPIRED)
    return Disposition(EntryState.BLOCKED, next_attempt_at)
