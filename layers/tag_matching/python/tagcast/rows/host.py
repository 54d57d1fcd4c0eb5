"""Rows of hosts that gave no answer lately: whose attempts that were, and until when only one of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.ports import Store
from tagcast.rows.declaration import Attribute, Declaration, attribute
from tagcast.rows.keys import host_key
from tagcast.tables import ABSENT, Put, Row, Table


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


HOSTS = Declaration(
    Host,
    (Table.MESSAGES, "HOSTS", "hash of the host"),
    "a host that gave no answer lately: to which lanes, and whether its circuit is open (`probe_at`)",
    "an hour after its last write",
    "fan_out, retry",
    name=attribute(named="host"),
    failures=Attribute(
        "instants by lane",
        "{{lane: str(at) for lane, at in {}.items()}}",
        lambda failures: {lane: int(at) for lane, at in failures.items()},
    ),
    kept_until=Attribute("seconds", "{} // 1000", lambda seconds: seconds * 1000, name="ttl"),
)


def host_put(known: Host | None, changed: Host) -> Put:
    """Return the write of *changed*, unless anybody wrote the row since *known* was read (None: there was none)."""
    return Put(host_key(changed.name), HOSTS.row_of(changed), {"version": ABSENT if known is None else known.version})


def read_host(store: Store, name: str) -> Host | None:
    """Return what is known of a host that gave no answer lately."""
    row = store.get(host_key(name))
    return None if row is None else HOSTS.value_of(row)


def host_rows(store: Store, *, after: str, limit: int) -> list[Row]:
    """Return the rows of hosts that gave no answer lately, in order of their keys, from that of *after* on."""
    return store.query(Table.MESSAGES, host_key("").pk, sk_from=after, limit=limit)
