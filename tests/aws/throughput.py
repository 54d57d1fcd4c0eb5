"""How much a table gives a second: in all, and to each partition key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from local.rules import limits


@dataclass(slots=True)
class Bucket:
    """Units that refill evenly up to those of one second."""

    rate: float
    units: float = 0.0
    at: int = 0

    def __post_init__(self) -> None:
        self.units = self.rate

    def left(self, now: int) -> float:
        """The units there are now."""
        if now > self.at:
            self.units = min(self.rate, self.units + self.rate * (now - self.at) / 1000)
            self.at = now
        return self.units


@dataclass
class Throughput:
    """The buckets of one table or index; what is asked for is refused before it is done, or taken whole."""

    read_rate: float = limits.TABLE_READ_UNITS
    write_rate: float = limits.TABLE_WRITE_UNITS
    key_read_rate: float = limits.KEY_READ_UNITS
    key_write_rate: float = limits.KEY_WRITE_UNITS
    refused: int = 0
    _buckets: dict[Any, Bucket] = field(default_factory=dict)

    def may_write(self, now: int, key: Any, units: float) -> str | None:
        """None if so many units are there for the key, else what is lacking: "Table" or "KeyRange"."""
        buckets, rate = self._buckets, self.write_rate
        whole = buckets.get("write") or self._bucket("write", rate)
        left = whole.left(now)
        if left < units and left < rate:
            self.refused += 1
            return "Table"
        rate = self.key_write_rate
        left = (buckets.get(("write", key)) or self._bucket(("write", key), rate)).left(now)
        if left < units and left < rate:
            self.refused += 1
            return "KeyRange"
        return None

    def write(self, key: Any, units: float) -> None:
        """Take units that `may_write` granted."""
        self._buckets["write"].units -= units
        self._buckets["write", key].units -= units

    def may_read(self, now: int, key: Any) -> str | None:
        """None if any units are left for the key; a read takes what it needs, even more than there was."""
        if self._bucket("read", self.read_rate).left(now) <= 0:
            self.refused += 1
            return "Table"
        if key is not None and self._bucket(("read", key), self.key_read_rate).left(now) <= 0:
            self.refused += 1
            return "KeyRange"
        return None

    def read(self, key: Any, units: float) -> None:
        """Take units."""
        self._buckets["read"].units -= units
        if key is not None:
            self._buckets["read", key].units -= units

    def _bucket(self, name: Any, rate: float) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(rate)
        return found
