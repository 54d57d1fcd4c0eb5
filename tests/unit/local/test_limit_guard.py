"""What the guard refuses for its size: each limit holds at its edge, and is AWS's."""

import base64
import json
from typing import Any

import pytest
from ministack.services import stepfunctions

from local.engine.aws_request import Call
from local.engine.engine_process import EVENTS_KEPT, bound_history
from local.engine.permission_guard import cut, too_large
from tests.aws import limits

RECORD = limits.FIREHOSE_RECORD_BYTES_MAX


def records(*sizes: int) -> Call:
    encoded = [{"Data": base64.b64encode(b"x" * size).decode()} for size in sizes]
    return Call("firehose", "PutRecordBatch", {"Records": encoded})


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        (Call("stepfunctions", "StartExecution", {"input": "x" * limits.EXECUTION_INPUT_BYTES_MAX}), True),
        (Call("stepfunctions", "StartExecution", {"input": "ü" * (limits.EXECUTION_INPUT_BYTES_MAX // 2 + 1)}), False),
        (records(RECORD), True),
        (records(RECORD + 1), False),
        (records(*[1] * 500), True),
        (records(*[1] * 501), False),
        (records(RECORD, RECORD, RECORD, RECORD, 4 * 24 * 1024), True),
        (records(RECORD, RECORD, RECORD, RECORD, 4 * 24 * 1024 + 1), False),
    ],
)
def test_a_call_is_refused_from_the_first_byte_over_the_limit(call: Call, fits: bool) -> None:
    assert (too_large(call, 0) is None) is fits


@pytest.mark.parametrize(
    ("size", "is_async", "fits"),
    [(6 * 2**20, False, True), (6 * 2**20 + 1, False, False), (2**20, True, True), (2**20 + 1, True, False)],
)
def test_an_event_of_a_function_is_bounded(size: int, is_async: bool, fits: bool) -> None:
    assert (too_large(Call("lambda", "Invoke"), size, is_async) is None) is fits


def test_a_batch_of_rows_ends_at_16_mb_and_names_the_keys_of_the_rest() -> None:
    rows = [{"pk": {"S": str(n)}, "sk": {"S": "-"}, "body": {"S": "x" * 300_000}} for n in range(100)]
    request: dict[str, Any] = {
        "T": {"Keys": [{"pk": row["pk"], "sk": row["sk"]} for row in rows], "ConsistentRead": True}
    }

    answer = json.loads(cut(json.dumps({"Responses": {"T": rows}, "UnprocessedKeys": {}}).encode(), request))

    got, left = answer["Responses"]["T"], answer["UnprocessedKeys"]["T"]
    assert len(json.dumps(got)) < limits.BATCH_GET_BYTES_MAX < len(json.dumps(got)) + 300_100
    assert left["ConsistentRead"] is True
    assert [row["pk"] for row in got] + [key["pk"] for key in left["Keys"]] == [row["pk"] for row in rows]


def test_an_execution_enters_no_state_when_its_history_is_full() -> None:
    add = bound_history(stepfunctions._add_event, RuntimeError)
    execution: dict[str, Any] = {"events": [{"id": limits.EXECUTION_EVENTS_MAX - 1}]}
    add(execution, "TaskStateEntered")
    add(execution, "TaskStateExited")
    with pytest.raises(RuntimeError, match="25000 events"):
        add(execution, "WaitStateEntered")


def test_only_the_last_events_of_a_history_are_kept_with_their_numbers() -> None:
    add = bound_history(stepfunctions._add_event, RuntimeError)
    execution: dict[str, Any] = {"events": []}
    for _ in range(EVENTS_KEPT + 7):
        add(execution, "WaitStateExited")
    assert [event["id"] for event in execution["events"]] == list(range(8, EVENTS_KEPT + 8))
