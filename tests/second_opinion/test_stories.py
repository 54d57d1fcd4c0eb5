"""The most important promises, kept on implementations of AWS that we neither wrote nor patched.

What differs between them is decided by a document of AWS: docs/RELIABILITY.md, Other implementations of AWS.
"""

import gzip
import hmac
import json
import threading
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.aws.stack import ACCOUNT, REGION
from tests.http_server import Handler, serving
from tests.second_opinion.conftest import OTHERS
from tests.second_opinion.deployed import Deployment

ALWAYS = pytest.mark.parametrize("aws", ["moto", OTHERS], indirect=True)
AT_NIGHT = pytest.mark.parametrize("aws", [pytest.param("moto", marks=pytest.mark.nightly), OTHERS], indirect=True)
NEVER = 1_000_000
pytestmark = [
    pytest.mark.filterwarnings("ignore:No application metrics to publish:UserWarning"),
    pytest.mark.timeout(600),  # The first one starts two servers.
]


@dataclass
class Receiver:
    """Remembers what it took. Paths in *failing* answer 500 that many times more."""

    url: str = ""
    failing: dict[str, int] = field(default_factory=dict)
    tried: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The bodies of all attempts, by path."""
    took: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The bodies of those that were answered 200."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> int:
        with self._lock:
            self.headers.append(headers)
            self.tried[path].append(body)
            if self.failing.get(path, 0):
                self.failing[path] -= 1
                return 500
            self.took[path].append(body)
            return 200


@pytest.fixture
def hook() -> Iterator[Receiver]:
    made = Receiver()

    class Serving(Handler):
        def serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.answer(made.answer(self.path, headers, self.body().decode()))

    with serving(Serving) as made.url:
        yield made


def subscribe(aws: Deployment, name: str, endpoint: dict[str, Any], **settings: Any) -> None:
    aws.do("PUT", f"/topics/t/subscriptions/{name}", {"endpoint": endpoint, **settings})


def by_http(aws: Deployment, hook: Receiver, name: str, **settings: Any) -> None:
    endpoint = {"protocol": "http", "url": f"{hook.url}/{name}"}
    subscribe(aws, name, endpoint, content_format="simplified", **settings)


def publish(aws: Deployment, body: str, **more: Any) -> str:
    return str(aws.do("POST", "/topics/t/messages", {"body": body, **more})["message_id"])


def state_of(aws: Deployment, name: str) -> str:
    return str(aws.do("GET", f"/topics/t/subscriptions/{name}")["lane"]["state"])


@ALWAYS
def test_a_message_goes_by_http_to_a_queue_and_to_a_function_and_to_nobody_whose_filter_does_not_match(
    aws: Deployment, hook: Receiver
) -> None:
    aws.do("PUT", "/topics/t", {})
    sqs = aws.aws.plain_client("sqs")
    queues = {name: f"{aws.stack}-{name}" for name in ("plain", "ordered.fifo")}
    urls = {
        name: sqs.create_queue(QueueName=full, Attributes={"FifoQueue": "true"} if "fifo" in name else {})["QueueUrl"]
        for name, full in queues.items()
    }
    got: list[Any] = []
    aws.aws.lambdas.functions[f"x-{aws.stack}"] = got.append
    by_http(aws, hook, "web", filter={"kind": "tags", "tags": ["pear"]})
    by_http(aws, hook, "other", filter={"kind": "sql92", "expression": "price > 100"})
    for name, full in queues.items():
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{full}"
        subscribe(aws, name.removesuffix(".fifo"), {"protocol": "sqs", "arn": arn}, content_format="simplified")
    subscribe(aws, "bill", {"protocol": "lambda", "function": f"x-{aws.stack}"})

    message_id = publish(aws, "one pear", tags=["pear"], properties={"price": "80"}, ordering_key="o-1")
    message = aws.ends_as("t", message_id, web="delivered", plain="delivered", ordered="delivered", bill="delivered")

    assert hook.took == {"/web": ["one pear"]}
    assert [event["body"] for event in got] == ["one pear"]
    for name, url in urls.items():
        [received] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert received["Body"] == "one pear", name
    assert (message["state"], message["body"]) == ("deleted", None)


@ALWAYS
def test_a_failing_subscriber_blocks_its_own_lane_and_gets_all_in_order_when_it_recovers(
    aws: Deployment, hook: Receiver
) -> None:
    aws.do("PUT", "/topics/t", {"ordering": "topic"})
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": 5, "interval_seconds": 10}
    by_http(aws, hook, "broken", retry=retry)
    by_http(aws, hook, "sound", retry=retry)
    hook.failing["/broken"] = 2

    ids = [publish(aws, str(number)) for number in range(6)]

    aws.until(lambda: len(hook.took["/sound"]) == 6)
    assert hook.took["/sound"] == list("012345")
    last = [aws.ends_as("t", each, broken="delivered", sound="delivered") for each in ids]
    assert hook.tried["/broken"] == list("000") + list("12345")
    assert last[0]["subscribers"]["broken"]["attempts"] == 3
    aws.until(lambda: state_of(aws, "broken") == "active")


@AT_NIGHT
def test_after_its_last_retry_a_message_is_discarded_and_the_next_one_is_tried(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {"ordering": "topic"})
    by_http(aws, hook, "web", retry={"strategy": "BACKOFF_RETRY", "max_retries": 2, "interval_seconds": 10})
    hook.failing["/web"] = 3

    first, second = publish(aws, "first"), publish(aws, "second")

    aws.ends_as("t", first, web="discarded")
    aws.ends_as("t", second, web="delivered")
    assert hook.tried["/web"] == ["first", "first", "first", "second"]


@AT_NIGHT
def test_under_exponential_decay_a_message_that_fails_delays_no_other(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {})
    by_http(aws, hook, "web", retry={"strategy": "EXPONENTIAL_DECAY_RETRY"})
    hook.failing["/web"] = 3

    first = publish(aws, "first")
    aws.until(lambda: hook.tried["/web"])
    second = publish(aws, "second")

    found = [aws.ends_as("t", each, web="delivered") for each in (first, second)]
    assert sum(message["subscribers"]["web"]["attempts"] for message in found) == 5
    assert sorted(hook.took["/web"]) == ["first", "second"]


@AT_NIGHT
def test_what_its_subscriber_never_takes_expires_with_its_message(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {"retention_seconds": 60})
    by_http(aws, hook, "web", retry={"strategy": "EXPONENTIAL_DECAY_RETRY"})
    by_http(aws, hook, "sound")
    hook.failing["/web"] = NEVER

    message = aws.ends_as("t", publish(aws, "late"), web="expired", sound="delivered")

    assert message["state"] == "deleted"
    aws.until(lambda: aws.do("GET", f"/topics/t/messages/{message['message_id']}")["body"] is None)
    tries = len(hook.tried["/web"])
    aws.step()
    assert len(hook.tried["/web"]) == tries


@ALWAYS
@pytest.mark.parametrize("ordered", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_group_pulls_gives_back_extends_and_acknowledges(aws: Deployment, ordered: bool) -> None:
    aws.do("PUT", "/topics/t", {})
    subscribe(aws, "workers", {"protocol": "pull"}, ordered=ordered)
    path = "/topics/t/subscriptions/workers"
    message_id = publish(aws, "work", ordering_key="o-1")

    def pull() -> list[dict[str, Any]]:
        asked = {"max_messages": 10, "wait_seconds": 1, "visibility_timeout_seconds": 600}
        return list(aws.do("POST", f"{path}/pull", asked)["messages"])

    [first] = aws.until(pull)
    assert (first["body"], first["message_id"]) == ("work", message_id)
    assert pull() == []
    aws.do("POST", f"{path}/nack", {"receipt_handles": [first["receipt_handle"]], "delay_seconds": 0})
    [again] = aws.until(pull)
    asked = {"receipt_handles": [again["receipt_handle"]], "visibility_timeout_seconds": 1200}
    [extended] = aws.do("POST", f"{path}/extend", asked)["results"]
    aws.do("POST", f"{path}/ack", {"receipt_handles": [extended["receipt_handle"]]})

    message = aws.ends_as("t", message_id, workers="delivered")
    assert message["subscribers"]["workers"]["attempts"] == 2
    assert pull() == []


@AT_NIGHT
def test_a_batch_is_taken_in_its_order_and_a_repetition_by_its_key_publishes_nothing_more(
    aws: Deployment, hook: Receiver
) -> None:
    aws.do("PUT", "/topics/t", {"ordering": "topic"})
    by_http(aws, hook, "web", retry={"strategy": "BACKOFF_RETRY", "max_retries": 1, "interval_seconds": 10})
    batch = {"messages": [{"body": f"{number:03d}"} for number in range(25)]}
    key = {"idempotency-key": "once"}

    first = aws.do("POST", "/topics/t/messages/batch", batch, key)
    again = aws.do("POST", "/topics/t/messages/batch", batch, key)

    assert again == first
    aws.until(lambda: len(hook.took["/web"]) >= 25)
    for _ in range(5):
        aws.step()
    assert hook.took["/web"] == [f"{number:03d}" for number in range(25)]


@AT_NIGHT
def test_a_paused_lane_waits_and_what_is_skipped_is_cancelled(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {"ordering": "topic"})
    by_http(aws, hook, "web", retry={"strategy": "BACKOFF_RETRY", "max_retries": 5, "interval_seconds": 10})
    lane = "/topics/t/subscriptions/web"

    aws.do("POST", f"{lane}/pause")
    skipped, kept = publish(aws, "skipped"), publish(aws, "kept")
    for _ in range(10):
        aws.step()
    assert hook.tried["/web"] == []
    aws.do("POST", f"{lane}/skip", {"reason": "withdrawn"})
    aws.do("POST", f"{lane}/resume")

    aws.ends_as("t", skipped, web="cancelled")
    aws.ends_as("t", kept, web="delivered")
    assert hook.tried["/web"] == ["kept"]


@AT_NIGHT
def test_what_an_ended_subscription_was_owed_is_cancelled_and_a_deleted_topic_is_gone(
    aws: Deployment, hook: Receiver
) -> None:
    aws.do("PUT", "/topics/t", {})
    by_http(aws, hook, "web")
    subscribe(aws, "workers", {"protocol": "pull"})
    hook.failing["/web"] = NEVER
    message_id = publish(aws, "late")
    aws.until(lambda: hook.tried["/web"])
    sqs = aws.aws.plain_client("sqs")
    prefix = f"{aws.stack}-group-"
    assert len(sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])) == 1

    aws.do("DELETE", "/topics/t/subscriptions/web")
    aws.do("DELETE", "/topics/t/subscriptions/workers")

    aws.ends_as("t", message_id, web="cancelled", workers="cancelled")
    assert sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", []) == []
    aws.do("DELETE", "/topics/t")
    assert aws.ask("GET", "/topics/t")[0] == 404


@AT_NIGHT
def test_secrets_lie_sealed_in_the_table_and_sign_the_push(aws: Deployment, hook: Receiver) -> None:
    secret = "whsec_" + "c2VjcmV0" * 4
    aws.do("PUT", "/topics/t", {})
    by_http(aws, hook, "web", secret=secret, headers={"x-tenant": "a secret tenant"})

    aws.ends_as("t", publish(aws, "signed"), web="delivered")

    [headers] = [each for each in hook.headers if "webhook-signature" in each]
    _verify(secret, "signed", headers)
    assert headers["x-tenant"] == "a secret tenant"
    table = aws.resolver.name_of("RegistryTable")
    rows = str(aws.aws.plain_client("dynamodb").scan(TableName=table)["Items"])
    assert "c2VjcmV0" not in rows
    assert "a secret tenant" not in rows


def _verify(secret: str, body: str, headers: Mapping[str, str]) -> None:
    """Judge a signature as Standard Webhooks describe it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    mac = hmac.digest(b64decode(secret.removeprefix("whsec_")), signed, "sha256")
    assert f"v1,{b64encode(mac).decode()}" in headers["webhook-signature"].split()


# moto copies all its tables at each transaction: a thousand subscriptions take it minutes.
@pytest.mark.parametrize("aws", [OTHERS], indirect=True)
def test_a_message_for_more_than_a_thousand_subscriptions_reaches_each_once(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {})
    names = [f"n{number:04d}" for number in range(1_100)]
    for start in range(0, len(names), 100):
        subscriptions = [
            {"name": name, "endpoint": {"protocol": "http", "url": f"{hook.url}/{name}"}, "timeout_seconds": 30}
            for name in names[start : start + 100]
        ]
        aws.do("POST", "/topics/t/subscriptions/batch", {"subscriptions": subscriptions})

    aws.until(lambda: aws.ask("POST", "/topics/t/messages", {"body": "wide"})[0] < 300, within_s=250)

    aws.until(lambda: len(hook.took) == len(names), within_s=250)
    for _ in range(5):
        aws.step()
    assert {path: len(bodies) for path, bodies in hook.took.items()} == {f"/{name}": 1 for name in names}


# LocalStack's Firehose wrote none of the deliveries within 30 s; why, is not known.
@pytest.mark.nightly
@pytest.mark.parametrize("aws", ["moto"], indirect=True)
def test_what_happened_is_archived_by_firehose(aws: Deployment, hook: Receiver) -> None:
    aws.do("PUT", "/topics/t", {})
    by_http(aws, hook, "web", retry={"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 40})
    hook.failing["/web"] = 1
    message_id = publish(aws, "kept for ever")
    aws.ends_as("t", message_id, web="delivered")
    aws.until(lambda: state_of(aws, "web") == "active")

    def attempts() -> list[int]:
        return [each["attempts"] for each in _archived(aws).get("deliveries", ()) if each["message_id"] == message_id]

    aws.until(lambda: 2 in attempts())
    found = _archived(aws)
    assert found.keys() == {"messages", "deliveries", "subscriptions", "lanes"}
    [message] = [record for record in found["messages"] if record.get("body")]
    assert message["message_id"] == message_id


def _archived(aws: Deployment) -> dict[str, list[dict[str, Any]]]:
    """The records in the archive's bucket, by their kinds."""
    s3, bucket = aws.aws.plain_client("s3"), aws.resolver.name_of("ArchiveBucket")
    found: dict[str, list[dict[str, Any]]] = {}
    for listed in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        content = s3.get_object(Bucket=bucket, Key=listed["Key"])["Body"].read()
        lines = gzip.decompress(content).splitlines()
        found.setdefault(listed["Key"].split("/")[1], []).extend(map(json.loads, lines))
    return found
