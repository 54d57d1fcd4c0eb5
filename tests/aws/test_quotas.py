"""What AWS gives a second, in each place: whatever goes beyond it is refused, and no call is quicker than its quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.rules.limits import READ_UNIT_BYTES
from tests.aws.box import ADMINISTRATOR, Box
from tests.aws.deployment import Deployment
from tests.aws.http_api import Answer
from tests.aws.lambdas import Ended
from tests.aws.limits import (
    KEY_READ_UNITS,
    LAMBDA_CONCURRENCY_NEW,
    LARGE_REGION,
    NEW_ACCOUNT,
    PAGE_BYTES_MAX,
    PLACES,
    QUOTAS,
    SMALL_REGION,
    THROUGHPUT,
    QuotaPlace,
    latency,
)
from tests.aws.small_account import FAST, SmallAccount
from tests.aws.solo_timeline import StandingTimeline
from tests.aws.timeline import Timeline

ONCE = Config(retries={"total_max_attempts": 1})
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/"
OBJECT = {"Bucket": "bucket", "Key": "k"}
OF_TABLES = {name for name in QUOTAS if name.startswith("dynamodb:")}
"""`tests.aws.test_dynamodb_load` has them."""
LEFT = 3
"""So many calls are left when a quota is looked at."""


class Standing:
    """A small account in which no call takes time; each call returns whether it was served."""

    def __init__(self, place: QuotaPlace) -> None:
        self.time = StandingTimeline()
        self.account = SmallAccount(time=self.time, place=place)
        self.box = self.account.box
        self._serial = 0

    def serial(self) -> str:
        self._serial += 1
        return str(self._serial)

    def served(self, service: str, method: str, **parameters: Any) -> bool:
        try:
            answer = getattr(self.account.client(service, ONCE), method)(**parameters)
        except ClientError:
            return False
        return not answer.get("FailedPutCount")

    def sends(self, queue: str) -> bool:
        message = {"MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": self.serial()}
        return self.served("sqs", "send_message", QueueUrl=URL + queue, **message)

    def puts(self, size: int) -> bool:
        return self.served(
            "firehose", "put_record_batch", DeliveryStreamName="delivery", Records=[{"Data": bytes(size)}]
        )


def calls_of(standing: Standing) -> Mapping[str, Callable[[], bool]]:
    """By quota a call that takes of it, and returns whether it was served."""
    standing.served("s3", "put_object", **OBJECT)
    return {
        "sqs: calls to a FIFO queue": partial(
            standing.served, "sqs", "receive_message", QueueUrl=URL + "fast.fifo", MaxNumberOfMessages=1
        ),
        "sqs: calls to a partition of a FIFO queue": partial(standing.sends, "fast.fifo"),
        "sqs: calls to a slow FIFO queue": partial(standing.sends, "ordered.fifo"),
        "firehose: bytes of a stream": partial(standing.puts, 1),
        "firehose: requests of a stream": partial(standing.puts, 1),
        "firehose: records of a stream": partial(standing.puts, 1),
        "s3: reads": partial(standing.served, "s3", "get_object", **OBJECT),
        "s3: writes": partial(standing.served, "s3", "put_object", **OBJECT, Body=b""),
    }


DEPLOYED_CALLS = ("stepfunctions: starts", "apigateway: requests", "lambda: invocations")


def deployed_calls(place: QuotaPlace) -> tuple[Box, Timeline, Mapping[str, Callable[[], bool]]]:
    """The same of what only a whole deployment has."""
    timeline = Timeline()
    deployment = Deployment(timeline, None, 1, place=place)
    machine = deployment.box.client("stepfunctions", ADMINISTRATOR, ONCE)
    serials = iter(range(10**6))

    def starts() -> bool:
        try:
            machine.start_execution(stateMachineArn=deployment.machine.arn, name=f"n{next(serials)}", input="{}")
        except ClientError:
            return False
        return True

    def asks() -> bool:
        answers: list[Answer] = []
        deployment.api.ask("GET", ("nowhere",), answers.append)
        return answers[0].status == 404

    def invokes() -> bool:
        ended: list[Ended] = []
        deployment.functions.start(deployment.functions.by_id["SweepFunction"], {}, ended.append)
        deployment.functions.running = 0
        return not ended

    return deployment.box, timeline, dict(zip(DEPLOYED_CALLS, (starts, asks, invokes), strict=True))


SMALL_CALLS = tuple(calls_of(Standing(LARGE_REGION)))
ELSEWHERE = {
    "stepfunctions: transitions": "waits; test_transitions_beyond_the_accounts_rate_wait",
    "events: puts": "the box has no bus: the sweep's events are lost in it as they may be",
    "kms: requests": "the box has no KMS: nobody on it has a secret",
    "secretsmanager: reads": "the box has none: nobody on it is signed for",
}


def test_every_quota_is_played_here_or_somewhere_else() -> None:
    assert {*SMALL_CALLS, *DEPLOYED_CALLS, *ELSEWHERE, *OF_TABLES} == QUOTAS.keys()


def see_it_end(box: Box, name: str, call: Callable[[], bool], place: QuotaPlace) -> None:
    """See that *call* takes of the quota, that nothing is served beyond it, and that a second brings as much again."""
    assert call()
    ((whose, bucket),) = [(whose, bucket) for (of, whose), bucket in box.quotas._buckets.items() if of == name]
    quota = QUOTAS[name]
    assert bucket.rate == quota.rate(place)
    assert bucket.most == pytest.approx(quota.burst(place))
    bucket.units = LEFT
    assert [call() for _ in range(LEFT + 1)] == [True] * LEFT + [False]
    assert box.quotas.refused[name, whose] == 1


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("name", SMALL_CALLS)
def test_what_is_beyond_a_quota_is_refused(name: str, place: QuotaPlace) -> None:
    standing = Standing(place)
    see_it_end(standing.box, name, call := calls_of(standing)[name], place)
    standing.time.pass_s(1.5 / QUOTAS[name].rate(place) + 0.002)
    assert call(), "it comes back with time"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("name", DEPLOYED_CALLS)
def test_what_is_beyond_a_quota_is_refused_by_what_a_deployment_has(name: str, place: QuotaPlace) -> None:
    box, _, calls = deployed_calls(place)
    see_it_end(box, name, calls[name], place)


def test_transitions_beyond_the_accounts_rate_wait() -> None:
    box, timeline, calls = deployed_calls(SMALL_REGION)
    box.quotas.grant("stepfunctions: transitions", 0)
    machine = box.services["stepfunctions"]
    assert calls["stepfunctions: starts"]()
    timeline.play_until(timeline.now + 5_000)
    (execution,) = machine.executions.values()  # type: ignore[attr-defined]
    before = execution.state, execution.events
    box.quotas.grant("stepfunctions: transitions", 1)
    timeline.play_until(timeline.now + 5_000)
    assert (execution.state, execution.events) != before


def test_a_new_account_runs_ten_functions_at_once() -> None:
    timeline = Timeline()
    deployment = Deployment(timeline, None, 1, place=NEW_ACCOUNT)
    ended: list[Ended] = []
    for _ in range(LAMBDA_CONCURRENCY_NEW + 2):
        deployment.functions.start(deployment.functions.by_id["SweepFunction"], {}, ended.append)
    assert [each.error for each in ended] == ["TooManyRequestsException"] * 2


def test_all_groups_of_a_fresh_queue_share_a_partition() -> None:
    def taken(place: QuotaPlace) -> int:
        account = SmallAccount(place=place)
        for group in ("a", "b"):
            message = {"MessageBody": "m", "MessageGroupId": group, "MessageDeduplicationId": group}
            account.client("sqs").send_message(QueueUrl=URL + "fast.fifo", **message)
        return sum(name == "sqs: calls to a partition of a FIFO queue" for name, _ in account.box.quotas._buckets)

    assert FAST["FifoThroughputLimit"] == "perMessageGroupId"
    assert (taken(NEW_ACCOUNT), taken(LARGE_REGION)) == (1, 2)


def test_a_role_calls_nothing_that_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(THROUGHPUT, "sqs:ListQueues")
    with pytest.raises(NotImplementedError, match=r"no row for sqs:ListQueues"):
        SmallAccount().box.client("sqs", "somebody").list_queues()


SCAN = ("dynamodb", "Scan")
SCAN_PAGE_UNITS = PAGE_BYTES_MAX / (2 * READ_UNIT_BYTES)
SERVICES = {"states": "stepfunctions", "execute-api": "apigateway"}


def quickest(action: str) -> float:
    """How much of a quota one caller that never rests takes in a second, by the least of the table of times."""
    service, _, operation = action.partition(":")
    service = SERVICES.get(service, service)
    low_ms, _ = latency(service, operation)
    return 1000 / low_ms * (SCAN_PAGE_UNITS if (service, operation) == SCAN else 1)


def is_refused(action: str, name: str) -> bool:
    """Whether the box refuses what is beyond the quota; of a scan it knows no key."""
    return name in {*SMALL_CALLS, *DEPLOYED_CALLS, *OF_TABLES} and (action, name) != (
        "dynamodb:Scan",
        "dynamodb: read units of a key",
    )


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("action", [each for each, of in THROUGHPUT.items() if not isinstance(of, str)])
def test_no_time_of_a_call_contradicts_a_rate_of_the_same_table(action: str, place: QuotaPlace) -> None:
    for name in THROUGHPUT[action]:
        rate = QUOTAS[name].rate(place)
        assert quickest(action) <= rate or is_refused(action, name), f"{quickest(action):,.0f} of {rate:,.0f} {name}"


def test_a_sequential_scan_is_as_slow_as_the_partition_it_reads() -> None:
    """Nothing else bounds it on the box: its pages of a megabyte come from one partition after the other."""
    assert not is_refused("dynamodb:Scan", "dynamodb: read units of a key")
    assert 0.9 * KEY_READ_UNITS < quickest("dynamodb:Scan") <= KEY_READ_UNITS
