"""What the table's adapter makes of conflicts, cancellations, throttling and answers in parts, as botocore has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tagcast.errors import ConditionLostError, ContendedError, TableThrottledError, UnavailableError
from tagcast.ports import Delete, Key, Put, Table, Update
from tagcast_aws.store.conflicts import CONFLICTS_MAX, NO_PROGRESS_MAX
from tagcast_aws.store.dynamodb import DynamoStore

from tests.integration.scripted import refusal
from tests.integration.test_dynamodb_requests import store

ROW = Key(Table.MESSAGES, "MSG#t#1", "MSG")
OTHER = Key(Table.MESSAGES, "MSG#t#2", "MSG")
WRITES: dict[str, Callable[[DynamoStore], object]] = {
    "put_item": lambda store: store.write(Put(ROW, {"n": 1})),
    "update_item": lambda store: store.write(Update(ROW, {"n": 1})),
    "delete_item": lambda store: store.write(Delete(ROW)),
    "transact_write_items": lambda store: store.transact((Put(ROW, {"n": 1}), Delete(OTHER))),
}
CANCELLED = "TransactionCanceledException"
SINGLE = list(WRITES)[:3]
UPDATES = [Update(key, {"n": 1}, expect={"n": 0}) for key in (ROW, OTHER)]


def cancelled(*reasons: str) -> ClientError:
    return refusal(CANCELLED, CancellationReasons=[{"Code": reason} for reason in reasons])


def conflict(method: str) -> ClientError:
    if method == "transact_write_items":
        return cancelled("None", "TransactionConflict")
    return refusal("TransactionConflictException")


@pytest.mark.parametrize("method", WRITES)
def test_a_conflict_is_tried_again_and_the_last_one_is_no_success(method: str) -> None:
    slept = list[float]()
    dynamo, client = store(*[conflict(method)] * CONFLICTS_MAX, sleep=slept.append)

    with pytest.raises(ContendedError):
        WRITES[method](dynamo)

    assert client.operations == [method] * CONFLICTS_MAX
    assert len(slept) == CONFLICTS_MAX - 1
    assert sum(slept) < 0.2


@pytest.mark.parametrize("method", WRITES)
def test_a_write_that_wins_after_conflicts_is_done_once(method: str) -> None:
    dynamo, client = store(*[conflict(method)] * (CONFLICTS_MAX - 1), {})

    WRITES[method](dynamo)

    assert client.asked == client.asked[:1] * CONFLICTS_MAX


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        *((method, refusal("ConditionalCheckFailedException")) for method in SINGLE),
        ("transact_write_items", cancelled("TransactionConflict", "ConditionalCheckFailed")),
    ],
)
def test_a_condition_that_does_not_hold_is_lost_at_once_whatever_stands_beside_it(
    method: str, fault: ClientError
) -> None:
    dynamo, client = store(fault)

    with pytest.raises(ConditionLostError) as lost:
        WRITES[method](dynamo)

    assert not isinstance(lost.value, ContendedError)
    assert client.operations == [method]


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        *(
            (method, refusal(code))
            for method in SINGLE
            for code in ("ProvisionedThroughputExceededException", "ThrottlingException")
        ),
        *(
            ("transact_write_items", cancelled("None", reason))
            for reason in ("ThrottlingError", "ProvisionedThroughputExceeded")
        ),
    ],
)
def test_a_row_that_is_asked_for_too_much_is_left_to_the_pauses_of_its_writers(method: str, fault: ClientError) -> None:
    dynamo, client = store(fault)

    with pytest.raises(TableThrottledError):
        WRITES[method](dynamo)

    assert client.operations == [method]


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "ThrottlingException"])
def test_many_updates_in_a_request_that_is_throttled_are_each_left_to_their_writer(code: str) -> None:
    assert store(refusal(code))[0].update_each(UPDATES) == [False, False]


@pytest.mark.parametrize(
    ("write", "fault", "code"),
    [
        *((write, refusal("InternalServerError"), "InternalServerError") for write in WRITES.values()),
        *(
            (WRITES["transact_write_items"], cancelled("None", reason), CANCELLED)
            for reason in ("ValidationError", "ItemCollectionSizeLimitExceeded")
        ),
        (lambda store: store.update_each(UPDATES), refusal("InternalServerError"), "InternalServerError"),
    ],
)
def test_any_other_error_is_told_as_it_is(
    write: Callable[[DynamoStore], object], fault: ClientError, code: str
) -> None:
    with pytest.raises(ClientError, match=code):
        write(store(fault)[0])


def test_keys_that_are_never_processed_end_in_an_error_after_pauses() -> None:
    keys = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in (ROW, OTHER)]
    left: dict[str, Any] = {"Messages": {"Keys": keys, "ConsistentRead": True}}
    slept = list[float]()
    dynamo, _ = store(*[{"Responses": {}, "UnprocessedKeys": left}] * NO_PROGRESS_MAX, sleep=slept.append)

    with pytest.raises(UnavailableError):
        dynamo.get_many((ROW, OTHER))

    assert len(slept) == NO_PROGRESS_MAX - 1
    assert max(slept) <= 2, "seven reads in vain keep a caller for seconds, not for minutes"
