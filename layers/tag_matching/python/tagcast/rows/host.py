"""Rows of hosts with recent timeouts or connection failures: the state of their circuit breakers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from tagcast.ports import Store
from tagcast.rows.codec import Codec, RowPart, named_part, row_format
from tagcast.rows.keys import host_key
from tagcast.subscription_settings import Endpoint, Protocol
from tagcast.tables import ABSENT, Put, Row, Table


@lru_cache(maxsize=4096)
def host_of(endpoint: Endpoint) -> str:
    """Return the unit of failure that endpoints share: scheme, host and port of a URL, or the queue or function.

    >>> host_of(Endpoint(Protocol.HTTPS, "https://Example.com/hook?for=1"))
    'https://example.com'
    """
    if endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
        return f"{endpoint.protocol.value}://{urlsplit(endpoint.target).netloc.lower()}"
    return endpoint.target


@dataclass(frozen=True, slots=True)
class Host:
    """A host that did not answer recently. Its circuit is open while *probe_at* is set.

    *failures* maps subscription ids to the time of the last attempt without an answer. The circuit opened at
    *opened_at* and closed at *closed_at*. The next probe may begin at *probe_at*. During a probe, *probe_at* is the
    end of the probe's claim. *first_probe_at* is the same for lanes that were active until now. The row expires at
    *kept_until*. Every write raises *version*.
    """

    name: str
    version: int
    failures: Mapping[str, int]
    kept_until: int
    opened_at: int | None = None
    closed_at: int | None = None
    probe_at: int | None = None
    first_probe_at: int | None = None

    def is_open(self, now: int) -> bool:
        """Return whether the circuit is open. An open circuit allows one probe at a time."""
        return self.probe_at is not None and now < self.kept_until


HOSTS = row_format(
    host_key,
    Codec(
        Host,
        {
            "name": named_part("host"),
            "failures": RowPart(
                ("failures",),
                lambda failures: ({lane: str(at) for lane, at in failures.items()},),
                lambda row: {lane: int(at) for lane, at in row["failures"].items()},
            ),
            "kept_until": RowPart(("ttl",), lambda until: (until // 1000,), lambda row: row["ttl"] * 1000),
        },
    ),
)


def host_put(known: Host | None, changed: Host) -> Put:
    """Return the write of *changed*, unless the row was written after *known* was read (None if there was no row)."""
    return Put(host_key(changed.name), HOSTS.row_of(changed), {"version": ABSENT if known is None else known.version})


def host_rows(store: Store, *, after: str, limit: int) -> list[Row]:
    """Return rows of hosts that did not answer recently, in order of their keys, beginning at *after*."""
    return store.query(Table.MESSAGES, host_key("").pk, sk_from=after, limit=limit)
