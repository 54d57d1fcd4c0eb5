"""The private names of the engine that we rely on: these tests fail loudly when a new version moves them."""

import asyncio
import copy
import inspect
import itertools
import json
import re
import time
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ministack import app
from ministack.core import persistence, responses
from ministack.core.responses import AccountRegionScopedDict
from ministack.services import dynamodb, dynamodb_streams, eventbridge, firehose, lambda_svc, s3, sqs, stepfunctions

from local.engine import persistent_objects, queues
from local.engine.engine_process import Executions, disable_history, drop_written_records
from local.engine.persistent_queues import HELD, KEPT
from local.engine.persistent_tables import BESIDE_TABLES
from local.engine.speedups import OF_A_TEXT, RANGE, dumps, install_json, install_tables, loads
from local.rules.needs import Account, needs_of
from local.rules.permissions import Need


def test_functions_are_executed_through_the_name_that_we_replace() -> None:
    assert list(inspect.signature(lambda_svc._execute_function_warm).parameters) == ["func", "event", "request_id"]
    assert "_execute_function_warm(func, event, request_id)" in inspect.getsource(lambda_svc._execute_function_dispatch)
    assert inspect.getsource(lambda_svc).count("_emit_lambda_logs(") - len(("its definition",)) == 1


def test_the_state_can_be_saved_at_any_time() -> None:
    assert not inspect.signature(app._build_persistence_save_dict).parameters
    assert list(inspect.signature(persistence._state_format_version).parameters) == ["service"]


def test_items_are_written_by_the_functions_that_the_journal_stands_before() -> None:
    source = inspect.getsource(dynamodb)
    for name, parameters in (
        ("_set_item", ["table", "pk_val", "sk_val", "item"]),
        ("_remove_item", ["table", "pk_val", "sk_val"]),
        ("_items_replaced", ["table"]),
        ("_emit_stream_event", ["table_name", "event_name", "old_item", "new_item", "replicate"]),
        ("_build_change_record", ["table", "event_name", "old_item", "new_item", "view_type"]),
    ):
        assert list(inspect.signature(getattr(dynamodb, name)).parameters) == parameters
    swapped = source.count('["items"] = defaultdict(') - len(("when it starts", "a replica, which is written to"))
    assert source.count("_items_replaced(") - len(("its definition",)) == swapped
    assert source.count("_stream_records[table_name].append(") == 1


def test_the_state_of_tables_and_queues_has_the_parts_that_are_kept() -> None:
    assert set(dynamodb.get_state()) == {"tables", *BESIDE_TABLES}
    assert set(sqs.get_state()) == {"queues", "queue_name_to_url"}
    assert {"executions", "map_runs", "state_machines"} <= set(stepfunctions.get_state())
    source = inspect.getsource(sqs._act_create_queue)
    assert [name for name in KEPT if f'"{name}": ' in source] == list(KEPT)
    source = inspect.getsource(sqs._collect_fifo)
    assert set(re.findall(r'm\["(\w+)"\] (?:\+)?= ', source)) == set(HELD)


def test_messages_move_by_the_functions_that_the_journal_stands_before() -> None:
    assert list(inspect.signature(sqs._collect_msgs).parameters) == ["q", "max_n", "vis_timeout"]
    assert "_dlq_sweep(q)" in inspect.getsource(sqs._act_receive_message)
    assert "_act_send_message(sub, url)" in inspect.getsource(sqs._act_send_message_batch)
    changing = {name for name, action in sqs._HANDLERS.items() if '["messages"]' in inspect.getsource(action)}
    assert changing == {
        "SendMessage", "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch", "PurgeQueue",
    }  # fmt: skip


def test_requests_are_served_on_the_event_loop_so_that_a_copy_made_there_is_consistent() -> None:
    for service in (dynamodb, sqs):
        assert "to_thread" not in inspect.getsource(service.handle_request)
    assert "_MAIN_LOOP = asyncio.get_running_loop()" in inspect.getsource(app)
    assert "to_thread(_reset_all_state)" in inspect.getsource(app)
    assert inspect.getsource(app).count("to_thread(") == 1


def test_an_execution_is_a_thread_of_the_function_that_we_count() -> None:
    assert list(inspect.signature(stepfunctions._run_execution).parameters) == ["exec_arn"]
    assert "args=(_run_execution, exec_arn)" in inspect.getsource(stepfunctions._start_execution)


def test_an_execution_enters_every_state_through_the_name_that_we_bound() -> None:
    assert list(inspect.signature(stepfunctions._add_event).parameters) == ["execution", "event_type", "details"]
    source = inspect.getsource(stepfunctions._run_execution)
    assert source.index("_ExecutionError") > source.index("    try:")
    assert '_add_event(execution, f"{state_type}StateEntered", {' in source


def test_firehose_reaches_its_bucket_through_the_name_that_we_guard() -> None:
    assert list(inspect.signature(firehose._put_s3_object).parameters) == ["bucket", "key", "body"]
    assert inspect.getsource(firehose._deliver_to_s3).count("_put_s3_object(bucket, ") == 2


def test_objects_are_written_by_the_functions_that_we_stand_before_and_at_once() -> None:
    assert list(inspect.signature(s3._atomic_write).parameters) == ["fpath", "data", "text"]
    assert inspect.getsource(s3).count("os.O_CREAT") == 1, "another function writes files of objects"
    put = s3.handle_request("PUT", "/seam", {"host": "s3.localhost"}, b"", {}, internal=True)
    with pytest.raises(StopIteration) as ended:
        put.send(None)
    assert ended.value.value[0] == 200
    s3._buckets.clear()


def test_the_bodies_of_all_versions_are_in_files_and_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("S3_PERSIST", True), ("DATA_DIR", str(tmp_path))):
        monkeypatch.setattr(s3, name, value)
    for name in ("os", "_atomic_write", "_version_entry_from_record"):
        monkeypatch.setattr(s3, name, getattr(s3, name))
    persistent_objects.install(s3)

    def call(method: str, path: str, body: bytes = b"", **query: str) -> tuple[int, dict[str, str], Any]:
        given = {name: [value] for name, value in query.items()}
        answer: tuple[int, dict[str, str], Any] = asyncio.run(
            s3.handle_request(method, path, {"host": "s3.localhost"}, body, given, internal=True)
        )
        return answer

    call("PUT", "/kept")
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    call("PUT", "/kept", enabled, versioning="")
    first, second = (call("PUT", "/kept/key", body)[1]["x-amz-version-id"] for body in (b"1", b"2"))

    assert [call("GET", "/kept/key", versionId=each)[2] for each in (first, second)] == [b"1", b"2"]
    assert [each["data"] for versions in s3._object_versions.values() for each in versions] == [None, None]
    call("DELETE", "/kept/key", versionId=second)
    assert call("GET", "/kept/key")[2] == b"1"
    call("DELETE", "/kept/key", versionId=first)
    call("DELETE", "/kept")


def test_an_event_is_delivered_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventbridge, "_events_log_list", eventbridge._events_log_list)
    monkeypatch.setattr(lambda_svc, "_emit_lambda_logs", lambda_svc._emit_lambda_logs)
    disable_history(lambda_svc, eventbridge)
    told = eventbridge._put_events({"Entries": [{"Source": "s", "DetailType": "d", "Detail": "{}"}]})
    assert json.loads(told[2])["FailedEntryCount"] == 0
    assert not eventbridge._events_log.has_any()


def test_the_last_ended_executions_are_kept_and_no_others() -> None:
    executions = {name: {"status": "RUNNING"} for name in "abcd"}
    run = Executions(executions, kept=2).count_run(lambda name: executions[name].update(status="SUCCEEDED"))
    for name in "bac":
        run(name)
    assert executions == {"a": {"status": "SUCCEEDED"}, "c": {"status": "SUCCEEDED"}, "d": {"status": "RUNNING"}}


def test_firehose_keeps_a_record_until_it_is_delivered_and_no_longer() -> None:
    for put in (firehose._put_record, firehose._put_record_batch):
        source = inspect.getsource(put)
        assert source.index('dest["records"].append(') < source.index(
            "_deliver_records_to_s3(stream, dest, [(record_id"
        )
    delivered: list[object] = []
    destination: dict[str, object] = {"records": [{"id": "1"}]}
    drop_written_records(lambda stream, to, records: delivered.append((stream, list(to["records"]), records)))(
        {"name": "s"}, destination, ["r"]
    )
    assert (delivered, destination) == ([({"name": "s"}, [{"id": "1"}], ["r"])], {"records": []})


def test_requests_are_served_by_the_application_that_we_stand_before() -> None:
    assert list(inspect.signature(app.app).parameters) == ["scope", "receive", "send"]
    assert 'await send({"type": "lifespan.startup.complete"})' in inspect.getsource(app._handle_lifespan)


def test_an_iterator_tells_which_stream_it_reads() -> None:
    stream = "arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/1"
    iterator = dynamodb_streams._encode_iterator("t", "shard", 0, stream_arn=stream)
    account = Account("123456789012", "us-east-1")
    assert needs_of(account, "dynamodbstreams", "GetRecords", {"ShardIterator": iterator}) == [
        Need("dynamodb:GetRecords", stream)
    ]
    assert "stream_arn=stream_arn" in inspect.getsource(dynamodb_streams._get_shard_iterator)
    assert "stream_arn=stream_arn" in inspect.getsource(dynamodb_streams._get_records)


def test_queues_wait_and_wake_through_the_names_that_we_replace() -> None:
    assert {"ReceiveMessage", *queues.WAKERS} <= set(sqs._HANDLERS)
    assert "_HANDLERS.get(action)" in inspect.getsource(sqs._dispatch)
    assert "result = fn(data, qurl)" in inspect.getsource(sqs._dispatch)


def test_the_engine_uses_json_by_the_name_that_we_replace() -> None:
    for module in (responses, dynamodb, dynamodb_streams, sqs, firehose):
        assert module.json is json
        used = set(re.findall(r"(?<![\w.])json\.([A-Za-z]\w*)", inspect.getsource(module)))
        assert used & {"dumps", "loads"}
    made = ModuleType("made")
    install_json(made)
    assert (made.json.dumps, made.json.loads, made.json.dump) == (dumps, loads, json.dump)


@pytest.mark.parametrize("value", [{"a": [1, 0.5, None, "é😀\n"]}, {1: "x"}, 1 << 70, "\ud800", {"b": b"x", "a": ()}])
def test_json_is_written_and_read_as_by_python(value: object) -> None:
    text = dumps(value, default=str, separators=(",", ":"))
    assert json.loads(text) == json.loads(json.dumps(value, default=str))
    for told in (text, text.encode("utf-8")):
        assert loads(told) == json.loads(text)


def test_what_is_no_json_is_refused_as_by_python() -> None:
    with pytest.raises(json.JSONDecodeError, match="Expecting property name"):
        loads(b"{x")


def test_ids_of_deduplication_are_forgotten_as_the_engine_forgets_them() -> None:
    assert "_prune_dedup(q)" in inspect.getsource(sqs._act_send_message)
    assert '"expire": now + _DEDUP_WINDOW_S' in inspect.getsource(sqs._act_send_message)
    now = time.time()
    for ends_in_s in ((), (-9, -1), (-9, 60, 61), (60, 300)):
        ours = {"dedup_cache": {str(place): {"expire": now + each} for place, each in enumerate(ends_in_s)}}
        theirs = copy.deepcopy(ours)
        queues.forget_the_expired(ours)
        sqs._prune_dedup(theirs)
        assert ours == theirs


def received_from(queue: str, *bodies: str) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    """What asks for all messages of a new queue, what it got, and the handlers that are ours."""
    made = ModuleType("made")
    vars(made).update(vars(sqs), _HANDLERS=dict(sqs._HANDLERS))
    queues.refuse_returned(made)
    url = sqs._HANDLERS["CreateQueue"]({"QueueName": queue}, "")["QueueUrl"]
    for body in bodies:
        sqs._HANDLERS["SendMessage"]({"QueueUrl": url, "MessageBody": body}, "")
    asked = {"QueueUrl": url, "MaxNumberOfMessages": len(bodies)}
    return asked, asyncio.run(sqs._HANDLERS["ReceiveMessage"](asked, ""))["Messages"], made._HANDLERS


def test_what_was_given_back_cannot_be_hidden_any_more() -> None:
    asked, [taken], handlers = received_from("given-back", "x")
    request = {"QueueUrl": asked["QueueUrl"], "ReceiptHandle": taken["ReceiptHandle"]}
    for seconds in (9, 0):
        handlers["ChangeMessageVisibility"]({**request, "VisibilityTimeout": seconds}, "")
    with pytest.raises(sqs._Err, match="isn't in flight"):
        handlers["ChangeMessageVisibility"]({**request, "VisibilityTimeout": 5}, "")


def test_what_was_given_back_cannot_be_hidden_any_more_in_a_batch() -> None:
    asked, taken, handlers = received_from("given-back-together", "a", "b")
    handles = [each["ReceiptHandle"] for each in taken]

    def hide(*seconds: int) -> tuple[list[str], list[str]]:
        timed = zip(handles, seconds, strict=False)
        entries = [{"Id": handle, "ReceiptHandle": handle, "VisibilityTimeout": each} for handle, each in timed]
        answer = handlers["ChangeMessageVisibilityBatch"]({"QueueUrl": asked["QueueUrl"], "Entries": entries}, "")
        return [each["Id"] for each in answer["Successful"]], [each["Id"] for each in answer["Failed"]]

    assert hide(0, 9) == (handles, [])
    assert hide(5, 5) == (handles[1:], handles[:1])
    assert hide(5) == ([], handles[:1])
    [again] = asyncio.run(sqs._HANDLERS["ReceiveMessage"](asked, ""))["Messages"]
    assert again["Body"] == taken[0]["Body"]


TEXTS = (
    "0",
    "-0",
    "+7",
    "1700000000000",
    "0.50",
    "1e3",
    "12e-200",
    "9" * 39,
    "",
    " 5",
    "x",
    "a = :b AND NOT #c[1].d <> :e",
)
FEW = {"FilterExpression": "sk > :n"}
NO_TEXTS = (None, 7, ["1"], {"N": "1"})


@pytest.fixture(scope="module")
def quicker() -> ModuleType:
    """The engine's service of tables, made quicker without touching the real one."""
    made = ModuleType("made")
    vars(made).update(vars(dynamodb))
    install_tables(made)
    return made


@pytest.mark.parametrize("name", OF_A_TEXT)
def test_what_is_remembered_of_a_text_is_what_the_engine_finds(quicker: ModuleType, name: str) -> None:
    for each in (*TEXTS, *TEXTS, *NO_TEXTS):
        assert getattr(quicker, name)(each) == getattr(dynamodb, name)(each)


def test_expressions_are_remembered_as_the_engine_reads_them_and_nobody_shares_the_tokens(quicker: ModuleType) -> None:
    for expression in (*TEXTS, "a = ", "(a = :b)"):
        for _ in range(2):
            tokens = quicker._tokenize(expression)
            assert tokens == dynamodb._tokenize(expression)
            tokens.clear()
            for slot in ("ConditionExpression", "FilterExpression"):
                found = dynamodb._condition_syntax_error(expression, slot)
                assert quicker._condition_syntax_error(expression, slot) == found
    assert "_tokenize(expr)" in inspect.getsource(dynamodb._evaluate_condition)
    assert "_condition_syntax_error(expr, slot)" in inspect.getsource(dynamodb._evaluate_condition)


def test_a_query_that_reads_only_its_page_answers_as_the_engine_does(quicker: ModuleType) -> None:
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("pk", "HASH"), ("sk", "RANGE"))]
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    made = {
        "TableName": "rows",
        "KeySchema": keys,
        "AttributeDefinitions": attributes,
        "BillingMode": "PAY_PER_REQUEST",
    }
    assert dynamodb._create_table(made)[0] == 200
    table = dynamodb._tables["rows"]
    for pk, count, size in (("p", 40, 1), ("q", 5, 1), ("big", 9, 300_000)):
        for sk in map("{:02}".format, range(count)):
            dynamodb._set_item(table, pk, sk, {"pk": {"S": pk}, "sk": {"S": sk}, "n": {"S": "x" * size}})

    for pk, low, high, limit, after, selection in itertools.product(
        ("p", "big", "none"), ("\x00", "07", "5"), ("\x7f", "1", "08"), (None, 1, 3, 100), (None, "07", "39"), ({}, FEW)
    ):
        values = {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}}
        request: dict[str, Any] = {"TableName": "rows", "KeyConditionExpression": RANGE, **selection}
        request["ExpressionAttributeValues"] = values | ({":n": {"S": "7"}} if selection else {})
        if limit is not None:
            request["Limit"] = limit
        if after is not None and low <= after <= high:
            request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": after}}
        assert quicker._query(dict(request)) == dynamodb._query(dict(request)), request
    assert not inspect.iscoroutinefunction(dynamodb._query)
    assert '"Query": _query' in inspect.getsource(dynamodb.handle_request)
    dynamodb._delete_table({"TableName": "rows"})


def test_the_engine_copies_items_through_the_name_that_we_replace_and_as_deeply(quicker: ModuleType) -> None:
    assert "copy.deepcopy(existing)" in inspect.getsource(dynamodb._update_item)
    assert "copy.deepcopy(" in inspect.getsource(dynamodb.get_state)
    rows: defaultdict[str, dict[str, object]] = defaultdict(dict, {"pk": {"sk": {"a": {"L": [{"B": b"x"}]}}}})
    scoped = AccountRegionScopedDict()
    scoped["t"] = {"items": rows, "label": ("x", 1, None)}
    copied = quicker.copy.deepcopy({"tables": scoped, "items": rows})
    assert copied["tables"]["t"] == {"items": rows, "label": ("x", 1, None)}
    assert copied["items"]["new"] == {}
    copied["items"]["pk"]["sk"]["a"]["L"].append(1)
    copied["tables"]["t"]["items"]["pk"]["sk"]["a"]["L"].append(1)
    assert rows == {"pk": {"sk": {"a": {"L": [{"B": b"x"}]}}}}
