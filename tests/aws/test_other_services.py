"""Firehose: what it keeps, and what it refuses."""

from __future__ import annotations

from typing import Any

from tests.aws import limits
from tests.aws.firehose import RECORDS, REQUESTS
from tests.aws.small_account import SmallAccount, code_of, scripted


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
