"""Stores metrics of topics and subscriptions by minute, for a day, in a file next to the stack's state."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any

MINUTE, KEPT = timedelta(minutes=1), timedelta(days=1)
ROWS_MAX = 500_000
"""The maximum number of minutes in the file: 300 series of a day, about 50 MB. Above it the oldest are deleted."""
DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
TABLES = """
CREATE TABLE IF NOT EXISTS minutes (
  api TEXT, topic TEXT, subscription TEXT, at INTEGER, published INTEGER, delivered INTEGER, failed INTEGER,
  p95_ms REAL, backlog INTEGER, PRIMARY KEY (api, topic, subscription, at)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_time ON minutes (at);
CREATE TABLE IF NOT EXISTS looks (api TEXT, topic TEXT, at INTEGER, PRIMARY KEY (api, topic)) WITHOUT ROWID;
"""


class ChartError(Exception):
    """Metrics cannot be read or stored. The message is the reason."""


@dataclass
class Minute:
    """The metrics of a topic or a subscription in the minute that begins at *at*. A value of None is unknown.

    *latencies* are the times from acceptance to delivery, in milliseconds. Where they are missing, *p95_ms* may be
    known. A topic's *backlog* is its number of retained messages.
    """

    at: datetime
    published: int | None = None
    delivered: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)
    p95_ms: float | None = None
    backlog: int | None = None

    @property
    def p95_latency_ms(self) -> float | None:
        """The 95th percentile of the latency; None if unknown."""
        if self.p95_ms is not None or not self.latencies:
            return self.p95_ms
        return quantiles(self.latencies, n=20)[-1] if len(self.latencies) > 1 else self.latencies[0]


class MinuteFile:
    """The stored minutes of one API's topics. The first write creates the file. The methods raise ChartError."""

    def __init__(self, path: Path, api: str) -> None:
        self._path, self._api = path, api
        self._opened: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    @contextmanager
    def _rows(self) -> Iterator[sqlite3.Connection]:
        """Open the file. If it is damaged, for instance by a power failure, delete it, because its loss is small."""
        try:
            if self._opened is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._opened = sqlite3.connect(self._path, isolation_level=None)
                self._opened.executescript("PRAGMA synchronous = OFF;" + TABLES)
            yield self._opened
        except OSError as fault:
            raise ChartError(f"{self._path} cannot be opened: {fault.strerror}") from fault
        except sqlite3.Error as fault:
            self.close()
            if fault.sqlite_errorcode & 0xFF not in DAMAGES:
                raise ChartError(f"{self._path} cannot be used: {fault}") from fault
            for name in (self._path.name, f"{self._path.name}-journal"):
                self._path.with_name(name).unlink(missing_ok=True)
            raise ChartError(f"{self._path} was damaged and is deleted: sampling starts again") from fault

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._rows() as rows:
            return rows.execute(statement, values).fetchall()

    def keep(self, topic: str, subscription: str, minutes: Iterable[Minute]) -> None:
        """Store minutes of a subscription, or of the topic if *subscription* is empty. They replace stored values."""
        who = (self._api, topic, subscription)
        values = [
            (*who, _second(m.at), m.published, m.delivered, m.failed, m.p95_latency_ms, m.backlog) for m in minutes
        ]  # fmt: skip
        with self._rows() as rows:
            rows.executemany("INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def minutes(self, topic: str, subscription: str, since: datetime) -> list[Minute]:
        """Return the minutes of a subscription that begin after *since*, oldest first.

        An empty *subscription* means the topic itself.
        """
        found = self._run(
            "SELECT at, published, delivered, failed, p95_ms, backlog FROM minutes "
            "WHERE api = ? AND topic = ? AND subscription = ? AND at > ? ORDER BY at",
            (self._api, topic, subscription, _second(since)),
        )
        return [
            Minute(datetime.fromtimestamp(at, UTC), published, delivered, failed, p95_ms=p95_ms, backlog=backlog)
            for at, published, delivered, failed, p95_ms, backlog in found
        ]

    def published_at(self, topic: str) -> datetime | None:
        """Return the last minute in which a topic got a message; None if unknown."""
        [(at,)] = self._run(
            "SELECT max(at) FROM minutes WHERE api = ? AND topic = ? AND subscription = '' AND published > 0",
            (self._api, topic),
        )
        return None if at is None else datetime.fromtimestamp(at, UTC)

    def record_view(self, topic: str, at: datetime) -> None:
        """Record that a page showed a topic at the instant *at*."""
        self._run("INSERT OR REPLACE INTO looks VALUES (?, ?, ?)", (self._api, topic, _second(at)))

    def viewed_topics(self, since: datetime, most: int) -> list[str]:
        """Return at most *most* topics that pages showed after *since*, the most recently shown first."""
        found = self._run(
            "SELECT topic FROM looks WHERE api = ? AND at > ? ORDER BY at DESC, topic LIMIT ?",
            (self._api, _second(since), most),
        )
        return [topic for (topic,) in found]

    def forget(self, topic: str) -> None:
        """Delete all stored data of a deleted topic."""
        for table in ("minutes", "looks"):
            self._run(f"DELETE FROM {table} WHERE api = ? AND topic = ?", (self._api, topic))

    def forget_before(self, topic: str, at: datetime) -> None:
        """Delete a topic's minutes before *at*. They belong to an earlier, deleted topic of the same name."""
        self._run("DELETE FROM minutes WHERE api = ? AND topic = ? AND at < ?", (self._api, topic, _second(at)))

    def shrink(self, now: datetime, rows_max: int = ROWS_MAX) -> None:
        """Delete minutes older than a day. If more than *rows_max* remain, also delete the oldest ones."""
        self._run("DELETE FROM minutes WHERE at < ?", (_second(now - KEPT),))
        self._run("DELETE FROM looks WHERE at < ?", (_second(now - KEPT),))
        [(count,)] = self._run("SELECT count(*) FROM minutes")
        if count > rows_max:
            self._run(
                "DELETE FROM minutes WHERE at <= (SELECT at FROM minutes ORDER BY at LIMIT 1 OFFSET ?)",
                (count - rows_max - 1,),
            )

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _second(at: datetime) -> int:
    return int(at.timestamp())
