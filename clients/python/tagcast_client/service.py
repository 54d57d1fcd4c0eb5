"""What the API says of itself: that it answers, and the public keys by which its own signatures verify."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast_client.decoding import decode
from tagcast_client.operation import Answer, Operation, reads


@dataclass(frozen=True, slots=True)
class Health:
    """That the service answers."""

    status: str
    version: str


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of the service; a `Receiver` takes the text *public_key* in the place of a secret."""

    algorithm: str
    public_key: str


def health() -> Operation[Health]:
    """GET /health."""
    return Operation("GET", "/health", reads(Health))


def list_keys() -> Operation[tuple[PublicKey, ...]]:
    """GET /keys."""

    def read(answer: Answer) -> tuple[PublicKey, ...]:
        return tuple(decode(PublicKey, each) for each in answer.json.get("keys", ()))

    return Operation("GET", "/keys", read)
