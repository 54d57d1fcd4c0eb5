"""The event source of a queue: what is done goes, what failed comes again, and a killed stack's batch is given back."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, cast

from local.engine.engine_calls import EngineCallError, EngineCalls
from local.functions.lambda_api import Invocation
from local.sources.batch_result import Invoke
from local.sources.queue_source import RECEIVING_MAX, RETRY_S, QueueSource
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
                found, self.left = self.left, []
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


def test_what_the_function_gave_back_itself_is_left_alone_without_a_warning() -> None:
    def invoke(function: str, payload: bytes) -> Invocation:
        return Invocation(json.dumps({"batchItemFailures": [{"itemIdentifier": name} for name in "bc"]}).encode())

    said: list[str] = []
    source = source_of(queue := Queue(refuses="receipt-b"), invoke)
    source.warn = said.append
    source.step()
    assert (queue.deleted, queue.shown_again) == (["receipt-a"], [("receipt-c", RETRY_S)])
    assert said == ["f: 1 of 3 queue messages will be tried again"]


def test_a_batch_that_lasts_keeps_nobody_from_receiving_the_next() -> None:
    """As many batches overlap as there are threads, and few of those receive at a time."""
    lasting, begun = threading.Event(), threading.Semaphore(0)
    polls, most = 0, 0

    class Endless(Queue):
        def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            nonlocal polls, most
            if operation != "ReceiveMessage":
                return super().call(service, operation, request)
            polls += 1
            most = max(most, polls)
            time.sleep(0.01)
            polls -= 1
            return {"Messages": MESSAGES[:1]}

    def invoke(function: str, payload: bytes) -> Invocation:
        begun.release()
        lasting.wait(10)
        return Invocation(b"{}")

    source = source_of(Endless(), invoke)
    threads = [threading.Thread(target=source.step, daemon=True) for _ in range(BATCHES_AT_ONCE)]
    for thread in threads:
        thread.start()
    assert all(begun.acquire(timeout=10) for _ in threads)
    lasting.set()
    for thread in threads:
        thread.join(10)
    assert most <= RECEIVING_MAX
