"""Rows of hosts that recently did not respond. Each row has the state of one host's circuit breaker."""

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
    """Return the host of an endpoint: scheme, host and port of its URL, or the target of any other endpoint.

    Endpoints with the same host share a circuit.

    >>> host_of(Endpoint(Protocol.HTTPS, "https://Example.com/hook?for=1"))
    'https://example.com'
    """
    if endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
        return f"{endpoint.protocol.value}://{urlsplit(endpoint.target).netloc.lower()}"
    return endpoint.target


@dataclass(frozen=True, slots=True)
class Host:
    """A host that recently did not respond, with the state of its circuit.

    *failures* maps subscription ids to the time of the last attempt without a response. The circuit last opened at
    *opened_at* and closed at *closed_at*. It is open while *probe_at* is set and the row has not expired
    (*kept_until*). The next probe may begin at *probe_at*. During a probe, *probe_at* is the end of the probe's claim.
    Lanes that were active until now have a probe of their own; its time is *first_probe_at*. Every write raises
    *version*.
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
        """Return whether the circuit is open at *now*, so that only probes are pushed to the host."""
        return self.probe_at is not None and now < self.kept_until


HOSTS = row_format(
    host_key,
    Codec(
        Host,
        {
            "name": named_part("host"),
            "failures": RowPart(
                lambda failures: {"failures": {lane: str(at) for lane, at in failures.items()}},
                lambda row: {lane: int(at) for lane, at in row["failures"].items()},
            ),
            "kept_until": RowPart(lambda until: {"ttl": until // 1000}, lambda row: row["ttl"] * 1000),
        },
    ),
)


def host_put(known: Host | None, changed: Host) -> Put:
    """Return the write of *changed*. It fails if the row was written after *known* was read (None: if it exists)."""
    return Put(host_key(changed.name), HOSTS.row_of(changed), {"version": ABSENT if known is None else known.version})


def host_rows(store: Store, *, after: str, limit: int) -> list[Row]:
    """Return at most *limit* rows of hosts that recently did not respond, sorted by key, from the key *after* on."""
    return store.query(Table.MESSAGES, host_key("").pk, sk_from=after, limit=limit)
