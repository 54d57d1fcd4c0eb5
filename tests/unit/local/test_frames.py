"""The short way of a call to the engine: what goes over it, who is cut off, and that the SDK says the same over it."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from local.engine.aws_request import Handler, Request
from local.engine.engine import Engine
from local.engine.http_server import listen_to_frames
from local.functions import sdk_plugin
from local.functions.frames import FrameCalls, call_head, pack_frame
from local.functions.plain_server import Response
from local.stack.stack import Stack, StackOptions

PATIENCE_S = 60.0
HEAD = call_head("KEY", "us-east-1", "sqs", "AmazonSQS.SendMessage")
URL = "http://127.0.0.1:9"
TABLE, KEY = "t", {"pk": {"S": "a"}, "sk": {"B": b"\x00\xff"}}
ITEM = {
    **KEY,
    "B": {"S": "b"},
    "sets": {"BS": [b"1", b"\xfe"]},
    "M": {"M": {"B": {"B": b"x"}, "BS": {"L": [{"N": "1"}]}}},
}


@contextmanager
def served(handler: Handler) -> Iterator[str]:
    """The address at which a handler is served in frames."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, told: None)
    server = loop.run_until_complete(listen_to_frames(handler, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


async def echo(request: Request) -> Response:
    """Answer what was asked; a call of Fail fails."""
    if request.headers["x-amz-target"].endswith(".Fail"):
        raise RuntimeError
    told = {"method": request.method, "caller": request.headers["authorization"], "size": len(request.body)}
    return Response(400 if request.body == b"no" else 200, (("x", "y"),), json.dumps(told).encode())


def test_a_call_comes_as_it_was_made_and_says_whether_it_was_carried_out() -> None:
    with served(echo) as address:
        calls = FrameCalls(address)
        done, told = calls.call(HEAD, b"z" * 3_000_000, PATIENCE_S)
        assert done
        assert json.loads(told) == {"method": "POST", "caller": HEAD.decode().partition("\n")[0], "size": 3_000_000}
        assert [calls.call(HEAD, body, PATIENCE_S)[0] for body in (b"no", b"")] == [False, True]


def test_who_waits_for_an_answer_that_the_engine_fails_to_give_is_cut_off_and_may_call_again() -> None:
    with served(echo) as address:
        calls = FrameCalls(address)
        with pytest.raises(ConnectionError):
            calls.call(HEAD.replace(b"SendMessage", b"Fail"), b"", PATIENCE_S)
        assert calls.call(HEAD, b"", PATIENCE_S)[0]


def test_an_answer_that_is_cut_off_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as engine:

        def answer_in_part() -> None:
            calling, _ = engine.accept()
            with calling:
                calling.recv(65_536)
                calling.sendall(pack_frame(b"200", b'{"Item": {}}')[:-4])

        answering = threading.Thread(target=answer_in_part)
        answering.start()
        with pytest.raises(ConnectionError):
            FrameCalls(f"127.0.0.1:{engine.getsockname()[1]}").call(HEAD, b"", PATIENCE_S)
        answering.join()


def test_who_speaks_anything_else_is_cut_off_before_anything_is_served() -> None:
    with served(echo) as address, socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as web:
        web.sendall(b"POST / HTTP/1.1\r\nx-amz-target: AmazonSQS.SendMessage\r\n\r\n")
        answered = bytearray()
        with suppress(ConnectionResetError):
            answered += web.recv(1)
        assert not answered


def test_calls_that_come_in_pieces_or_together_are_answered_in_their_order() -> None:
    with served(echo) as address, socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as raw:
        frames = pack_frame(HEAD, b"1") + pack_frame(HEAD, b"no") + pack_frame(HEAD, b"333")
        for piece in (frames[:5], frames[5:100], frames[100:]):
            raw.sendall(piece)
        with raw.makefile("rb") as answers:
            found = []
            for _ in range(3):
                head, body = (int.from_bytes(answers.read(4)) for _ in range(2))
                found.append((answers.read(head), json.loads(answers.read(body))["size"]))
    assert found == [(b"200", 1), (b"400", 2), (b"200", 3)]


def test_what_was_begun_for_a_caller_that_goes_away_ends_with_it() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def wait(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Response(200)

    with served(wait) as address:
        with pytest.raises(TimeoutError):
            FrameCalls(address).call(HEAD, b"", 0.01)
        assert begun.wait(PATIENCE_S)
        assert ended.wait(PATIENCE_S)


SAID: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "dynamodb": {
        "GetItem": ({"TableName": TABLE, "Key": KEY, "ConsistentRead": True}, {"Item": ITEM}),
        "BatchGetItem": (
            {"RequestItems": {TABLE: {"Keys": [KEY], "ConsistentRead": True}}},
            {"Responses": {TABLE: [ITEM]}, "UnprocessedKeys": {}},
        ),
        "Query": (
            {"TableName": TABLE, "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}},
            {"Items": [ITEM], "Count": 1, "LastEvaluatedKey": KEY},
        ),
        "UpdateItem": (
            {"TableName": TABLE, "Key": KEY, "UpdateExpression": "SET #b = :b", "ExpressionAttributeNames": {"#b": "B"},
             "ExpressionAttributeValues": {":b": {"BS": [b"1"]}}},
            {},
        ),
    },
    "sqs": {
        "SendMessageBatch": (
            {"QueueUrl": f"{URL}/1/q.fifo", "Entries": [{"Id": "0", "MessageBody": "\u00fc", "MessageGroupId": "g"}]},
            {"Successful": [{"Id": "0", "MessageId": "1", "MD5OfMessageBody": "x"}], "Failed": []},
        ),
        "ReceiveMessage": (
            {"QueueUrl": f"{URL}/1/q", "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]},
            {"Messages": [{"MessageId": "1", "Body": "b", "Attributes": {"ApproximateReceiveCount": "1"}}]},
        ),
    },
    "firehose": {
        "PutRecordBatch": (
            {"DeliveryStreamName": "d", "Records": [{"Data": b"line\n"}]},
            {"FailedPutCount": 0, "RequestResponses": [{"RecordId": "r"}]},
        ),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    return boto3.session.Session(aws_access_key_id="KEY", aws_secret_access_key="s", region_name="us-east-1")


@pytest.fixture
def make_client(session: boto3.session.Session, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Makes a client as a worker does whose engine takes frames at an address; "" is a worker without the plugin."""

    def make(service: Any, address: str) -> Any:
        monkeypatch.setenv("AWS_ENDPOINT_URL", URL)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
        for name, value in sdk_plugin.plugin_environment(address).items():
            monkeypatch.setenv(name, value if address else "")
        return session.client(service, endpoint_url=URL)

    return make


class Wire:
    """What botocore would send over HTTP, answered without sending it."""

    def __init__(self, status: int, body: bytes) -> None:
        self.sent: list[Any] = []
        self._answer = status, body

    def send(self, request: Any, **_: Any) -> AWSResponse:
        status, body = self._answer
        self.sent.append(request)
        raw = SimpleNamespace(stream=lambda *_, **__: iter([body]))
        return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.0"}, raw)  # type: ignore[arg-type]


@pytest.mark.parametrize("service", sdk_plugin.SERVICES)
def test_the_sdk_says_and_hears_the_same_by_either_way(service: str, make_client: Callable[[str, str], Any]) -> None:
    answers: list[bytes] = []
    called: list[tuple[str, str, Any]] = []

    async def engine(request: Request) -> Response:
        called.append((request.headers["x-amz-target"], request.headers["authorization"], json.loads(request.body)))
        return Response(200, body=answers[-1])

    with served(engine) as address:
        short_way, long_way = make_client(service, address), make_client(service, "")
        for operation, (request, found) in SAID[service].items():
            answers.append(sdk_plugin.encode_request(found) if found else b"")
            wire = Wire(200, answers[-1])
            long_way.meta.events.register("before-send", wire.send, operation)
            heard = [way._make_api_call(operation, request) for way in (short_way, long_way)]
            long_way.meta.events.unregister("before-send", unique_id=operation)
            for told in heard:
                told.pop("ResponseMetadata")
            assert heard[0] == heard[1] == found
            (sent,) = wire.sent
            target, caller, body = called.pop()
            assert (target, body) == (sent.headers["X-Amz-Target"].decode(), json.loads(sent.body))
            assert caller.split("/")[2:4] == sent.headers["Authorization"].decode().split("/")[2:4]


def test_what_is_refused_is_told_by_the_sdk_as_ever(make_client: Callable[[str, str], Any]) -> None:
    refused = json.dumps({"__type": "ConditionalCheckFailedException", "message": "no"}).encode()

    async def engine(request: Request) -> Response:
        return Response(400, body=refused)

    wire = Wire(400, refused)
    with served(engine) as address:
        client = make_client("dynamodb", address)
        client.meta.events.register("before-send", wire.send)
        with pytest.raises(ClientError) as fault:
            client.put_item(TableName=TABLE, Item=ITEM)
    assert fault.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert len(wire.sent) == 1


def test_where_nobody_takes_frames_and_for_other_services_the_sdk_goes_its_long_way(
    make_client: Callable[[str, str], Any],
) -> None:
    wire = Wire(200, b"{}")
    for service, operation in (("dynamodb", "ListTables"), ("stepfunctions", "ListActivities")):
        client = make_client(service, "127.0.0.1:9")
        client.meta.events.register("before-send", wire.send)
        client._make_api_call(operation, {})
    assert [request.headers["X-Amz-Target"].decode() for request in wire.sent] == [
        "DynamoDB_20120810.ListTables",
        "AWSStepFunctions.ListActivities",
    ]


def test_a_client_of_anything_but_the_engine_goes_its_long_way(
    make_client: Callable[[str, str], Any], session: boto3.session.Session
) -> None:
    wire = Wire(200, b"{}")
    with served(echo) as address:
        make_client("dynamodb", address)
        elsewhere: Any = session.client("dynamodb", endpoint_url="http://127.0.0.1:10")
        elsewhere.meta.events.register("before-send", wire.send)
        elsewhere.list_tables()
    assert [request.url for request in wire.sent] == ["http://127.0.0.1:10/"]


def test_a_worker_finds_the_plugin_beside_the_layer_and_nothing_else_is_needed(tmp_path: Path) -> None:
    engine = Engine(tmp_path, "127.0.0.1:9")
    environment = Stack(StackOptions(folder=tmp_path))._common_environment(engine, engine.owner)
    name = environment[sdk_plugin.PLUGINS].partition("=")[2]
    code = f"import {name} as plugin, tagcast; plugin._calls({environment[sdk_plugin.ADDRESS]!r})"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, env=environment, check=True)
    assert environment[sdk_plugin.ADDRESS] == engine.frames
