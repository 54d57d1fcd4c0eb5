"""Hosts that do not respond: their values, and the operation that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tagcast_client.operation import Operation, Page, listing


@dataclass(frozen=True, slots=True)
class Host:
    """A host that did not respond in the last hour. An open circuit allows one probe at a time."""

    host: str
    circuit: str
    last_failed_at: datetime | None
    opened_at: datetime | None
    closed_at: datetime | None
    next_probe_at: datetime | None


def list_hosts(limit: int | None, cursor: str | None) -> Operation[Page[Host]]:
    """GET /hosts."""
    return listing(Host, "hosts", "/hosts", {"limit": limit, "cursor": cursor})
