"""The path of a call: time, retries, accidents, errors as botocore has them."""

from __future__ import annotations

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from tests.aws import limits
from tests.aws.box import ADMINISTRATOR, Box
from tests.aws.client import QUOTA, RETRY_COST
from tests.aws.faults import Kind, Outages, UnplayedError
from tests.aws.service_model import model_of
from tests.aws.small_account import SmallAccount, code_of, item, key, scripted
from tests.aws.solo_timeline import SoloTimeline

PLAIN = "https://sqs.us-east-1.amazonaws.com/123456789012/plain"
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=10)


def test_a_call_costs_time_of_its_range(account: SmallAccount) -> None:
    client = account.client("dynamodb")
    low, high = limits.latency("dynamodb", "GetItem")
    for _ in range(20):
        began = account.time.now
        client.get_item(TableName="rows", Key=key("a"))
        assert low - 1 <= account.time.now - began <= high + 1


def test_what_a_seed_draws_is_drawn_again() -> None:
    ends = []
    for seed in (1, 1, 2):
        account = SmallAccount(seed=seed)
        client = account.client("dynamodb")
        for place in range(20):
            client.put_item(TableName="rows", Item=item(f"{place}"))
        ends.append(account.time._exact)
    assert ends[0] == ends[1] != ends[2]


def test_an_operation_that_the_box_does_not_play_raises_loudly(account: SmallAccount) -> None:
    with pytest.raises(UnplayedError, match="DescribeTable"):
        account.client("dynamodb").describe_table(TableName="rows")
    with pytest.raises(UnplayedError, match="sns"):
        account.client("sns")
    with pytest.raises(AttributeError, match="put_everything"):
        account.client("dynamodb").put_everything()


def test_a_write_whose_answer_was_lost_meets_itself_when_it_is_tried_again() -> None:
    account = SmallAccount(scripted(Kind.FAILED_AFTER))
    client = account.client("dynamodb")
    put = {"TableName": "rows", "Item": item("a"), "ConditionExpression": "attribute_not_exists(pk)"}
    assert code_of(lambda: client.put_item(**put)) == "ConditionalCheckFailedException"
    assert list(account.rows.rows()) == [item("a")]


@pytest.mark.parametrize(
    ("kind", "error", "done"),
    [
        (Kind.LOST_ANSWER, ConnectionClosedError, 1),
        (Kind.UNANSWERED, ReadTimeoutError, 1),
        (Kind.UNREACHABLE, EndpointConnectionError, 0),
        (Kind.THROTTLED, ClientError, 0),
        (Kind.FAILED_BEFORE, ClientError, 0),
        (Kind.FAILED_AFTER, ClientError, 1),
    ],
)
def test_each_accident_has_its_error_and_its_effect(kind: Kind, error: type[Exception], done: int) -> None:
    account = SmallAccount(scripted(kind))
    with pytest.raises(error):
        account.client("dynamodb", ONCE).put_item(TableName="rows", Item=item("a"))
    assert len(list(account.rows.rows())) == done


def test_no_answer_costs_the_time_that_the_client_waits_for_one() -> None:
    account = SmallAccount(scripted(Kind.UNANSWERED))
    began = account.time.now
    with pytest.raises(ReadTimeoutError):
        account.client("dynamodb", ONCE).get_item(TableName="rows", Key=key("a"))
    assert 10_000 <= account.time.now - began <= 10_010


@pytest.mark.parametrize(
    ("service", "config", "attempts"),
    [
        ("dynamodb", None, 10),
        ("sqs", None, 5),
        ("sqs", Config(retries={"mode": "standard"}), 3),
        ("dynamodb", Config(retries={"mode": "standard", "max_attempts": 5}), 6),
        ("dynamodb", Config(retries={"total_max_attempts": 1}), 1),
    ],
)
def test_a_client_makes_as_many_attempts_as_its_configuration_says(service: str, config: Config, attempts: int) -> None:
    outage = Outages()
    outage.add(service, 0, 2**60)
    account = SmallAccount(outage)
    client = account.client(service, config)
    call = {
        "sqs": lambda: client.receive_message(QueueUrl=PLAIN),
        "dynamodb": lambda: client.get_item(TableName="rows", Key=key("a")),
    }
    with pytest.raises(ClientError):
        call[service]()
    assert account.box.requests[service] == attempts


def test_the_quota_of_retries_ends_them() -> None:
    outage = Outages()
    outage.add("dynamodb", 0, 2**60)
    account = SmallAccount(outage)
    client = account.client("dynamodb")
    for _ in range(30):
        assert code_of(lambda: client.get_item(TableName="rows", Key=key("a"))) == "InternalServerError"
    assert account.box.requests["dynamodb"] == 30 + QUOTA // RETRY_COST


def test_an_outage_lasts_as_long_as_it_was_told() -> None:
    outage = Outages()
    account = SmallAccount(outage)
    start = account.time.now
    outage.add("dynamodb", start, start + 60_000)
    client = account.client("dynamodb", ONCE)
    assert code_of(lambda: client.get_item(TableName="rows", Key=key("a"))) == "InternalServerError"
    account.client("sqs", ONCE).receive_message(QueueUrl=PLAIN)
    account.time.spend(60_000)
    client.get_item(TableName="rows", Key=key("a"))


def test_every_service_of_the_box_has_a_latency_and_plays_operations_of_its_model(account: SmallAccount) -> None:
    for name, service in account.box.services.items():
        limits.latency(name, "*")
        played = [each for each in model_of(name).operations if hasattr(service, each)]
        assert played, name


def test_a_box_without_roles_lets_everybody_do_everything() -> None:
    assert Box(SoloTimeline()).allows("anybody", "s3:GetObject", "arn")
    assert Box(SoloTimeline()).allows(ADMINISTRATOR, "s3:GetObject", "arn")
