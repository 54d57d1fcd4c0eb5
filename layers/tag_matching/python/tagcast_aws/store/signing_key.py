"""Ed25519 keys that sign pushes: one per subscription, derived from a Secrets Manager secret.

HKDF (RFC 5869) derives the keys with the standard library's HMAC. PyNaCl has no HKDF, and cryptography is three times
its size. PyNaCl is imported when a key is first needed, which most processes never do.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ports import Clock
from tagcast.registry.directory import NEVER_READ, ReadStart

if TYPE_CHECKING:
    from nacl.signing import SigningKey

SIGNING_KEY_KEPT_S = 300.0
"""A process caches the seeds for 5 minutes."""
DERIVED_KEYS_MAX = 4_000
"""The maximum number of subscriptions with cached keys, some 600 bytes each."""
SEED_STAGES = ("AWSCURRENT", "AWSPREVIOUS")
"""The labels of the secret's versions that sign: the current one, and the previous one while it has this label."""
_PURPOSE = b"ed25519 push signature "


class Ed25519Signer:
    """Implements the port ``Signer``. Its seeds are the versions of *name*, a secret of Secrets Manager."""

    def __init__(self, make_client: Callable[[], Any], name: str, clock: Clock) -> None:
        self._client, self._name, self._clock = cache(make_client), name, clock
        self._texts: tuple[str, ...] = ()
        self._keys = SubscriptionKeys(())
        self._read_start = NEVER_READ

    @property
    def is_ready(self) -> bool:
        """Whether the cached seeds are recent enough to sign."""
        return self._read_start.is_recent(self._clock, SIGNING_KEY_KEPT_S)

    def prepare(self) -> None:
        """Read the seeds, unless the cached seeds are recent. Raises UnavailableError if they cannot be read."""
        if self.is_ready:
            return
        start, texts = ReadStart.of(self._clock), self._read()
        if texts != self._texts:
            self._texts, self._keys = texts, SubscriptionKeys(texts)
        self._read_start = start

    def sign(self, subscription_id: str, content: bytes) -> tuple[bytes, ...]:
        """Return one signature of *content* for each key of a subscription. Call :meth:`prepare` before."""
        return tuple(key.sign(content).signature for key in self._keys_of(subscription_id))

    def public_keys(self, subscription_id: str) -> tuple[bytes, ...]:
        """Return the public keys of a subscription, the current one first."""
        self.prepare()
        return tuple(bytes(key.verify_key) for key in self._keys_of(subscription_id))

    def _keys_of(self, subscription_id: str) -> tuple[SigningKey, ...]:
        if self._read_start is NEVER_READ:
            raise UnavailableError("the signing key is not read yet")
        return self._keys.of(subscription_id)

    def _read(self) -> tuple[str, ...]:
        try:
            found = [self._text(stage) for stage in SEED_STAGES]
        except (ClientError, BotoCoreError):
            raise UnavailableError("the signing key cannot be read") from None
        if found[0] is None:
            raise UnavailableError("the signing key is not there")
        return tuple(text for text in found if text is not None)

    def _text(self, stage: str) -> str | None:
        try:
            return str(self._client().get_secret_value(SecretId=self._name, VersionStage=stage)["SecretString"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return None


class SubscriptionKeys:
    """The keys of all subscriptions: one key per subscription and seed."""

    def __init__(self, seeds: Sequence[str]) -> None:
        self._seeds = [hkdf_extract(b"", seed.encode()) for seed in seeds]
        self.of = lru_cache(DERIVED_KEYS_MAX)(self._derive_keys)

    def _derive_keys(self, subscription_id: str) -> tuple[SigningKey, ...]:
        from nacl.signing import SigningKey

        info = _PURPOSE + subscription_id.encode()
        return tuple(SigningKey(hkdf_expand(seed, info, 32)) for seed in self._seeds)


def hkdf_extract(salt: bytes, key: bytes) -> bytes:
    """Return the pseudorandom key of HKDF with SHA-256 (RFC 5869, 2.2). An empty *salt* means zeros."""
    return hmac.digest(salt or bytes(32), key, "sha256")


def hkdf_expand(pseudorandom_key: bytes, info: bytes, length: int) -> bytes:
    """Return *length* octets derived for *info* (RFC 5869, 2.3), at most 8,160."""
    blocks = [b""]
    for number in range(1, -(-length // 32) + 1):
        blocks.append(hmac.digest(pseudorandom_key, blocks[-1] + info + bytes((number,)), "sha256"))
    return b"".join(blocks)[:length]
