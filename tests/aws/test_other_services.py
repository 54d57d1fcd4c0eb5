"""Firehose and KMS: what they keep, and what they refuse."""

from __future__ import annotations

from typing import Any

from tests.aws import limits
from tests.aws.firehose import RECORDS, REQUESTS
from tests.aws.small_account import SmallAccount, code_of, scripted

# Firehose.


def batch(account: SmallAccount, *sizes: int, stream: str = "delivery") -> dict[str, Any]:
    records = [{"Data": bytes(size)} for size in sizes]
    answer: dict[str, Any] = account.client("firehose").put_record_batch(DeliveryStreamName=stream, Records=records)
    return answer


def test_a_batch_of_records_is_taken_in_part() -> None:
    account = SmallAccount(scripted(entries=[1]))
    answer = batch(account, 1, 2, 3)
    assert answer["FailedPutCount"] == 1
    codes = [each.get("ErrorCode") for each in answer["RequestResponses"]]
    assert codes == [None, "ServiceUnavailableException", None]
    assert [len(record) for record in account.delivery] == [1, 3]


def test_a_stream_takes_its_records_and_its_requests_a_second(account: SmallAccount) -> None:
    account.box.quotas.grant(RECORDS, 3)
    assert batch(account, 1, 1, 1, 1)["FailedPutCount"] == 1

    account.box.quotas.grant(REQUESTS, 0)
    assert code_of(lambda: batch(account, 1)) == "ServiceUnavailableException"


def test_records_and_batches_have_their_sizes(account: SmallAccount) -> None:
    largest = limits.FIREHOSE_RECORD_BYTES_MAX
    batch(account, largest, largest, largest, largest, limits.FIREHOSE_BATCH_BYTES_MAX - 4 * largest)
    over = limits.FIREHOSE_BATCH_BYTES_MAX - 4 * largest + 1
    assert code_of(lambda: batch(account, largest + 1)) == "InvalidArgumentException"
    assert code_of(lambda: batch(account, largest, largest, largest, largest, over)) == "InvalidArgumentException"
    batch(account, *[1] * 500)
    assert code_of(lambda: batch(account, *[1] * 501)) == "ValidationException"
    assert code_of(lambda: batch(account, 1, stream="other")) == "ResourceNotFoundException"


# KMS.


def test_what_is_encrypted_opens_with_its_key_and_its_context_alone(account: SmallAccount) -> None:
    client = account.client("kms")
    context = {"EncryptionContext": {"topic": "orders"}}
    sealed = client.encrypt(KeyId="alias/main", Plaintext=b"secret", **context)
    blob = sealed["CiphertextBlob"]
    assert b"secret" not in blob
    assert sealed["KeyId"] == account.key.arn
    assert client.decrypt(CiphertextBlob=blob, **context)["Plaintext"] == b"secret"
    assert code_of(lambda: client.decrypt(CiphertextBlob=blob)) == "InvalidCiphertextException"
    changed = bytes([*blob[:-1], blob[-1] ^ 1])
    assert code_of(lambda: client.decrypt(CiphertextBlob=changed, **context)) == "InvalidCiphertextException"
    assert code_of(lambda: client.decrypt(CiphertextBlob=b"x", **context)) == "InvalidCiphertextException"
    account.kms.create("key-2")
    wrong = {"CiphertextBlob": blob, "KeyId": "key-2", **context}
    assert code_of(lambda: client.decrypt(**wrong)) == "IncorrectKeyException"


def test_kms_refuses_what_is_too_large_and_keys_that_are_not_there_or_disabled(account: SmallAccount) -> None:
    client = account.client("kms")
    client.encrypt(KeyId="key-1", Plaintext=bytes(limits.KMS_PLAINTEXT_BYTES_MAX))
    large = {"KeyId": "key-1", "Plaintext": bytes(limits.KMS_PLAINTEXT_BYTES_MAX + 1)}
    assert code_of(lambda: client.encrypt(**large)) == "ValidationException"
    assert code_of(lambda: client.encrypt(KeyId="alias/other", Plaintext=b"x")) == "NotFoundException"
    account.key.enabled = False
    assert code_of(lambda: client.encrypt(KeyId="key-1", Plaintext=b"x")) == "DisabledException"
