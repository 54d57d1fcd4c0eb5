"""The HTTP front by itself: odd names, pages of other origins, permissions of the API."""

import asyncio
import http.client
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
from tagcast_cli.api_client import client_for

from local.front.front import AsyncInvoke, Front
from local.front.http_event import HttpRequest, event_of
from local.front.routes import Routes
from local.functions.worker import Invocation
from local.template.translated import ANY, DEFAULT, RouteSpec

PATIENCE_S = 60.0
ROUTES = [RouteSpec("PUT", "/topics/{topic}", "F"), RouteSpec(ANY, DEFAULT, "F")]
Answer = tuple[int, str | None, bytes]
Call = Callable[..., Awaitable[Answer]]


async def echo(function: str, event: bytes) -> Invocation:
    answer = {"statusCode": 200, "body": json.dumps(json.loads(event).get("pathParameters"))}
    return Invocation(json.dumps(answer).encode())


@asynccontextmanager
async def calls_of(
    may_invoke: Callable[[str, str, str], bool] = lambda *_: True,
    invoke: AsyncInvoke = echo,
    host: str = "",
    folder: str = "",
    functions: Sequence[str] = (),
) -> AsyncIterator[Call]:
    """Yield what sends a request to a front and returns the status, the media type and the body of its answer."""
    front = Front(Routes(ROUTES), {"F": "f"}, invoke, may_invoke, host=host, folder=folder, user_functions=functions)
    port = await front.listen(0)

    def send(path: str, method: str, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request(method, path, b"{}", headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read()

    async def call(path: str, method: str = "PUT", **headers: str) -> Answer:
        named = {name: value.replace("PORT", str(port)) for name, value in headers.items()}
        return await asyncio.to_thread(send, path, method, named)

    try:
        yield call
    finally:
        await front.stop()


@pytest.mark.parametrize(
    ("content_type", "body", "sent", "is_base64"),
    [
        ("application/json", b"{}", "{}", False),
        ("", b"{}", "{}", False),
        ("application/octet-stream", b"{}", "e30=", True),
        ("application/json", b"\xff", "/w==", True),
    ],
)
def test_a_body_travels_as_text_where_it_says_that_it_is_and_as_base64_otherwise(
    content_type: str, body: bytes, sent: str, is_base64: bool
) -> None:
    event = event_of(HttpRequest("PUT", "/", "", (("Content-Type", content_type),), body), "PUT /", {}, [])
    assert (event["body"], event["isBase64Encoded"]) == (sent, is_base64)


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    """curl asks with a body of a MiB, and sends it a second later without an answer."""

    front = Front(Routes(ROUTES), {"F": "f"}, echo)
    port = await front.listen(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"PUT /topics/t HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
    writer.write(head % port)
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}")
    assert b" 200 " in await reader.readline()
    writer.close()
    await front.stop()


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "\0", "a b"])
async def test_a_name_with_any_character_reaches_the_function_that_judges_it(name: str) -> None:
    async with calls_of() as call:
        status, _, body = await call(f"/topics/{quote(name)}")
        assert (status, json.loads(body)) == (200, {"topic": name})


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_body_reaches_the_function_as_it_is(encoding: str) -> None:
    bodies = list[str]()

    async def keep(function: str, event: bytes) -> Invocation:
        bodies.append(json.loads(event)["body"])
        return await echo(function, event)

    async with calls_of(invoke=keep) as call:
        assert (await call("/topics/t", **{"content-encoding": encoding}))[0] == 200
    assert bodies == ["{}"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://127.0.0.1:PORT"}, 200),
        ({"origin": "http://localhost:PORT"}, 200),
        ({"origin": "https://example.com"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example:PORT"}, 403),
        ({"host": "127.0.0.1:1"}, 403),
        ({"host": "localhost:PORT"}, 200),
        ({"host": "tagcast.test:PORT"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/topics/t", "/metrics"])
async def test_a_browser_beside_the_stack_reaches_it_by_its_own_name_and_from_no_other_page(
    path: str, headers: dict[str, str], status: int
) -> None:
    async with calls_of(host="tagcast.test") as call:
        answer = await call(path, **headers)
        assert answer[0] == status
        assert status == 200 or answer[1] == "application/problem+json"


async def test_an_address_tells_where_its_stack_keeps_its_state_and_which_functions_it_has() -> None:
    async with calls_of(folder="/there", functions=["rate"]) as call:
        assert json.loads((await call("/stack", "GET"))[2]) == {"folder": "/there", "functions": ["rate"]}


async def test_a_function_that_the_api_may_not_invoke_is_a_fault_of_the_server() -> None:
    async with calls_of(lambda method, path, function: False) as call:
        assert (await call("/topics/t"))[:2] == (500, "application/problem+json")


async def test_commands_know_the_stack_by_its_answer() -> None:
    front = Front(Routes(ROUTES), {"F": "f"}, echo, lambda *_: True, folder="/there")
    port = await front.listen(0)
    try:
        with client_for(f"http://127.0.0.1:{port}", None, None) as api:
            answer = await asyncio.to_thread(api.request, "GET", "/stack")
    finally:
        await front.stop()
    assert json.loads(answer.text) == {"folder": "/there", "functions": []}


async def test_a_function_goes_on_when_its_caller_was_told_that_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("local.front.front.HTTP_API_TIMEOUT_S", 0.01)
    told, ended = threading.Event(), threading.Event()

    async def slow(function: str, event: bytes) -> Invocation:
        await asyncio.to_thread(told.wait, PATIENCE_S)
        ended.set()
        return await echo(function, event)

    async with calls_of(invoke=slow) as call:
        assert (await call("/topics/t"))[0] == 503
        told.set()
        assert await asyncio.to_thread(ended.wait, PATIENCE_S)


async def test_a_token_as_long_as_api_gateway_takes_reaches_the_function() -> None:
    async with calls_of() as call:
        assert (await call("/topics/a", authorization=f"Bearer {'t' * 10_000}"))[0] == 200


@pytest.mark.parametrize("header", ["Bearer TOKEN\x01", f"Bearer {'TOKEN' * 4_000}"], ids=["odd", "long"])
async def test_a_malformed_request_is_refused_and_no_log_quotes_it(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front(Routes(ROUTES), {"F": "f"}, echo)
    port = await front.listen(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT /topics/t HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: %b\r\n\r\n" % (port, header.encode()))
    assert b" 400 " in await reader.readline()
    writer.close()
    await front.stop()
    assert caplog.records == []


async def test_a_caller_that_goes_away_in_the_middle_of_its_request_is_nothing_to_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    front = Front(Routes(ROUTES), {"F": "f"}, echo)
    port = await front.listen(0)
    for body, is_whole in ((b"{", False), (b"{}", True)):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PUT /topics/t HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 2\r\n\r\n" % port + body)
        if is_whole:
            assert b" 200 " in await reader.readline()
        writer.close()
    await front.stop()
    assert caplog.records == []
