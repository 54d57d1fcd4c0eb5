"""KMS: symmetric keys; what they seal opens with the same key and the same encryption context only."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.aws import limits
from tests.aws.attributes import invalid
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError

_TAG, _SALT = 16, 12


@dataclass
class SealingKey:
    """One key; it never leaves the service."""

    key_id: str
    arn: str
    secret: bytes
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
        secret = hashlib.sha256(f"key {key_id}".encode()).digest()
        if alias is not None:
            self.aliases[alias] = key_id
        self.keys[key_id] = SealingKey(key_id, arn, secret)
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
        blob = self._seal(key, plain, _context(call))
        return {"KeyId": key.arn, "CiphertextBlob": blob, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}

    def decrypt(self, call: Call) -> dict[str, Any]:
        """Decrypt."""
        key = self._of_blob(call)
        if "KeyId" in call.parameters and self._key(call["KeyId"]) is not key:
            raise ApiError("IncorrectKeyException", "The key ID in the request does not identify a CMK that can ...")
        self._usable(key.key_id)
        _, salt, tag, sealed = _parts(call["CiphertextBlob"])
        plain = _masked(key, salt, sealed)
        if not hmac.compare_digest(tag, _tag(key, salt, plain, _context(call))):
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
        key_id = _parts(call["CiphertextBlob"])[0]
        if key_id not in self.keys:
            raise ApiError("InvalidCiphertextException")
        return self.keys[key_id]

    def _seal(self, key: SealingKey, plain: bytes, context: bytes) -> bytes:
        salt = self.box.chance.randbytes(_SALT)
        name = key.key_id.encode()
        return bytes([len(name)]) + name + salt + _tag(key, salt, plain, context) + _masked(key, salt, plain)


def _context(call: Call) -> bytes:
    given: Mapping[str, str] = call.parameters.get("EncryptionContext", {})
    return json.dumps(given, sort_keys=True).encode()


def _parts(blob: bytes) -> tuple[str, bytes, bytes, bytes]:
    """The key's id, the salt, the tag and the sealed text of a blob."""
    end = 1 + (blob[0] if blob else 0)
    if len(blob) < end + _SALT + _TAG:
        raise ApiError("InvalidCiphertextException")
    key_id = blob[1:end].decode(errors="replace")
    return key_id, blob[end : end + _SALT], blob[end + _SALT : end + _SALT + _TAG], blob[end + _SALT + _TAG :]


def _tag(key: SealingKey, salt: bytes, plain: bytes, context: bytes) -> bytes:
    return hmac.digest(key.secret, salt + context + b"\0" + plain, "sha256")[:_TAG]


def _masked(key: SealingKey, salt: bytes, text: bytes) -> bytes:
    mask = hashlib.shake_256(key.secret + salt).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, mask, strict=True))
