"""What a table refuses under load, what its stream tells, and what the time to live removes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.aws import limits
from tests.aws.small_account import SmallAccount, item, key
from tests.aws.solo_timeline import StandingTimeline
from tests.aws.streams import Stream

ONCE = Config(retries={"total_max_attempts": 1})


def at_one_instant(call: Callable[[int], Any]) -> tuple[int, set[str]]:
    """How many of many calls of one instant succeed, and what the others met."""
    done, codes = 0, set()
    for place in range(200):
        try:
            call(place)
            done += 1
        except ClientError as error:
            codes.add(error.response["Error"]["Code"])
            told: Any = error.response.get("ThrottlingReasons", ())
            codes.update(reason["reason"] for reason in told)
    return done, codes


@pytest.fixture
def standing() -> SmallAccount:
    return SmallAccount(time=StandingTimeline())


def test_a_partition_key_takes_1000_write_units_a_second(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    row = {"body": {"B": bytes(10 * 1000)}}
    done, codes = at_one_instant(lambda n: client.put_item(TableName="rows", Item={**item(f"{n}"), **row}))
    assert done == limits.KEY_WRITE_UNITS // 10
    assert codes == {"ProvisionedThroughputExceededException", "TableWriteKeyRangeThroughputExceeded"}
    client.put_item(TableName="rows", Item={**item("x", pk="other"), **row})


def test_a_table_takes_4000_write_units_a_second_when_it_is_new(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    row = {"body": {"B": bytes(100 * 1000)}}
    put = lambda n: client.put_item(TableName="rows", Item={**item("a", pk=f"p{n}"), **row})  # noqa: E731
    done, codes = at_one_instant(put)
    assert done == limits.TABLE_WRITE_UNITS // 98
    assert codes == {"ThrottlingException", "TableWriteAccountLimitExceeded"}


def test_a_hot_key_of_an_index_refuses_writes_of_the_table(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    row = {"body": {"B": bytes(10 * 1000)}, "keeper": {"S": "same"}, "due": {"N": "1"}}
    put = lambda n: client.put_item(TableName="rows", Item={**item("a", pk=f"p{n}"), **row})  # noqa: E731
    done, codes = at_one_instant(put)
    assert done == limits.KEY_WRITE_UNITS // 10
    assert codes == {"ProvisionedThroughputExceededException", "IndexWriteKeyRangeThroughputExceeded"}


def test_a_partition_key_gives_3000_read_units_a_second(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    client.put_item(TableName="rows", Item={**item("a"), "body": {"B": bytes(390 * 1024)}})
    read = lambda n: client.get_item(TableName="rows", Key=key("a"), ConsistentRead=True)  # noqa: E731
    done, codes = at_one_instant(read)
    assert done == 1 + limits.KEY_READ_UNITS // 98
    assert "TableReadKeyRangeThroughputExceeded" in codes


def test_throttled_units_come_back_with_time_and_botocore_waits_for_them(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    began = account.time.now
    attempts = 0
    for place in range(40):
        row = {**item(f"{place}"), "body": {"B": bytes(100 * 1000)}}
        answer = client.put_item(TableName="rows", Item=row)
        attempts += answer["ResponseMetadata"]["RetryAttempts"]
    assert attempts
    assert account.time.now - began > 1000 * (40 * 98 / limits.KEY_WRITE_UNITS - 1.1)


def test_a_transaction_is_throttled_by_twice_its_units(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    standing.rows.throughput.key_write_rate = 9
    put = {"Put": {"TableName": "rows", "Item": {**item("a"), "body": {"B": bytes(4000)}}}}
    client.transact_write_items(TransactItems=[put])
    with pytest.raises(client.exceptions.TransactionCanceledException) as caught:
        client.transact_write_items(TransactItems=[put])
    assert [r["Code"] for r in caught.value.response["CancellationReasons"]] == ["ProvisionedThroughputExceeded"]


def test_a_transaction_takes_twice_the_units_from_those_that_come_after(standing: SmallAccount) -> None:
    client = standing.client("dynamodb", ONCE)
    standing.rows.throughput.key_write_rate = 12
    row = {**item("a"), "body": {"B": bytes(4000)}}
    client.transact_write_items(TransactItems=[{"Put": {"TableName": "rows", "Item": row}}])
    client.put_item(TableName="rows", Item={**row, **key("b")})
    with pytest.raises(client.exceptions.ProvisionedThroughputExceededException):
        client.put_item(TableName="rows", Item=item("c"))


# Streams.


def records(account: SmallAccount) -> list[dict[str, Any]]:
    (shard,) = account.rows.stream.shards
    return account.rows.stream.read(shard, None, 100)


def test_the_stream_tells_each_change_with_both_views(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    client.put_item(TableName="rows", Item=item("a", n=1))
    client.update_item(
        TableName="rows", Key=key("a"), UpdateExpression="ADD n :n", ExpressionAttributeValues={":n": {"N": "1"}}
    )
    client.delete_item(TableName="rows", Key=key("a"))
    told = [(each["eventName"], each["dynamodb"]) for each in records(account)]
    assert [name for name, _ in told] == ["INSERT", "MODIFY", "REMOVE"]
    assert [change.get("OldImage") for _, change in told] == [None, item("a", n=1), item("a", n=2)]
    assert [change.get("NewImage") for _, change in told] == [item("a", n=1), item("a", n=2), None]
    assert all(change["Keys"] == key("a") for _, change in told)
    sequences = [int(change["SequenceNumber"]) for _, change in told]
    assert sequences == sorted(set(sequences))


def test_a_write_that_changes_nothing_is_not_told(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    for _ in range(2):
        client.put_item(TableName="rows", Item=item("a"))
    client.delete_item(TableName="rows", Key=key("b"))
    assert len(records(account)) == 1


def test_a_transaction_is_told_when_it_is_done(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    puts = [{"Put": {"TableName": "rows", "Item": item(sk)}} for sk in "ab"]
    client.transact_write_items(TransactItems=puts)
    assert [each["dynamodb"]["Keys"] for each in records(account)] == [key("a"), key("b")]


def test_a_reader_goes_on_behind_a_sequence_number_for_24_hours(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    for sk in "abc":
        client.put_item(TableName="rows", Item=item(sk))
    stream, first = account.rows.stream, records(account)[0]["dynamodb"]["SequenceNumber"]
    (shard,) = stream.shards
    assert [each["dynamodb"]["Keys"]["sk"]["S"] for each in stream.read(shard, first, 1)] == ["b"]
    assert len(stream.read(shard, None, 10, account.time.now)) == 3
    assert not stream.read(shard, None, 10, account.time.now + 1000 * limits.STREAM_RETENTION_S + 1000)


def test_changes_of_one_partition_stay_in_one_shard(account: SmallAccount) -> None:
    stream = Stream("arn", "us-east-1", shards=3)
    for place in range(30):
        stream.append(account.time.now, f"p{place % 10}", key("a", f"p{place % 10}"), None, item("a"))
    of: dict[str, set[str]] = {}
    for name, shard in stream.shards.items():
        for record in shard.records:
            of.setdefault(record["dynamodb"]["Keys"]["pk"]["S"], set()).add(name)
    assert all(len(names) == 1 for names in of.values())
    assert len(set.union(*of.values())) > 1


def test_a_function_gets_bytes_as_base64_and_instants_in_whole_seconds(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    client.put_item(TableName="rows", Item={**item("a"), "m": {"M": {"b": {"L": [{"B": b"\x00\xff"}]}}}})
    (record,) = records(account)
    event = account.rows.stream.event_of(record)
    image = event["dynamodb"]["NewImage"]
    assert base64.b64decode(image["m"]["M"]["b"]["L"][0]["B"]) == b"\x00\xff"
    assert event["eventSourceARN"].startswith("arn:aws:dynamodb:")
    assert event["dynamodb"]["ApproximateCreationDateTime"] == account.time.now // 1000
    assert record["dynamodb"]["NewImage"]["m"]["M"]["b"]["L"][0]["B"] == b"\x00\xff"


# Time to live.


def test_the_time_to_live_removes_what_is_over_and_signs_for_it(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    now = account.time.now // 1000
    for sk, ttl in (("over", now - 5), ("later", now + 500), ("moved", now - 5), ("ancient", now - 6 * 365 * 86_400)):
        client.put_item(TableName="rows", Item=item(sk, ttl=ttl))
    client.put_item(TableName="rows", Item={**item("word"), "ttl": {"S": "soon"}})
    client.put_item(TableName="rows", Item=item("moved", ttl=now + 500))
    assert account.rows.remove_expired(account.time.now) == 1
    last = records(account)[-1]
    assert (last["eventName"], last["dynamodb"]["Keys"]) == ("REMOVE", key("over"))
    assert last["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    assert account.rows.remove_expired(account.time.now + 600_000) == 2
    assert sorted(row["sk"]["S"] for row in account.rows.rows()) == ["ancient", "word"]


def test_what_is_expired_is_read_until_it_is_removed(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    client.put_item(TableName="rows", Item=item("a", ttl=account.time.now // 1000 - 5))
    assert "Item" in client.get_item(TableName="rows", Key=key("a"), ConsistentRead=True)


def test_what_a_transaction_holds_expires_after_it(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    client.put_item(TableName="rows", Item=item("a", ttl=account.time.now // 1000 - 5))
    account.rows.held["p", "a"] = "a transaction"
    assert account.rows.remove_expired(account.time.now) == 0
    account.rows.held.clear()
    assert account.rows.remove_expired(account.time.now) == 1
