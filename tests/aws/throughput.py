"""How much a table gives a second: in all, and to each partition key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.aws import limits
from tests.aws.faults import ApiError


@dataclass(slots=True)
class Bucket:
    """Units that refill evenly up to those of *burst_s* seconds."""

    rate: float
    units: float = 0.0
    at: int = 0
    burst_s: float = 1.0
    taken: float = 0.0

    def __post_init__(self) -> None:
        self.units = self.most

    @property
    def most(self) -> float:
        """So many units it holds."""
        return self.rate * self.burst_s

    def left(self, now: int) -> float:
        """The units there are now."""
        if now > self.at:
            self.units = min(self.most, self.units + self.rate * (now - self.at) / 1000)
            self.at = now
        return self.units

    def take(self, units: float) -> None:
        """Take units, even more than there are."""
        self.units -= units
        self.taken += units


@dataclass
class Throughput:
    """The buckets of one table or index; what is asked for is refused before it is done, or taken whole."""

    read_rate: float = limits.TABLE_READ_UNITS
    write_rate: float = limits.TABLE_WRITE_UNITS
    key_read_rate: float = limits.KEY_READ_UNITS
    key_write_rate: float = limits.KEY_WRITE_UNITS
    burst_s: float = 1.0
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that were refused, by what there was too little of."""
    units_read: float = 0.0
    units_written: float = 0.0
    _buckets: dict[Any, Bucket] = field(default_factory=dict)

    def may_write(self, now: int, key: Any, units: float) -> str | None:
        """None if so many units are there for the key, else what is lacking: "Table" or "KeyRange"."""
        buckets, rate = self._buckets, self.write_rate
        whole = buckets.get("write") or self._bucket("write", rate)
        left = whole.left(now)
        if left < units and left < whole.most:
            self.refused[_name("write")] += 1
            return "Table"
        rate = self.key_write_rate
        single = buckets.get(("write", key)) or self._bucket(("write", key), rate)
        left = single.left(now)
        if left < units and left < single.most:
            self.refused[_name(("write", key))] += 1
            return "KeyRange"
        return None

    def write(self, key: Any, units: float) -> None:
        """Take units that `may_write` granted."""
        self.units_written += units
        self._buckets["write"].take(units)
        self._buckets["write", key].take(units)

    def may_read(self, now: int, key: Any) -> str | None:
        """None if any units are left for the key; a read takes what it needs, even more than there was."""
        if self._bucket("read", self.read_rate).left(now) <= 0:
            self.refused[_name("read")] += 1
            return "Table"
        if key is not None and self._bucket(("read", key), self.key_read_rate).left(now) <= 0:
            self.refused[_name(("read", key))] += 1
            return "KeyRange"
        return None

    def read(self, key: Any, units: float) -> None:
        """Take units."""
        self.units_read += units
        self._buckets["read"].take(units)
        if key is not None:
            self._buckets["read", key].take(units)

    def forget(self) -> None:
        """Begin to count anew."""
        self.refused.clear()
        for bucket in self._buckets.values():
            bucket.taken = 0.0

    def taken_s(self) -> dict[str, float]:
        """Return for table and keys how many seconds it takes them to give what was taken of them."""
        return {_name(about): bucket.taken / bucket.rate for about, bucket in self._buckets.items() if bucket.taken}

    def _bucket(self, name: Any, rate: float) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(rate, burst_s=self.burst_s)
        return found


def _name(about: Any) -> str:
    kind, what = about if isinstance(about, tuple) else (about, "the table")
    return f"{kind}s of {what}"


def throttled(what: str, scope: str, how: str, arn: str) -> ApiError:
    """A key range that is too hot is told in the words of provisioned tables, a whole table on demand in its own."""
    hot = scope == "KeyRange"
    reason = f"{what}{how}{'KeyRangeThroughputExceeded' if hot else 'AccountLimitExceeded'}"
    return ApiError(
        "ProvisionedThroughputExceededException" if hot else "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index.",
        {"ThrottlingReasons": [{"reason": reason, "resource": arn}]},
    )
