"""What the table's adapter makes of conflicts, cancellations, throttling and answers in parts, as botocore has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from tagcast.errors import ConditionLostError, ContendedError, TableThrottledError, UnavailableError
from tagcast.ports import Delete, Key, Put, Table, Update
from tagcast_aws.store.conflicts import CONFLICTS_MAX, VAIN_MAX
from tagcast_aws.store.dynamodb import DynamoStore

ROW = Key(Table.MESSAGES, "MSG#t#1", "MSG")
OTHER = Key(Table.MESSAGES, "MSG#t#2", "MSG")
NAMES = {Table.REGISTRY: "registry", Table.MESSAGES: "messages"}
WRITES: dict[str, Callable[[DynamoStore], object]] = {
    "put_item": lambda store: store.write(Put(ROW, {"n": 1})),
    "update_item": lambda store: store.write(Update(ROW, {"n": 1})),
    "delete_item": lambda store: store.write(Delete(ROW)),
    "transact_write_items": lambda store: store.transact((Put(ROW, {"n": 1}), Delete(OTHER))),
}
CANCELLED = "TransactionCanceledException"
SINGLE = list(WRITES)[:3]
UPDATES = [Update(key, {"n": 1}, expect={"n": 0}) for key in (ROW, OTHER)]


@pytest.fixture
def slept() -> list[float]:
    return []


class ToldTable:
    """A client whose answers are told beforehand, each request and answer checked against the service's model."""

    def __init__(self, slept: list[float]) -> None:
        client = boto3.client("dynamodb", region_name="us-east-1")
        self.stub = Stubber(client)
        self.store = DynamoStore(client, NAMES, slept.append)
        self.asked: list[dict[str, Any]] = []
        client.meta.events.register("provide-client-params.dynamodb", self._note)

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        self.asked.append(dict(params))

    def fails(self, method: str, code: str, *reasons: str) -> None:
        modeled = {"CancellationReasons": [{"Code": reason} for reason in reasons]} if reasons else None
        self.stub.add_client_error(method, code, modeled_fields=modeled)

    def conflicts(self, method: str) -> None:
        if method == "transact_write_items":
            self.fails(method, CANCELLED, "None", "TransactionConflict")
        else:
            self.fails(method, "TransactionConflictException")


@pytest.fixture
def table(slept: list[float]) -> Iterator[ToldTable]:
    table = ToldTable(slept)
    with table.stub:
        yield table
        table.stub.assert_no_pending_responses()


@pytest.mark.parametrize("method", WRITES)
def test_a_conflict_is_tried_again_and_the_last_one_is_no_success(
    table: ToldTable, slept: list[float], method: str
) -> None:
    for _ in range(CONFLICTS_MAX):
        table.conflicts(method)

    with pytest.raises(ContendedError):
        WRITES[method](table.store)

    assert len(slept) == CONFLICTS_MAX - 1
    assert sum(slept) < 0.2


@pytest.mark.parametrize("method", WRITES)
def test_a_write_that_wins_after_conflicts_is_done_once(table: ToldTable, method: str) -> None:
    for _ in range(CONFLICTS_MAX - 1):
        table.conflicts(method)
    table.stub.add_response(method, {})

    WRITES[method](table.store)

    assert len(table.asked) == CONFLICTS_MAX
    assert len({str(asked) for asked in table.asked}) == 1


@pytest.mark.parametrize("method", SINGLE)
def test_a_condition_that_does_not_hold_is_lost_at_once(table: ToldTable, slept: list[float], method: str) -> None:
    table.fails(method, "ConditionalCheckFailedException")

    with pytest.raises(ConditionLostError) as lost:
        WRITES[method](table.store)

    assert not isinstance(lost.value, ContendedError)
    assert slept == []


def test_a_condition_among_the_reasons_of_a_cancellation_is_lost_whatever_stands_beside_it(table: ToldTable) -> None:
    table.fails("transact_write_items", CANCELLED, "TransactionConflict", "ConditionalCheckFailed")

    with pytest.raises(ConditionLostError) as lost:
        WRITES["transact_write_items"](table.store)

    assert not isinstance(lost.value, ContendedError)


THROTTLED = [
    *(
        (method, code)
        for method in SINGLE
        for code in ("ProvisionedThroughputExceededException", "ThrottlingException")
    ),
    *(
        ("transact_write_items", CANCELLED, "None", reason)
        for reason in ("ThrottlingError", "ProvisionedThroughputExceeded")
    ),
]
"""How each write is told that a row is asked for too much."""


@pytest.mark.parametrize("fault", THROTTLED)
def test_a_row_that_is_asked_for_too_much_is_left_to_the_pauses_of_its_writers(
    table: ToldTable, slept: list[float], fault: tuple[str, ...]
) -> None:
    table.fails(*fault)

    with pytest.raises(TableThrottledError):
        WRITES[fault[0]](table.store)

    assert slept == []


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "ThrottlingException"])
def test_many_updates_in_a_request_that_is_throttled_are_each_left_to_their_writer(table: ToldTable, code: str) -> None:
    table.fails("batch_execute_statement", code)

    assert table.store.update_each(UPDATES) == [False, False]


EVERY_WRITE: dict[str, Callable[[DynamoStore], object]] = {
    **WRITES,
    "batch_execute_statement": lambda store: store.update_each(UPDATES),
}
OTHERS = [
    *((method, "InternalServerError") for method in WRITES),
    *(
        ("transact_write_items", CANCELLED, "None", reason)
        for reason in ("ValidationError", "ItemCollectionSizeLimitExceeded")
    ),
    ("batch_execute_statement", "InternalServerError"),
]


@pytest.mark.parametrize("fault", OTHERS)
def test_any_other_error_is_told_as_it_is(table: ToldTable, fault: tuple[str, ...]) -> None:
    method, code, *_ = fault
    table.fails(*fault)

    with pytest.raises(ClientError, match=code):
        EVERY_WRITE[method](table.store)


def unprocessed(*keys: Key) -> dict[str, Any]:
    return {"messages": {"Keys": [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in keys], "ConsistentRead": True}}


def test_keys_that_are_never_processed_end_in_an_error_after_pauses(table: ToldTable, slept: list[float]) -> None:
    for _ in range(VAIN_MAX):
        table.stub.add_response("batch_get_item", {"Responses": {}, "UnprocessedKeys": unprocessed(ROW, OTHER)})

    with pytest.raises(UnavailableError):
        table.store.get_many((ROW, OTHER))

    assert len(slept) == VAIN_MAX - 1
    assert max(slept) <= 2, "seven reads in vain keep a caller for seconds, not for minutes"
