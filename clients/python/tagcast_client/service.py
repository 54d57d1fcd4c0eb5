"""What the API says of itself: that it answers."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast_client.operation import Operation, reads


@dataclass(frozen=True, slots=True)
class Health:
    """That the service answers."""

    status: str
    version: str


def health() -> Operation[Health]:
    """GET /health."""
    return Operation("GET", "/health", reads(Health))
