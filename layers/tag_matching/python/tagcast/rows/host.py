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
    """Return the name under which endpoints share a circuit.

    For an HTTP endpoint it is the scheme, host and port of the URL; for any other endpoint it is the whole target.

    >>> host_of(Endpoint(Protocol.HTTPS, "https://Example.com/hook?for=1"))
    'https://example.com'
    """
    if endpoint.protocol in (Protocol.HTTP, Protocol.HTTPS):
        return f"{endpoint.protocol.value}://{urlsplit(endpoint.target).netloc.lower()}"
    return endpoint.target


@dataclass(frozen=True, slots=True)
class Host:
    """A host that recently did not respond, with the state of its circuit.

    - *failures* maps subscription ids to the time of the last attempt without a response.
    - *opened_at*, *closed_at*: when the circuit last opened and closed. It is open while *probe_at* is set, until the
      row expires (*kept_until*).
    - *probe_at*: the next probe may begin then. During a probe, *probe_at* is the end of the probe's claim.
    - *first_probe_at*: the same for the separate probe of lanes that have just been blocked.
    - *version*: a counter that every write checks and raises.
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
    """Return the write of *changed*. It fails if the row was written after *known* was read.

    If *known* is None, it fails if the row exists.
    """
    return Put(host_key(changed.name), HOSTS.row_of(changed), {"version": ABSENT if known is None else known.version})


def host_rows(store: Store, *, after: str, limit: int) -> list[Row]:
    """Return at most *limit* rows of hosts that recently did not respond, sorted by key.

    The first row has the sort key *after* or the next higher key.
    """
    return store.query(Table.MESSAGES, host_key("").pk, sk_from=after, limit=limit)
