"""Rows of hosts that gave no answer lately: whose attempts that were, and until when only one of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tagcast.ports import Store
from tagcast.rows.keys import host_key
from tagcast.rows.values import dense, number, optional_number, text
from tagcast.tables import ABSENT, Put, Row, Table, Value


@dataclass(frozen=True, slots=True)
class Host:
    """A host that gave no answer lately; its circuit is open while *probe_at* is set.

    *failures* says, by subscription ids, when an attempt last got no answer. The circuit opened at *opened_at* and
    closed at *closed_at*, if it did. The next probe may begin at *probe_at*: while one is under way, that is when its
    claim ends. From *kept_until* on nothing of this counts any more. *version* is raised by every write.
    """

    name: str
    version: int
    failures: Mapping[str, int]
    kept_until: int
    opened_at: int | None = None
    closed_at: int | None = None
    probe_at: int | None = None

    def is_open(self, now: int) -> bool:
        """Say whether attempts at this host are one probe at a time."""
        return self.probe_at is not None and now < self.kept_until


def host_of_row(row: Row) -> Host:
    """Return the host in a row."""
    failures = cast("Mapping[str, str]", row["failures"])
    return Host(
        name=text(row, "host"),
        version=number(row, "version"),
        failures={lane: int(at) for lane, at in failures.items()},
        kept_until=number(row, "ttl") * 1000,
        opened_at=optional_number(row, "opened_at"),
        closed_at=optional_number(row, "closed_at"),
        probe_at=optional_number(row, "probe_at"),
    )


def host_put(known: Host | None, changed: Host) -> Put:
    """Return the write of *changed*, unless anybody wrote the row since *known* was read (None: there was none)."""
    row: dict[str, Value] = {
        "host": changed.name,
        "version": changed.version,
        "failures": {lane: str(at) for lane, at in changed.failures.items()},
        "opened_at": changed.opened_at,
        "closed_at": changed.closed_at,
        "probe_at": changed.probe_at,
        "ttl": changed.kept_until // 1000,
    }
    return Put(host_key(changed.name), dense(row), {"version": ABSENT if known is None else known.version})


def read_host(store: Store, name: str) -> Host | None:
    """Return what is known of a host that gave no answer lately."""
    row = store.get(host_key(name))
    return None if row is None else host_of_row(row)


def host_rows(store: Store, *, after: str, limit: int) -> list[Row]:
    """Return the rows of hosts that gave no answer lately, in order of their keys, from that of *after* on."""
    return store.query(Table.MESSAGES, host_key("").pk, sk_from=after, limit=limit)
