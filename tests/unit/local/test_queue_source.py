"""The event source of a queue: what is done goes, what failed comes again, and a killed stack's batch is given back."""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, cast

from local.engine.engine_calls import EngineCallError, EngineCalls
from local.functions.worker import Invocation
from local.sources.batch_result import Invoke
from local.sources.queue_source import LASTS_S, RETRY_S, TURNS, QueueSource
from local.sources.sources import BATCHES_AT_ONCE

MESSAGES = [
    {"MessageId": name, "ReceiptHandle": f"receipt-{name}", "Body": name, "Attributes": {"MessageGroupId": "g"}}
    for name in "abc"
]


@dataclass
class Queue:
    """Gives out its messages once; who called what is kept."""

    refuses: str = ""
    left: list[dict[str, Any]] = field(default_factory=lambda: list(MESSAGES))
    deleted: list[str] = field(default_factory=list)
    shown_again: list[tuple[str, int]] = field(default_factory=list)

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        assert (service, request["QueueUrl"]) == ("sqs", "u")
        match operation:
            case "ReceiveMessage":
                most = request["MaxNumberOfMessages"]
                found, self.left = self.left[:most], self.left[most:]
                return {"Messages": found} if found else {}
            case "DeleteMessageBatch":
                assert len({each["Id"] for each in request["Entries"]}) == len(request["Entries"])
                self.deleted += [each["ReceiptHandle"] for each in request["Entries"]]
            case "ChangeMessageVisibility":
                if request["ReceiptHandle"] == self.refuses:
                    raise EngineCallError("the receipt is void")
                self.shown_again.append((request["ReceiptHandle"], request["VisibilityTimeout"]))
        return {}


def source_of(queue: Queue, invoke: Invoke) -> QueueSource:
    calls = cast("EngineCalls", queue)
    return QueueSource(calls, calls, "u", "arn:aws:sqs:r:1:q", "f", invoke, warn=lambda text: None)


def test_what_is_done_goes_from_the_queue_and_what_failed_comes_again_soon() -> None:
    events: list[dict[str, Any]] = []

    def invoke(function: str, payload: bytes) -> Invocation:
        events.append(json.loads(payload))
        return Invocation(b'{"batchItemFailures": [{"itemIdentifier": "b"}]}')

    queue = Queue()
    source = source_of(queue, invoke)

    assert (source.step(), source.step()) == (3, 0)
    assert queue.deleted == ["receipt-a", "receipt-c"]
    assert queue.shown_again == [("receipt-b", RETRY_S)]
    [event] = events
    assert [(each["messageId"], each["attributes"]["MessageGroupId"]) for each in event["Records"]] == [
        ("a", "g"), ("b", "g"), ("c", "g"),
    ]  # fmt: skip


def test_a_batch_has_as_many_messages_as_the_template_says_and_no_receive_more_than_ten() -> None:
    many = [{**MESSAGES[0], "MessageId": str(number)} for number in range(23)]
    for batch_size, taken in ((4, 4), (100, 10)):
        source = source_of(Queue(left=list(many)), lambda function, payload: Invocation(b"{}"))
        source.batch_size = batch_size
        assert source.step() == taken


def test_what_the_function_gave_back_itself_is_left_alone_without_a_warning() -> None:
    def invoke(function: str, payload: bytes) -> Invocation:
        return Invocation(json.dumps({"batchItemFailures": [{"itemIdentifier": name} for name in "bc"]}).encode())

    said: list[str] = []
    source = source_of(queue := Queue(refuses="receipt-b"), invoke)
    source.warn = said.append
    source.step()
    assert (queue.deleted, queue.shown_again) == (["receipt-a"], [("receipt-c", RETRY_S)])
    assert said == ["f: 1 of 3 queue messages will be tried again"]


def begun_at_s(batch_s: float) -> list[float]:
    """Let a queue that is never empty be taken from for a second, in batches that last so long."""
    began_s, begun, over = time.monotonic(), list[float](), threading.Event()

    class Endless(Queue):
        def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if operation != "ReceiveMessage":
                return super().call(service, operation, request)
            return {"Messages": MESSAGES[:1]}

    def invoke(function: str, payload: bytes) -> Invocation:
        begun.append(time.monotonic() - began_s)
        over.wait(batch_s)
        return Invocation(b"{}")

    source = source_of(Endless(), invoke)

    def take() -> None:
        while time.monotonic() - began_s < 2.5 * LASTS_S:
            source.step()

    threads = [threading.Thread(target=take, daemon=True) for _ in range(BATCHES_AT_ONCE)]
    for thread in threads:
        thread.start()
    time.sleep(2.5 * LASTS_S)
    over.set()
    for thread in threads:
        thread.join(10)
    return [at_s for at_s in begun if at_s < 2.5 * LASTS_S]


def test_batches_that_last_keep_nobody_from_receiving() -> None:
    begun = begun_at_s(10.0)

    assert len([at_s for at_s in begun if at_s < LASTS_S / 2]) <= TURNS
    assert len(begun) > 2 * TURNS


def test_batches_that_end_soon_overlap_by_two() -> None:
    begun = begun_at_s(LASTS_S / 5)

    assert len(begun) <= TURNS * (2.5 * LASTS_S / (LASTS_S / 5) + 1)


def test_a_batch_is_about_one_topic() -> None:
    said = [
        {**MESSAGES[0], "MessageId": str(place), "Body": json.dumps({"topic": f"t{place % 2}"})} for place in range(4)
    ]
    events: list[list[str]] = []

    def invoke(function: str, payload: bytes) -> Invocation:
        events.append([record["messageId"] for record in json.loads(payload)["Records"]])
        return Invocation(b"{}")

    assert source_of(Queue(left=said), invoke).step() == 4
    assert sorted(events) == [["0", "2"], ["1", "3"]]
