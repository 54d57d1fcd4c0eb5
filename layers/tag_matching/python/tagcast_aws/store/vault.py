"""Secrets encrypted with the deployment's KMS key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError

from tagcast_aws.runtime.aws_clients import error_code

PLAIN_BYTES_MAX = 4_096
"""KMS encrypts at most 4 KiB in one request. A longer text is split into numbered pieces."""
LENGTH_BYTES = 2


class KmsVault:
    """Implements the port ``Vault``. The client is created on first use. Nothing is logged."""

    def __init__(self, make_client: Callable[[], Any], key: str) -> None:
        self._make_client = make_client
        self._key = key

    def seal(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        """Return *plain* in encrypted pieces, each preceded by its length. :meth:`open` needs the same *context*."""
        pieces = [plain[start : start + PLAIN_BYTES_MAX] for start in range(0, len(plain), PLAIN_BYTES_MAX)]
        sealed = b""
        for number, piece in enumerate(pieces):
            blob = self._encrypt_piece(piece, _part(context, number, len(pieces)))
            sealed += len(blob).to_bytes(LENGTH_BYTES) + blob
        return sealed

    def open(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        """Return the plaintext of *sealed*. KMS refuses another *context*, and pieces in another order."""
        blobs = tuple(_blobs(sealed))
        parts = (_part(context, number, len(blobs)) for number in range(len(blobs)))
        return b"".join(self._decrypt_piece(blob, part) for blob, part in zip(blobs, parts, strict=True))

    def _encrypt_piece(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        try:
            answer = self._make_client().encrypt(KeyId=self._key, Plaintext=plain, EncryptionContext=context)
        except (ClientError, BotoCoreError) as error:
            raise UnavailableError(f"secrets cannot be encrypted: {error_code(error)}") from None
        return bytes(answer["CiphertextBlob"])

    def _decrypt_piece(self, blob: bytes, context: Mapping[str, str]) -> bytes:
        try:
            answer = self._make_client().decrypt(KeyId=self._key, CiphertextBlob=blob, EncryptionContext=context)
        except (ClientError, BotoCoreError) as error:
            raise UnavailableError(f"secrets cannot be decrypted: {error_code(error)}") from None
        return bytes(answer["Plaintext"])


def _part(context: Mapping[str, str], number: int, count: int) -> dict[str, str]:
    return {**context, "part": f"{number + 1}/{count}"}


def _blobs(sealed: bytes) -> Iterator[bytes]:
    while sealed:
        end = LENGTH_BYTES + int.from_bytes(sealed[:LENGTH_BYTES])
        yield sealed[LENGTH_BYTES:end]
        sealed = sealed[end:]
