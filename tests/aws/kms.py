"""KMS: symmetric keys; what they seal opens with the same key and the same encryption context only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.aws import limits
from tests.aws.attributes import invalid
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError

NAME_BYTES = 12
"""The part of a blob that says which it is; the rest is as long as its content."""


@dataclass
class SealingKey:
    """One key, and what it sealed: the content and its context, by the blob that stands for them."""

    key_id: str
    arn: str
    sealed: dict[bytes, tuple[bytes, Mapping[str, str]]] = field(default_factory=dict)
    enabled: bool = True


class KMS(Service):
    """All keys, by id; aliases name them."""

    name = "kms"
    failed = ("KMSInternalException", 500)

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.keys: dict[str, SealingKey] = {}
        self.aliases: dict[str, str] = {}

    def create(self, key_id: str, alias: str | None = None) -> SealingKey:
        """Make a key, and an alias (`alias/…`) of it."""
        arn = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{key_id}"
        if alias is not None:
            self.aliases[alias] = key_id
        self.keys[key_id] = SealingKey(key_id, arn)
        return self.keys[key_id]

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        key = self._of_blob(call) if call.operation == "Decrypt" else self._key(call["KeyId"])
        yield f"kms:{call.operation}", key.arn

    def encrypt(self, call: Call) -> dict[str, Any]:
        """Encrypt."""
        plain = bytes(call["Plaintext"])
        if not 1 <= len(plain) <= limits.KMS_PLAINTEXT_BYTES_MAX:
            raise invalid("Value at 'plaintext' failed to satisfy constraint: length between 1 and 4096")
        key = self._usable(call["KeyId"])
        blob = self.box.chance.randbytes(NAME_BYTES) + bytes(len(plain))
        key.sealed[blob] = plain, _context(call)
        return {"KeyId": key.arn, "CiphertextBlob": blob, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}

    def decrypt(self, call: Call) -> dict[str, Any]:
        """Decrypt."""
        key = self._of_blob(call)
        if "KeyId" in call.parameters and self._key(call["KeyId"]) is not key:
            raise ApiError("IncorrectKeyException", "The key ID in the request does not identify a CMK that can ...")
        self._usable(key.key_id)
        plain, context = key.sealed[bytes(call["CiphertextBlob"])]
        if context != _context(call):
            raise ApiError("InvalidCiphertextException")
        return {"KeyId": key.arn, "Plaintext": plain, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}

    def _key(self, named: str) -> SealingKey:
        short = named.split(":", 5)[-1].removeprefix("key/")
        found = self.keys.get(self.aliases.get(short, short))
        if found is None:
            raise ApiError("NotFoundException", f"Key '{named}' does not exist")
        return found

    def _usable(self, named: str) -> SealingKey:
        key = self._key(named)
        if not key.enabled:
            raise ApiError("DisabledException", f"{key.arn} is disabled.")
        return key

    def _of_blob(self, call: Call) -> SealingKey:
        blob = bytes(call["CiphertextBlob"])
        for key in self.keys.values():
            if blob in key.sealed:
                return key
        raise ApiError("InvalidCiphertextException")


def _context(call: Call) -> Mapping[str, str]:
    given: Mapping[str, str] = call.parameters.get("EncryptionContext", {})
    return given
