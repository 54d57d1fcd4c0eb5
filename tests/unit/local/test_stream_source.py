import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.engine.checksums import read_position, store_position
from local.engine.engine_calls import EngineCallError
from local.functions.worker import Invocation
from local.sources.stream_source import StreamRules, StreamSource

DONE = Invocation(b'{"batchItemFailures": []}')
CRASH = Invocation(b'{"errorType": "Boom"}', failed=True)


class Stream:
    """A stream with the given records, read once."""

    def __init__(self, *keys: str) -> None:
        self.records: list[dict[str, Any]] = [
            {
                "eventID": key, "eventName": "INSERT", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
                "awsRegion": "us-east-1",
                "dynamodb": {
                    "SequenceNumber": str(n), "ApproximateCreationDateTime": 100.0,
                    "Keys": {"pk": {"S": key}}, "NewImage": {"body": {"B": "aGk="}},
                },
            }
            for n, key in enumerate(keys)
        ]  # fmt: skip

    def call(self, operation: str, _: dict[str, Any]) -> dict[str, Any]:
        if operation == "DescribeStream":
            return {"StreamDescription": {"Shards": [{"ShardId": "0"}]}}
        if operation == "GetShardIterator":
            return {"ShardIterator": "i"}
        records, self.records = self.records, []
        return {"Records": records, "NextShardIterator": "i"}


def source_of(call: Callable[..., dict[str, Any]], **how: Any) -> StreamSource:
    """A source whose function takes all that it gets."""
    return StreamSource(call, "arn:s", "f", lambda *_: DONE, how.pop("rules", StreamRules()), lambda _: None, **how)


def run(stream: Stream, rules: StreamRules, answer: Callable[[list[str]], Invocation]) -> tuple[list[Any], list[Any]]:
    batches: list[list[str]] = []
    given_up: list[dict[str, Any]] = []

    def invoke(_: str, payload: bytes) -> Invocation:
        keys = [record["dynamodb"]["Keys"]["pk"]["S"] for record in json.loads(payload)["Records"]]
        batches.append(keys)
        return answer(keys)

    StreamSource(
        stream.call, "arn:s", "relay", invoke, rules, given_up.append, clock=lambda: 150.0, sleep=lambda _: None
    ).step()
    return batches, given_up


def test_only_records_that_match_a_filter_are_handed_over() -> None:
    rules = StreamRules(filters=[{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "MSG#"}]}}}}])
    assert run(Stream("MSG#1", "DUE#1", "MSG#2"), rules, lambda _: DONE) == ([["MSG#1", "MSG#2"]], [])


def test_a_batch_that_moves_on_has_all_its_attempts_again() -> None:
    refusals = [Invocation(b'{"batchItemFailures": [{"itemIdentifier": "%d"}]}' % number) for number in (2, 1)]
    batches, given_up = run(
        Stream("a", "b", "c"), StreamRules(attempts_max=1), lambda _: refusals.pop() if refusals else DONE
    )
    assert (batches, given_up) == ([["a", "b", "c"], ["b", "c"], ["c"]], [])


def test_a_stream_is_read_on_behind_its_last_record_when_its_iterator_is_gone() -> None:
    stream, opened = Stream("a", "b"), list[tuple[str, str | None]]()

    def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetShardIterator":
            opened.append((request["ShardIteratorType"], request.get("SequenceNumber")))
        answer = stream.call(operation, request)
        answer.pop("NextShardIterator", None)
        return answer

    source = source_of(call)
    source.step()
    source.step()
    assert opened == [("TRIM_HORIZON", None), ("AFTER_SEQUENCE_NUMBER", "1")]


def test_a_stream_is_read_on_after_its_iterator_expired() -> None:
    stream, opened = Stream("a"), list[str]()

    def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetRecords" and len(opened) == 1 and not stream.records:
            raise EngineCallError("GetRecords", "ExpiredIteratorException")
        if operation == "GetShardIterator":
            opened.append(request["ShardIteratorType"])
        return stream.call(operation, request)

    source = source_of(call)
    source.step()
    with pytest.raises(EngineCallError):
        source.step()
    stream.records = Stream("a", "b").records[1:]
    source.step()

    assert opened == ["TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"]
    assert stream.records == []


def test_a_later_process_reads_on_where_the_one_before_was(tmp_path: Path) -> None:
    stream, position = Stream("a", "b"), tmp_path / "f.s"
    source_of(stream.call, position=position)
    assert position.read_text() == ""
    source_of(stream.call, position=position).step()
    assert read_position(position) == "1"
    opened: list[Any] = []

    def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        opened.append(request.get("SequenceNumber"))
        return stream.call(operation, request)

    source_of(call, position=position).step()
    assert opened[1] == "1"


def test_what_is_left_when_the_stack_stops_comes_again(tmp_path: Path) -> None:
    position, refusals = tmp_path / "f.s", [Invocation(b'{"batchItemFailures": [{"itemIdentifier": "0"}]}')]
    source = source_of(Stream("a", "b").call, position=position, sleep=lambda _: None, stopped=lambda: not refusals)
    source.invoke = lambda *_: refusals.pop()
    source.step()
    assert position.read_text() == ""


def test_a_reader_whose_last_record_is_forgotten_reads_what_is_left(tmp_path: Path) -> None:
    stream, seen = Stream("a", "b"), list[bytes]()
    store_position(tmp_path / "f.s", "gone")

    def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("SequenceNumber") == "gone":
            raise EngineCallError("TrimmedDataAccessException")
        return stream.call(operation, request)

    def invoke(_: str, payload: bytes) -> Invocation:
        seen.append(payload)
        return DONE

    source = source_of(call, position=tmp_path / "f.s")
    source.invoke = invoke
    source.step()
    assert len(json.loads(seen[0])["Records"]) == 2


def test_bisection_isolates_the_poison_and_the_rest_goes_on() -> None:
    rules = StreamRules(bisect=True, attempts_max=4)
    batches, given_up = run(Stream("a", "poison", "c", "d"), rules, lambda keys: CRASH if "poison" in keys else DONE)
    assert batches[-1] == ["c", "d"]
    assert ["a"] in batches
    assert [each["DDBStreamBatchInfo"]["startSequenceNumber"] for each in given_up] == ["1"]
    assert given_up[0]["DDBStreamBatchInfo"]["batchSize"] == 1


def test_binary_attributes_travel_as_base64_whether_they_are_read_or_told_again() -> None:
    seen: list[bytes] = []

    def invoke(_: str, payload: bytes) -> Invocation:
        seen.append(payload)
        return DONE

    def lanes() -> list[dict[str, Any]]:
        return [{"pk": {"S": "p"}, "sk": {"S": "s"}, "body": {"B": b"hi"}}]

    arn = "arn:aws:dynamodb:r:1:s"
    source = StreamSource(Stream("a").call, arn, "relay", invoke, StreamRules(), lambda _: None, first=lanes)
    source.step()
    source.step()
    for payload in seen:
        assert json.loads(payload)["Records"][0]["dynamodb"]["NewImage"]["body"] == {"B": "aGk="}
    assert len(seen) == 2


def test_little_waits_for_company_and_nothing_is_left_when_the_stack_stops() -> None:
    def go_on(records: int, *, urgent: bool = False, window_s: float = 0.0) -> bool:
        stream = Stream(*map(str, range(records)))
        return source_of(stream.call, rules=StreamRules(window_s=window_s), urgent=lambda: urgent).step()

    assert (go_on(1), go_on(200), go_on(200, window_s=5.0)) == (False, True, False)
    assert (go_on(1, urgent=True), go_on(1, urgent=True, window_s=5.0), go_on(0, urgent=True)) == (True, True, False)


def test_after_records_are_given_up_the_next_ones_have_all_their_attempts() -> None:
    batches, given_up = run(Stream("a", "b"), StreamRules(bisect=True, attempts_max=1), lambda _: CRASH)
    assert batches == [["a", "b"], ["a"], ["b"], ["b"]]
    assert [each["DDBStreamBatchInfo"]["startSequenceNumber"] for each in given_up] == ["0", "1"]
    assert [each["requestContext"]["approximateInvokeCount"] for each in given_up] == [2, 2]


def test_a_filter_may_ask_that_something_is_there_or_is_not() -> None:
    for is_there, expected in ((True, [["a", "b"]]), (False, [])):
        rules = StreamRules(filters=[{"dynamodb": {"NewImage": {"body": {"B": [{"exists": is_there}]}}}}])
        assert run(Stream("a", "b"), rules, lambda _: DONE)[0] == expected
        rules = StreamRules(filters=[{"dynamodb": {"OldImage": {"body": {"B": [{"exists": not is_there}]}}}}])
        assert run(Stream("a", "b"), rules, lambda _: DONE)[0] == expected


def test_a_batch_is_too_old_when_its_first_record_is() -> None:
    stream = Stream("a", "b")
    stream.records[1]["dynamodb"]["ApproximateCreationDateTime"] = 149.0
    batches, given_up = run(stream, StreamRules(age_max_s=10), lambda _: CRASH)
    assert (len(batches), given_up[0]["requestContext"]["condition"]) == (1, "RecordAgeExceeded")
    assert given_up[0]["DDBStreamBatchInfo"]["batchSize"] == 2
