"""Secrets encrypted by KMS, as moto plays it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws
from tagcast.errors import UnavailableError
from tagcast_aws.store.vault import PLAIN_BYTES_MAX, KmsVault

from tests.integration.scripted import ScriptedClient, refusal

WHOSE = {"topic": "orders", "subscription": "billing"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("kms", region_name="us-east-1")


@pytest.fixture(scope="module")
def vault(client: Any) -> KmsVault:
    return KmsVault(lambda: client, client.create_key()["KeyMetadata"]["Arn"])


@pytest.mark.parametrize("size", [1, PLAIN_BYTES_MAX, PLAIN_BYTES_MAX + 1, 3 * PLAIN_BYTES_MAX])
def test_what_is_sealed_opens_whatever_its_length_and_does_not_show(vault: KmsVault, size: int) -> None:
    plain = (b"whsec_0123456789" * size)[:size]

    sealed = vault.seal(plain, WHOSE)

    assert vault.open(sealed, WHOSE) == plain
    assert size < 16 or b"whsec_" not in sealed


def test_what_belongs_to_one_subscription_opens_for_no_other(vault: KmsVault) -> None:
    sealed = vault.seal(b"secret", WHOSE)

    with pytest.raises(UnavailableError):
        vault.open(sealed, {**WHOSE, "subscription": "shipping"})


def test_pieces_in_another_order_do_not_open(vault: KmsVault) -> None:
    sealed = vault.seal(b"1" * PLAIN_BYTES_MAX + b"2" * PLAIN_BYTES_MAX, WHOSE)
    half = len(sealed) // 2

    with pytest.raises(UnavailableError):
        vault.open(sealed[half:] + sealed[:half], WHOSE)


@pytest.mark.parametrize(
    ("fault", "word"),
    [(refusal("ThrottlingException"), "ThrottlingException"),
     (EndpointConnectionError(endpoint_url="https://kms.test"), "EndpointConnectionError")],
)  # fmt: skip
def test_a_fault_of_kms_is_told_as_something_that_passes_in_a_word_and_without_the_secret(
    fault: Exception, word: str
) -> None:
    vault = KmsVault(lambda: ScriptedClient([fault, fault]), "key")

    with pytest.raises(UnavailableError, match=f"^secrets cannot be encrypted: {word}$"):
        vault.seal(b"secret", WHOSE)
    with pytest.raises(UnavailableError, match=f"^secrets cannot be decrypted: {word}$"):
        vault.open(b"\0\6sealed", WHOSE)
