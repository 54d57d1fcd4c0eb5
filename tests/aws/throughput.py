"""How much a table gives a second: in all, and to each partition key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from local.rules import limits


@dataclass(slots=True)
class Bucket:
    """Units that refill evenly up to those of *burst_s* seconds."""

    rate: float
    units: float = 0.0
    at: int = 0
    burst_s: float = 1.0

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
            self.refused["writes of the table"] += 1
            return "Table"
        rate = self.key_write_rate
        single = buckets.get(("write", key)) or self._bucket(("write", key), rate)
        left = single.left(now)
        if left < units and left < single.most:
            self.refused[f"writes of {key}"] += 1
            return "KeyRange"
        return None

    def write(self, key: Any, units: float) -> None:
        """Take units that `may_write` granted."""
        self.units_written += units
        self._buckets["write"].units -= units
        self._buckets["write", key].units -= units

    def may_read(self, now: int, key: Any) -> str | None:
        """None if any units are left for the key; a read takes what it needs, even more than there was."""
        if self._bucket("read", self.read_rate).left(now) <= 0:
            self.refused["reads of the table"] += 1
            return "Table"
        if key is not None and self._bucket(("read", key), self.key_read_rate).left(now) <= 0:
            self.refused[f"reads of {key}"] += 1
            return "KeyRange"
        return None

    def read(self, key: Any, units: float) -> None:
        """Take units."""
        self.units_read += units
        self._buckets["read"].units -= units
        if key is not None:
            self._buckets["read", key].units -= units

    def _bucket(self, name: Any, rate: float) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(rate, burst_s=self.burst_s)
        return found
