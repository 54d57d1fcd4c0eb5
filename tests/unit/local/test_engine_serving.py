"""How the engine is served: over HTTP, by the short way to its services, with receives that wait, and snapshots."""

import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from local.engine.asgi import Message, handler_of
from local.engine.aws_request import Handler, Request
from local.engine.direct_calls import DirectCalls
from local.engine.http_server import http_server
from local.engine.queues import LongPoll
from local.functions.plain_server import Response

PATIENCE_S = 60


async def application(scope: Message, receive: Any, send: Any) -> None:
    """Answer as an ASGI application does: in parts, with headers as bytes."""
    body = (await receive())["body"]
    if scope["method"] == "HEAD":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"12345")]})
        await send({"type": "http.response.body"})
        return
    told = {"path": scope["path"], "raw": scope["raw_path"].decode(), "query": scope["query_string"].decode()}
    headers = [(b"x-a", value) for name, value in scope["headers"] if name == b"x-a"]
    answer = json.dumps({**told, "size": len(body)}).encode()
    await send({"type": "http.response.start", "status": 207, "headers": headers})
    await send({"type": "http.response.body", "body": answer[:7], "more_body": True})
    await send({"type": "http.response.body", "body": answer[7:]})


echo = handler_of(application)


async def asked(method: str, path: str, **how: Any) -> tuple[int, dict[str, str], bytes]:
    runner = web.ServerRunner(http_server(echo))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        url = URL(f"http://{host}:{port}{path}", encoded=True)
        async with aiohttp.ClientSession() as session, session.request(method, url, **how) as found:
            headers = {name.lower(): found.headers[name] for name in found.headers}
            return found.status, headers, await found.read()
    finally:
        await runner.cleanup()


async def test_a_request_comes_as_it_was_sent_and_its_answer_goes_as_it_was_made() -> None:
    status, headers, body = await asked("PUT", "/b/a%2Fb%20c?x=1&y", data=b"z" * 3_000_000, headers={"x-A": "\u00fc"})
    assert (status, headers["x-a"]) == (207, "\u00fc")
    assert json.loads(body) == {"path": "/b/a/b c", "raw": "/b/a%2Fb%20c", "query": "x=1&y", "size": 3_000_000}


async def test_who_asks_whether_to_go_on_is_told_to() -> None:
    status, _, body = await asked("PUT", "/k", data=b"zz", expect100=True)
    assert (status, json.loads(body)["size"]) == (207, 2)


async def test_the_length_that_head_tells_is_that_of_what_it_leaves_out() -> None:
    assert (await asked("HEAD", "/k"))[1]["content-length"] == "12345"


async def test_a_caller_that_goes_away_in_the_middle_is_neither_answered_nor_judged() -> None:
    served: list[bytes] = []

    async def handler(request: Request) -> Response:
        served.append(request.body)
        return Response(200)

    runner = web.ServerRunner(http_server(handler))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
    for body in (b'{"Tab', b'{"T": ""}'):
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(head + body)
        await writer.drain()
        if len(body) == 9:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
    await runner.cleanup()
    assert served == [b'{"T": ""}']


async def through(handler: Handler, target: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    found = await handler(Request("POST", "/", "", {"x-amz-target": target, **headers}, b"{}"))
    return found.status, dict(found.headers), found.body


async def test_a_call_that_names_its_service_goes_there_in_the_name_of_its_caller_and_any_other_to_the_engine() -> None:
    entered: list[str] = []

    async def tables(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        return 400, {"x-amz-crc32": 7, "Content-Length": "9"}, headers["x-amz-target"]

    way = DirectCalls(echo, {"DynamoDB_20120810": tables}, lambda headers: entered.append(headers["authorization"]))
    status, headers, body = await through(way, "DynamoDB_20120810.GetItem", authorization="me")
    assert (status, body) == (400, b"DynamoDB_20120810.GetItem")
    assert (headers.pop("x-amz-crc32"), list(headers)) == ("7", ["x-amzn-requestid"])
    assert entered == ["me"]
    assert (await through(way, "AWSStepFunctions.StartExecution"))[0] == 207
    assert (await through(way, "DynamoDB_20120810.GetItem", **{"content-encoding": "gzip"}))[0] == 207


async def test_a_receive_that_waits_is_answered_by_what_is_sent_and_by_no_other_queue() -> None:
    queue: list[str] = []
    looks: list[int] = []

    async def receive(request: dict[str, Any], url: str) -> dict[str, Any]:
        looks.append(request["WaitTimeSeconds"])
        return {"Messages": queue[:]} if queue else {}

    def send(request: dict[str, Any], url: str) -> dict[str, Any]:
        queue.append(request["MessageBody"])
        return {"MessageId": "1"}

    poll = LongPoll(receive, look_s=PATIENCE_S)
    waiting = asyncio.ensure_future(poll.receive({"QueueUrl": "http://a/1/q", "WaitTimeSeconds": 20}, ""))
    await asyncio.sleep(0)
    await poll.waking(lambda request, url: {})({"QueueUrl": "http://a/1/other"}, "")
    sent = await poll.waking(send)({"QueueUrl": "http://b/1/q/", "MessageBody": "m"}, "")

    assert (await waiting, sent) == ({"Messages": ["m"]}, {"MessageId": "1"})
    assert looks == [0, 0]


async def test_a_receive_waits_no_longer_than_it_was_asked_to_and_looks_meanwhile_for_what_time_brings() -> None:
    looks: list[Any] = []

    async def receive(request: dict[str, Any], url: str) -> dict[str, Any]:
        looks.append(request.get("WaitTimeSeconds"))
        return {}

    poll = LongPoll(receive, look_s=0.2)

    assert await poll.receive({"WaitTimeSeconds": 1}, "http://a/1/q") == {}
    assert await poll.receive({}, "http://a/1/q") == {}
    assert len(looks) > 3
    assert looks[-1] is None
