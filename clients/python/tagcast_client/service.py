"""The health of the API."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast_client.operation import Operation, reads


@dataclass(frozen=True, slots=True)
class Health:
    """The health and version of the service."""

    status: str
    version: str


def health() -> Operation[Health]:
    """GET /health."""
    return Operation("GET", "/health", reads(Health))
