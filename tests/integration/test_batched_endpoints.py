"""Several messages in one request to a server, a queue or a function, and what their answers mean."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.model import Batching, ContentFormat, Draft, Endpoint, Outcome, Protocol, Push, PushBatch
from tagcast.pushing.batch_form import (
    ANSWER_BYTES_MAX,
    MALFORMED,
    NAMED,
    batch_event,
    batch_request,
    read_response,
    shared_item,
)
from tagcast.pushing.content_formats import CLOUDEVENTS_BATCH_TYPE, envelope, structured_cloudevent
from tagcast.pushing.envelope import queue_message
from tagcast.pushing.push_slots import ITEM_BYTES_AROUND, BytesInFlight
from tagcast.pushing.response_text import READ_BYTES_MAX
from tagcast_aws.endpoints.function import FunctionEndpoint
from tagcast_aws.endpoints.sqs import QueueEndpoint

from tests.fakes.pushes import NOW, push_to
from tests.integration.test_endpoint_words import Clients
from tests.integration.test_endpoints_http import OK as HTTP_OK
from tests.integration.test_endpoints_http import pusher_with, read_request, serving_elsewhere

IDS = [f"{7457000000000000000 + number:020d}" for number in range(3)]
DRAFTS = [
    Draft("Grüße".encode(), tags=("apple",)),
    Draft(b'{"a": 1}', content_type="application/json", ordering_key="k"),
    Draft(b"\xff\x00", is_text=False),
]
TAKEN = Outcome(True, "http 200", status=200)
FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:f"
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/q"


def batch_to(
    protocol: Protocol, target: str, content_format: ContentFormat = ContentFormat.JSON, secret: str | None = None
) -> PushBatch:
    known = push_to("http://127.0.0.1/", secret=secret)
    settings = replace(
        known.subscription.settings,
        endpoint=Endpoint(protocol, target),
        content_format=content_format,
        batching=Batching(10, 65_536),
    )
    owner = replace(known.subscription, settings=settings)
    messages = [replace(known.message, message_id=each, draft=draft) for each, draft in zip(IDS, DRAFTS, strict=True)]
    return PushBatch(owner, tuple(Push(owner, message, 1) for message in messages), "batch_1")


def posted(
    pushed: Push | PushBatch, answer: bytes = b"ok", status: int = 200, more: str = ""
) -> tuple[bytes, bytes, Outcome]:
    """Return the head and the body that a server gets, and the outcome of its *answer* with the header lines *more*."""
    requests: list[tuple[bytes, bytes]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n{more}\r\n".encode() + answer)

    pusher = pusher_with()
    with serving_elsewhere(talk) as port:
        there = Endpoint(Protocol.HTTP, f"http://127.0.0.1:{port}/")
        settings = replace(pushed.subscription.settings, endpoint=there)
        moved = replace(pushed, subscription=replace(pushed.subscription, settings=settings))
        outcome = pusher.run(pusher.push(moved) if isinstance(moved, Push) else pusher.push_batch(moved))
        pusher.close()
    [(head, body)] = requests
    return head, body, outcome


def test_a_server_gets_one_array_of_envelopes_under_an_id_of_the_request() -> None:
    batch = batch_to(Protocol.HTTP, "", secret="whsec_c2VjcmV0")
    head, body, outcome = posted(batch)
    lines = head.lower().split(b"\r\n")

    assert outcome == TAKEN
    assert json.loads(body) == [envelope(push) for push in batch.pushes]
    assert {b"webhook-id: batch_1", b"x-tagcast-batch: 3", b"content-type: application/json"} <= set(lines)
    assert not [line for line in lines if line.startswith((b"x-tagcast-tags", b"traceparent"))]


def test_a_server_gets_cloudevents_in_their_batch_format() -> None:
    batch = batch_to(Protocol.HTTP, "", ContentFormat.CLOUDEVENTS)
    head, body, _ = posted(batch)

    assert json.loads(body) == [json.loads(structured_cloudevent(push.message)) for push in batch.pushes]
    assert f"content-type: {CLOUDEVENTS_BATCH_TYPE}".encode() in head.lower().split(b"\r\n")


def test_a_server_gets_the_headers_that_its_subscriber_chose_with_every_request() -> None:
    chosen = {"authorization": "Bearer token-4711", "x-tenant": 'a "b"'}
    batch = batch_to(Protocol.HTTP, "", secret="whsec_c2VjcmV0")
    owner = replace(batch.subscription, settings=replace(batch.subscription.settings, headers=chosen))
    alone = replace(batch.pushes[0], subscription=owner)

    for pushed in (replace(batch, subscription=owner), alone):
        head = posted(pushed)[0]
        assert {b"authorization: Bearer token-4711", b'x-tenant: a "b"'} <= set(head.split(b"\r\n"))


def failures(*ids: object) -> bytes:
    return json.dumps({"batchItemFailures": [{"itemIdentifier": each} for each in ids]}).encode()


@pytest.mark.parametrize(
    "answer",
    [b"", b"ok", b"null", b"[]", b"<html>", b"{}", b'{"ok": true}', b'{"batchItemFailures": null}', failures()],
)
def test_an_answer_that_names_nobody_takes_all(answer: bytes) -> None:
    assert read_response(batch_to(Protocol.HTTP, ""), TAKEN, answer) == TAKEN


def test_a_page_without_end_takes_all_and_a_list_without_end_fails_the_batch() -> None:
    batch, more = batch_to(Protocol.HTTP, ""), b" " * ANSWER_BYTES_MAX

    assert posted(batch, b"<html>" + more)[2] == TAKEN
    assert posted(batch, b'{"batchItemFailures": [' + more + b"]}")[2].detail == MALFORMED


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_byte_order_mark_hides_no_failure_and_the_answer_is_remembered(mark: bytes) -> None:
    answer = mark + failures(IDS[0])

    told = read_response(batch_to(Protocol.HTTP, ""), TAKEN, answer)

    assert told == replace(TAKEN, failed={IDS[0]: NAMED})
    assert told.of(IDS[0]).answer == failures(IDS[0])


def test_an_answer_names_the_messages_that_failed() -> None:
    outcome = posted(batch_to(Protocol.HTTP, ""), b" \n" * READ_BYTES_MAX + failures(IDS[2], IDS[1], IDS[1]))[2]

    assert outcome == replace(TAKEN, failed={IDS[1]: NAMED, IDS[2]: NAMED})
    assert [outcome.of(each).delivered for each in IDS] == [True, False, False]
    assert outcome.of(IDS[1]).detail == NAMED


@pytest.mark.parametrize(
    "answer",
    [
        failures("07457000000000000099"),
        failures(IDS[0], ""),
        failures(None),
        failures(7),
        failures([IDS[0]]),
        b'{"batchItemFailures": {}}',
        b'{"batchItemFailures": ["x"]}',
        b'{"batchItemFailures": [{"id": "x"}]}',
        b'{"batchItemFailures": [{"itemIdentifier": "',
        b'{"a":' * 50_000,
        b'{"a": ' + b"1" * 5_000 + b"}",
    ],
)
def test_an_answer_that_names_failures_and_cannot_be_read_fails_the_batch(answer: bytes) -> None:
    outcome = read_response(batch_to(Protocol.HTTP, ""), TAKEN, answer)

    assert (outcome.delivered, outcome.detail, outcome.status) == (False, MALFORMED, 200)


@pytest.mark.parametrize(("coding", "is_read"), [("gzip", False), ("br", False), ("Identity", True)])
def test_a_compressed_answer_hides_no_failure_though_nobody_asked_for_it(coding: str, is_read: bool) -> None:
    answer = failures(IDS[0]) if is_read else gzip.compress(failures(IDS[0]))
    head, _, outcome = posted(batch_to(Protocol.HTTP, ""), answer, more=f"Content-Encoding: {coding}\r\n")

    assert b"accept-encoding: identity" in head.lower().split(b"\r\n")
    if is_read:
        assert outcome == replace(TAKEN, failed={IDS[0]: NAMED})
    else:
        assert (outcome.delivered, outcome.detail, outcome.answer) == (False, MALFORMED, b"{compressed}")


def test_what_failed_as_a_whole_is_told_by_its_status_whatever_it_names() -> None:
    batch = batch_to(Protocol.HTTP, "")

    for answer in (failures(IDS[0]), b'{"batchItemFailures": ['):
        outcome = posted(batch, answer, 500)[2]
        assert (outcome.delivered, outcome.detail, outcome.failed) == (False, "http 500", {})


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
def test_a_batch_and_a_push_of_the_same_message_at_once_have_each_its_own_form(content_format: ContentFormat) -> None:
    bodies: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append((await read_request(reader))[1])
        writer.write(HTTP_OK)

    pusher = pusher_with()
    with serving_elsewhere(talk) as port:
        batch = batch_to(Protocol.HTTP, f"http://127.0.0.1:{port}/", content_format)

        async def both() -> None:
            await asyncio.gather(pusher.push(batch.pushes[0]), pusher.push_batch(batch))

        pusher.run(both())
        pusher.close()
    alone, together = sorted(bodies, key=len)
    batched = json.loads(together)[0]
    message = batch.pushes[0].message
    if content_format is ContentFormat.CLOUDEVENTS:
        assert (alone, batched) == (message.draft.body, json.loads(structured_cloudevent(message)))
    else:
        assert json.loads(alone) == batched == envelope(batch.pushes[0])


def delivered(endpoint: Any, clients: Clients, batch: PushBatch) -> Outcome:
    async def deliver() -> Outcome:
        result: Outcome = await endpoint(clients.surroundings()).deliver_batch(batch)
        return result

    return asyncio.run(deliver())


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.SIMPLIFIED])
def test_a_queue_gets_all_messages_in_one_request_and_may_refuse_some(content_format: ContentFormat) -> None:
    batch = batch_to(Protocol.SQS, QUEUE, content_format)
    clients = Clients({"Successful": [], "Failed": [{"Id": IDS[1], "Code": "InternalError", "SenderFault": False}]})

    outcome = delivered(QueueEndpoint, clients, batch)

    assert outcome == Outcome(True, "sqs accepted", failed={IDS[1]: "sqs: InternalError"})
    [(operation, request)] = clients.client.asked
    assert (operation, request["QueueUrl"]) == ("send_message_batch", QUEUE)
    assert [each["Id"] for each in request["Entries"]] == IDS
    assert [each["MessageBody"] for each in request["Entries"]] == [queue_message(push).body for push in batch.pushes]
    assert [(service, region) for service, region, _ in clients.made] == [("sqs", "eu-west-1")]


def test_a_fifo_queue_gets_group_and_id_of_each() -> None:
    batch = batch_to(Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:q.fifo")
    clients = Clients({})
    clients.client.meta = SimpleNamespace(endpoint_url="https://sqs.eu-west-1.amazonaws.com")

    assert delivered(QueueEndpoint, clients, batch) == Outcome(True, "sqs accepted")
    entries = clients.client.requests[0]["Entries"]
    assert [each["MessageGroupId"] for each in entries] == ["fruit", "k", "fruit"]
    assert [each["MessageDeduplicationId"] for each in entries] == [f"fruit-{each}" for each in IDS]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"null", Outcome(True, "function returned")),
        (b'{"batchItemFailures": []}', Outcome(True, "function returned")),
        (failures(IDS[0]), Outcome(True, "function returned", failed={IDS[0]: NAMED})),
        (failures("unknown"), Outcome(False, MALFORMED)),
    ],
)
def test_a_function_gets_all_messages_in_one_event_and_may_name_some(payload: bytes, expected: Outcome) -> None:
    batch = batch_to(Protocol.LAMBDA, FUNCTION)
    clients = Clients({"Payload": io.BytesIO(payload)})

    assert delivered(FunctionEndpoint, clients, batch) == expected
    [(_, request)] = clients.client.asked
    assert json.loads(request["Payload"]) == {"messages": [envelope(push) for push in batch.pushes]}


def test_a_function_that_fails_fails_the_batch() -> None:
    said = b" " * READ_BYTES_MAX + failures(IDS[0])
    clients = Clients({"Payload": io.BytesIO(said), "FunctionError": "Unhandled"})

    outcome = delivered(FunctionEndpoint, clients, batch_to(Protocol.LAMBDA, FUNCTION))
    assert (outcome.delivered, outcome.answer) == (False, said[:READ_BYTES_MAX])


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
@pytest.mark.parametrize("protocol", [Protocol.HTTP, Protocol.LAMBDA, Protocol.SQS])
def test_what_a_message_is_counted_with_is_what_it_takes_or_slightly_more(
    protocol: Protocol, content_format: ContentFormat
) -> None:
    batch = batch_to(protocol, QUEUE, content_format)
    counted = BytesInFlight()
    weights = [counted.item_size(batch.subscription, push.message) for push in batch.pushes]
    if protocol is Protocol.SQS:
        sent = [queue_message(push) for push in batch.pushes]
        taken = sum(
            len(each.body.encode()) + sum(len(f"{name}String{value}") for name, value in each.attributes.items())
            for each in sent
        )
    elif protocol is Protocol.LAMBDA:
        taken = len(batch_event(batch))
    else:
        shared = [shared_item(push.message, content_format) for push in batch.pushes]
        taken = len(batch_request(batch, NOW, "1", shared).body)

    assert taken <= sum(weights) <= taken + len(weights) * ITEM_BYTES_AROUND
