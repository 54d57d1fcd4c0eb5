"""What the engine keeps of its tables, queues and other services, and how it comes back: against its own services."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ministack.services import dynamodb, sqs

from local.engine import persistent_tables
from local.engine.aws_request import Request
from local.engine.checksums import DamageError, store_position
from local.engine.journal import Journal
from local.engine.packed_rows import PackedRows
from local.engine.persistent_services import PersistentServices
from local.engine.persistent_state import PersistentState, write_before_answer
from local.functions.plain_server import Response

CHANGED = ("_set_item", "_remove_item", "_emit_stream_event", "_items_replaced")
CHANGED_OF_QUEUES = ("_act_send_message", "_collect_msgs", "_dlq_sweep", "_HANDLERS")


class KeptHere(PersistentState):
    """Both services of this process, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "positions").mkdir(exist_ok=True)
        super().__init__(folder / "state", folder / "positions")

    def renew(self) -> None:
        asyncio.run(self.journal.renew(self.state))

    def come_back(self) -> KeptHere:
        """Be killed: what is there then is of another process, which knows the tables and queues and what was kept."""
        self.journal.write()
        structures = copy.deepcopy((self.tables.structure(), self.queues.structure()))
        reset()
        for service, structure in zip((dynamodb, sqs), structures, strict=True):
            service.load_persisted_state(structure)
        again = KeptHere(self.folder)
        again.restore()
        return again


SHIPPED = {
    (module, name): getattr(module, name)
    for module, names in ((dynamodb, CHANGED), (sqs, CHANGED_OF_QUEUES))
    for name in names
}
HANDLERS = dict(sqs._HANDLERS)


def reset() -> None:
    for (module, name), value in SHIPPED.items():
        setattr(module, name, value)
    sqs._HANDLERS.clear()
    sqs._HANDLERS.update(HANDLERS)
    dynamodb.reset()
    sqs.reset()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptHere]:
    reset()
    began = KeptHere(tmp_path)
    began.restore()
    yield began
    reset()


def call(service: ModuleType, operation: str, **request: Any) -> dict[str, Any]:
    prefix = {dynamodb: "DynamoDB_20120810", sqs: "AmazonSQS"}[service]
    headers = {"x-amz-target": f"{prefix}.{operation}", "content-type": "application/x-amz-json-1.0"}
    status, _, body = asyncio.run(service.handle_request("POST", "/", headers, json.dumps(request).encode(), {}))
    assert status == 200, body
    found: dict[str, Any] = json.loads(body or b"{}")
    return found


def make_table(name: str = "Things") -> None:
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    call(
        dynamodb, "CreateTable", TableName=name, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key, _ in keys],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )  # fmt: skip


def seen() -> tuple[Any, ...]:
    """All that a caller could learn of tables, streams and queues."""
    tables = {key: (dict(table["items"]), table["ItemCount"]) for key, table in dynamodb._tables.all_items()}
    records = {place: list(each) for place, each in dynamodb._stream_records.all_items() if each}
    names = ("messages", "fifo_seq", "attributes", "tags", "dedup_cache")
    queues = {key: {name: queue[name] for name in names} for key, queue in sqs._queues.all_items()}
    return copy.deepcopy((tables, records, queues))


def write_something(dice: random.Random) -> None:
    key = {"pk": {"S": dice.choice("ab")}, "sk": {"S": dice.choice("cd")}}
    item = {**key, "n": {"N": str(dice.randrange(3))}, "b": {"B": "eA=="}}
    match dice.randrange(6):
        case 0:
            call(dynamodb, "PutItem", TableName="Things", Item=item)
        case 1:
            call(dynamodb, "DeleteItem", TableName="Things", Key=key)
        case 2:
            call(
                dynamodb, "UpdateItem", TableName="Things", Key=key, UpdateExpression="ADD m :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )  # fmt: skip
        case 3:
            other = {"pk": {"S": "z"}, "sk": {"S": dice.choice("cd")}}
            delete = {"Delete": {"TableName": "Things", "Key": other}}
            call(dynamodb, "TransactWriteItems", TransactItems=[{"Put": {"TableName": "Things", "Item": item}}, delete])
        case 4:
            call(dynamodb, "BatchWriteItem", RequestItems={"Things": [{"PutRequest": {"Item": item}}]})
        case 5:
            values = {"TableName": "Things", "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
            headers = {"x-amz-target": "DynamoDB_20120810.PutItem"}
            asyncio.run(dynamodb.handle_request("POST", "/", headers, json.dumps(values).encode(), {}))


def move_something(dice: random.Random, urls: dict[str, str], held: list[tuple[str, str]]) -> None:
    name = dice.choice(sorted(urls))
    request: dict[str, Any] = {"QueueUrl": urls[name]}
    of_order = {"MessageGroupId": dice.choice("xy"), "MessageDeduplicationId": str(dice.randrange(40))}
    match dice.randrange(7):
        case 0 | 1:
            call(sqs, "SendMessage", **request, MessageBody="m", **(of_order if name == "f.fifo" else {}))
        case 2:
            entry = {"Id": "1", "MessageBody": "n", **(of_order if name == "f.fifo" else {})}
            call(sqs, "SendMessageBatch", **request, Entries=[entry])
        case 3:
            visible = {"VisibilityTimeout": dice.choice((0, 0, 100))}
            asked: dict[str, Any] = {**request, "MaxNumberOfMessages": dice.randint(1, 3), **visible}
            found = call(sqs, "ReceiveMessage", **asked)
            held.extend((name, each["ReceiptHandle"]) for each in found.get("Messages", ()))
        case 4 if held:
            name, receipt = held.pop(dice.randrange(len(held)))
            entries = [{"Id": "1", "ReceiptHandle": receipt}]
            call(sqs, "DeleteMessageBatch", QueueUrl=urls[name], Entries=entries)
        case 5 if held:
            name, receipt = dice.choice(held)
            shown: dict[str, Any] = {"Id": "1", "ReceiptHandle": receipt, "VisibilityTimeout": dice.choice((0, 50))}
            call(sqs, "ChangeMessageVisibilityBatch", QueueUrl=urls[name], Entries=[shown])
        case 6 if dice.random() < 0.1:
            call(sqs, "PurgeQueue", **request)


def about(found: Any) -> Any:
    """The same, but instants to a tenth of a second: of what is shown again the journal has its own."""
    if isinstance(found, dict):
        return {key: round(each, 1) if key == "visible_at" else about(each) for key, each in found.items()}
    if isinstance(found, list | tuple):
        return [about(each) for each in found]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_after_a_kill_at_any_moment_all_is_as_it_was(
    kept: KeptHere, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, now = random.Random(seed), time.time()
    monkeypatch.setattr("time.time", lambda: now)
    make_table()
    urls = {"dead": call(sqs, "CreateQueue", QueueName="dead")["QueueUrl"]}
    arn = call(sqs, "GetQueueAttributes", QueueUrl=urls["dead"], AttributeNames=["All"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"maxReceiveCount": 4, "deadLetterTargetArn": arn})
    urls["s"] = call(sqs, "CreateQueue", QueueName="s", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    urls["f.fifo"] = call(sqs, "CreateQueue", QueueName="f.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    held: list[tuple[str, str]] = []
    for _ in range(6):
        for _ in range(40):
            now += 0.01
            write_something(dice)
            move_something(dice, urls, held)
            kept.journal.write()
            if dice.random() < 0.5:
                before = seen()
                kept.tables.trim()
                assert seen() == before
        if dice.random() < 0.3:
            kept.renew()
        before = seen()
        kept = kept.come_back()
        assert about(seen()) == about(before)


def test_rows_are_packed_wherever_they_came_from(kept: KeptHere) -> None:
    make_table()
    for name, length in (("a", 10), ("b", 10_000), ("c", 10)):
        key = {"pk": {"S": name}, "sk": {"S": "s"}}
        call(dynamodb, "PutItem", TableName="Things", Item={**key, "body": {"S": "x" * length}})
    for _ in range(2):
        [table] = dynamodb._tables.all_values()
        assert {pk: type(rows) for pk, rows in table["items"].items()} == dict.fromkeys("abc", PackedRows)
        found = call(dynamodb, "Scan", TableName="Things")["Items"]
        assert [(row["pk"]["S"], len(row["body"]["S"])) for row in found] == [("a", 10), ("b", 10_000), ("c", 10)]
        kept.renew()
        kept = kept.come_back()


def test_what_all_readers_have_read_of_a_stream_is_let_go_at_once_and_nothing_else(kept: KeptHere) -> None:
    make_table()
    for number in range(4):
        call(dynamodb, "PutItem", TableName="Things", Item={"pk": {"S": f"{number}"}, "sk": {"S": "s"}})
    numbers = [each["dynamodb"]["SequenceNumber"] for each in dynamodb._stream_records["Things"]]
    for reader, number in (("Relay", numbers[2]), ("Archive", numbers[1])):
        store_position(kept.folder / "positions" / f"{reader}.Things", number)
    kept.tables.trim()
    assert [each["dynamodb"]["SequenceNumber"] for each in dynamodb._stream_records["Things"]] == numbers[2:]
    (kept.folder / "positions" / "New.Things").touch()
    kept.tables.trim()
    assert len(dynamodb._stream_records["Things"]) == 2
    position = kept.folder / "positions" / "Archive.Things"
    whole = position.read_bytes()
    for changed in (whole[:20], whole.replace(numbers[1].encode(), numbers[3].encode())):
        position.write_bytes(changed)
        with pytest.raises(DamageError, match=r"positions/Archive.Things is damaged"):
            kept.come_back()


def test_what_nobody_has_read_of_a_stream_stays_although_the_clock_went_back(
    kept: KeptHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table()
    for number, clock in enumerate((2_000_000_000, 2_000_000_001, 1_999_999_990, 1_999_999_991)):
        monkeypatch.setattr(dynamodb.time, "time", lambda clock=clock: float(clock))
        call(dynamodb, "PutItem", TableName="Things", Item={"pk": {"S": f"{number}"}, "sk": {"S": "s"}})
    numbers = [each["dynamodb"]["SequenceNumber"] for each in dynamodb._stream_records["Things"]]
    position = kept.folder / "positions" / "Relay.Things"
    for read, left in ((0, numbers[1:]), (2, numbers[3:]), (2, numbers[3:])):
        store_position(position, numbers[read])
        kept.tables.trim()
        assert [each["dynamodb"]["SequenceNumber"] for each in dynamodb._stream_records["Things"]] == left


def test_rows_whose_time_to_live_is_over_are_deleted_and_the_stream_tells_of_it(kept: KeptHere) -> None:
    make_table()
    for name, ttl in (("past", 5), ("rest", 5), ("later", 100), ("never", None)):
        lives = {} if ttl is None else {"ttl": {"N": f"{ttl}"}}
        call(dynamodb, "PutItem", TableName="Things", Item={"pk": {"S": name}, "sk": {"S": "s"}, **lives})
    kept.tables.expire("Things", "ttl", 50.0)
    told = [(each["eventName"], each["dynamodb"]["Keys"]["pk"]["S"]) for each in dynamodb._stream_records["Things"]]
    assert told[4:] == [("REMOVE", "past"), ("REMOVE", "rest")]
    kept = kept.come_back()
    assert sorted(row["pk"]["S"] for row in call(dynamodb, "Scan", TableName="Things")["Items"]) == ["later", "never"]


def test_rows_that_expire_together_are_deleted_a_part_at_a_time(
    kept: KeptHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistent_tables, "EXPIRED_MAX", 2)
    make_table()
    for name in "abcde":
        call(dynamodb, "PutItem", TableName="Things", Item={"pk": {"S": name}, "sk": {"S": "s"}, "ttl": {"N": "5"}})
    left = []
    for _ in range(3):
        kept.tables.expire("Things", "ttl", 50.0)
        left.append(call(dynamodb, "Scan", TableName="Things")["Count"])
    assert left == [3, 1, 0]


def test_a_table_or_queue_that_was_made_anew_has_nothing_of_the_one_before(kept: KeptHere) -> None:
    make_table()
    url = call(sqs, "CreateQueue", QueueName="q")["QueueUrl"]
    call(dynamodb, "PutItem", TableName="Things", Item={"pk": {"S": "a"}, "sk": {"S": "a"}})
    call(sqs, "SendMessage", QueueUrl=url, MessageBody="m")
    call(dynamodb, "DeleteTable", TableName="Things")
    call(sqs, "DeleteQueue", QueueUrl=url)
    make_table()
    call(sqs, "CreateQueue", QueueName="q")
    kept = kept.come_back()
    assert call(dynamodb, "Scan", TableName="Things")["Count"] == 0
    assert call(sqs, "ReceiveMessage", QueueUrl=url) == {}


def test_what_a_dead_process_held_of_a_queue_is_shown_at_once_and_what_is_delayed_is_not(kept: KeptHere) -> None:
    url = call(sqs, "CreateQueue", QueueName="q")["QueueUrl"]
    call(sqs, "SendMessage", QueueUrl=url, MessageBody="held")
    assert len(call(sqs, "ReceiveMessage", QueueUrl=url, VisibilityTimeout=300)["Messages"]) == 1
    call(sqs, "SendMessage", QueueUrl=url, MessageBody="delayed", DelaySeconds=300)
    kept = kept.come_back()
    assert call(sqs, "ReceiveMessage", QueueUrl=url) == {}
    arn = call(sqs, "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]["QueueArn"]
    kept.queues.show(arn)
    kept = kept.come_back()
    found = call(sqs, "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [each["Body"] for each in found] == ["held"]
    kept.queues.show("arn:aws:sqs:us-east-1:123456789012:unknown")


def test_an_answer_goes_when_what_it_answers_for_is_kept(tmp_path: Path) -> None:
    journal, told = Journal(tmp_path / "journal"), []
    list(journal.read()[1])
    secrets: dict[str, int] = {}

    async def engine(request: Request) -> Response:
        secrets["n"] = secrets.get("n", 0) + 1
        journal.add("is", secrets["n"])
        return Response(200)

    states = {"secretsmanager": lambda: dict(secrets)}
    services = PersistentServices(lambda: states, tmp_path / "services.json", written_plainly)
    services.keep(())
    handler = write_before_answer(engine, services, journal)

    async def ask(target: str) -> None:
        await handler(Request("POST", "/", "", {"x-amz-target": target}, b""))
        kept = PersistentServices(dict, tmp_path / "services.json", written_plainly)
        told.append((len(list(Journal(tmp_path / "journal").read()[1])), kept.read().get("secretsmanager")))

    for target in ("DynamoDB_20120810.PutItem", "secretsmanager.PutSecretValue", "AmazonSQS.CreateQueue", "Odd.Do"):
        asyncio.run(ask(target))
    assert told == [(1, None), (2, "{'n': 2}"), (3, "{'n': 2}"), (4, "{'n': 4}")]


def test_one_service_that_cannot_be_kept_does_not_cost_the_others_theirs(tmp_path: Path) -> None:
    def broken() -> Any:
        raise RuntimeError("broken")

    file = tmp_path / "services.json"
    PersistentServices(lambda: {"a": lambda: 1, "b": lambda: 2}, file, written_plainly).keep()
    again = PersistentServices(lambda: {"a": broken, "b": lambda: None, "c": lambda: 3}, file, written_plainly)
    again.read()
    again.keep()
    assert kept_in(file) == {"a": "1", "b": "2", "c": "3"}


def test_a_service_alone_is_kept_beside_all_others(tmp_path: Path) -> None:
    file, counts = tmp_path / "services.json", {"a": 1, "b": 1}
    states = {"a": lambda: counts["a"], "b": lambda: counts["b"]}
    services = PersistentServices(lambda: states, file, written_plainly)
    services.keep()
    counts.update(a=2, b=2)
    services.keep(("a",))
    assert kept_in(file) == {"a": "2", "b": "1"}


def test_the_file_of_the_services_is_missed_when_there_is_a_journal(kept: KeptHere) -> None:
    with pytest.raises(DamageError, match=r"services.json is damaged: it is missing"):
        kept.load_services()


def test_every_bit_of_the_file_of_the_services_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "services.json"
    PersistentServices(lambda: {"a": lambda: "secret"}, path, written_plainly).keep()
    whole = path.read_bytes()
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(DamageError, match=r"services.json is damaged: its \d+ bytes"):
            kept_in(path)


def written_plainly(name: str, state: Any) -> str:
    return str(state)


def kept_in(file: Path) -> dict[str, str]:
    return dict(PersistentServices(dict, file, written_plainly).read())
