"""What an account gives a second, by quota and by whose it is: calls beyond it are refused before they do anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from tests.aws.limits import LARGE_REGION, QUOTAS, THROUGHPUT, QuotaPlace
from tests.aws.throughput import Bucket

Share = tuple[str, str, float]
"""A quota, whose it is, and how much of it a call takes."""


class Quotas:
    """The buckets of one account in one region."""

    def __init__(self, now: Callable[[], int], place: QuotaPlace = LARGE_REGION) -> None:
        self.place = place
        self.refused: Counter[tuple[str, str]] = Counter()
        """Calls that were refused, by the quota and by whose it is."""
        self.burst_s_max = math.inf
        """So many seconds' worth of a quota are there at once, at most."""
        self._now = now
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._granted: dict[str, float] = {}

    def grant(self, name: str, rate: float) -> None:
        """Let the account have so much of a quota from now on, as an owner may ask for."""
        self._granted[name] = rate
        self._buckets = {each: bucket for each, bucket in self._buckets.items() if each[0] != name}

    def take(self, *shares: Share) -> bool:
        """Take all of *shares*, or nothing and say no."""
        now = self._now()
        for name, whose, amount in shares:
            bucket = self._bucket(name, whose)
            left = bucket.left(now)
            if left < amount and (left < bucket.most or not bucket.rate):
                self.refused[name, whose] += 1
                return False
        for name, whose, amount in shares:
            self._bucket(name, whose).take(amount)
        return True

    def taken_s(self) -> dict[str, float]:
        """Return by quota the seconds in which it refills what its heaviest user took."""
        found: dict[str, float] = {}
        for (name, _), bucket in self._buckets.items():
            if bucket.taken:
                found[name] = max(found.get(name, 0.0), bucket.taken / bucket.rate)
        return found

    def forget(self) -> None:
        """Begin to count anew."""
        self.refused.clear()
        for bucket in self._buckets.values():
            bucket.taken = 0.0

    def _bucket(self, name: str, whose: str) -> Bucket:
        found = self._buckets.get((name, whose))
        if found is None:
            quota, rate = QUOTAS[name], self._granted.get(name)
            if rate is None:
                rate = quota.rate(self.place)
                found = Bucket(rate, burst_s=min(self.burst_s_max, quota.burst(self.place) / rate))
            else:
                found = Bucket(rate, burst_s=min(self.burst_s_max, 1.0))
            self._buckets[name, whose] = found
        return found


def shares_of(action: str, resource: str) -> Iterable[Share]:
    """Return what one call takes of the quotas that are an account's or a bucket's, by the action and what it is for.

    An action without a row in the table of limits is an error at its first call.

    >>> list(shares_of("s3:GetObject", "arn:aws:s3:::kept/a/b"))
    [('s3: reads', 'kept', 1.0)]
    """
    names = THROUGHPUT[action]
    for name in () if isinstance(names, str) else names:
        whose = QUOTAS[name].whose
        if whose == "account":
            yield name, "", 1.0
        elif whose == "bucket":
            yield name, resource.removeprefix("arn:aws:s3:::").partition("/")[0], 1.0
