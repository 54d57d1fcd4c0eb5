"""HTTP endpoints against real servers on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, current_thread

import aiohttp
import pytest
from aiohttp import web
from tagcast.model import Draft, Outcome, Protocol
from tagcast.pushing.batch_form import ANSWER_BYTES_MAX
from tagcast.pushing.envelope import http_request
from tagcast.pushing.response_text import READ_BYTES_MAX
from tagcast_aws.endpoints.adapter import THREADS_MAX, AdapterEnvironment, AwsConnections, threads_for_pushes
from tagcast_aws.endpoints.connector import RECEIVED_BYTES_MAX, KeepingConnector
from tagcast_aws.endpoints.pusher import ADAPTERS, EndpointPusher
from tagcast_aws.runtime.settings import Reach

from tests.certificates import Issuer
from tests.fakes.pushes import NOW, PATIENT_S, push_to
from tests.fakes.stopped_clock import StoppedClock

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def pusher_with(**settings: object) -> EndpointPusher:
    around = AdapterEnvironment(StoppedClock(NOW), "1", **{"reach": Reach.ANY, **settings})  # type: ignore[arg-type]
    return EndpointPusher(around)


@asynccontextmanager
async def serving(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def serving_elsewhere(talk: Talk) -> Iterator[int]:
    """Serve on a loop of its own, so that nothing of the server is on the pusher's."""
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        async with serving(talk) as port:
            started.set_result((port, asyncio.get_running_loop(), over))
            await over.wait()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    port, loop, over = started.result(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head, await reader.readexactly(int(length.partition(b":")[2]))


def saying(*parts: bytes, holds: bool = False) -> Talk:
    """Answer the first request in parts, a moment apart; then close the connection, or hold it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02 if part is not parts[-1] else 0)
        if holds:
            await reader.read()
        writer.close()

    return talk


def keeping(peers: list[object]) -> Talk:
    """Answer every request of a connection; note who opens one."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername"))
        with suppress(asyncio.IncompleteReadError):
            while not reader.at_eof():
                await read_request(reader)
                writer.write(OK)

    return talk


def outcomes_of(
    talk: Talk, times: int, path: str = "/hook?token=hush", *, pause_s: float = 0.0, timeout_s: int = PATIENT_S
) -> list[Outcome]:
    """Push so many times to a server that talks so, with a pause behind each push."""

    async def attempts() -> list[Outcome]:
        outcomes = []
        async with serving(talk) as port:
            for _ in range(times):
                outcomes.append(await pusher.push(push_to(f"http://127.0.0.1:{port}{path}", timeout_s=timeout_s)))
                await asyncio.sleep(pause_s)
            await pusher.aclose()
        return outcomes

    pusher = pusher_with()
    return asyncio.run(attempts())


def outcome_of(talk: Talk, timeout_s: int = PATIENT_S) -> Outcome:
    [outcome] = outcomes_of(talk, 1, timeout_s=timeout_s)
    return outcome


def pushed(url: str, secret: str | None = None, **settings: object) -> Outcome:
    """Push once, by a pusher with these settings."""
    pusher = pusher_with(**settings)
    outcome = pusher.run(pusher.push(push_to(url, secret=secret)))
    pusher.close()
    return outcome


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("500 X\r\n", Outcome(False, "http 500")),
        ("410 X\r\n", Outcome(False, "http 410", gone=True)),
        ("404 X\r\n", Outcome(False, "http 404")),
        ("302 X\r\nLocation: http://127.0.0.1:1/\r\n", Outcome(False, "redirect 302 refused")),
        ("429 X\r\nRetry-After: 7\r\n", Outcome(False, "http 429", retry_after_s=7.0)),
        ("503 X\r\nRetry-After: Tue, 14 Nov 2023 22:14:20 GMT\r\n", Outcome(False, "http 503", 60.0)),
        ("503 X\r\nRetry-After: soon\r\n", Outcome(False, "http 503")),
        ("500 X\r\nRetry-After: 7\r\n", Outcome(False, "http 500")),
        ("103 E\r\n\r\nHTTP/1.1 " * 16 + "200 X\r\n", Outcome(True, "http 200")),
    ],
)
def test_an_answer_means_what_the_semantics_say(answer: str, expected: Outcome) -> None:
    found = outcome_of(saying(f"HTTP/1.1 {answer}Content-Length: 0\r\n\r\n".encode()))
    assert (found, found.unreached) == (expected, False)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"", "connection closed before the answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "malformed answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "answer cut off"),
        (b"HTTP/1.1 103 E\r\n\r\n" * 17 + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "malformed answer"),
        (b"HTTP/1.1 100 C\r\n\r\n" * 100_000, "malformed answer"),
    ],
)
def test_broken_answers_are_failures_with_a_short_reason_of_a_host_that_was_reached_if_it_said_anything(
    answer: bytes, detail: str
) -> None:
    found = outcome_of(saying(answer))
    assert (found, found.unreached) == (Outcome(False, detail), not answer)


@pytest.mark.parametrize("body", [b"zz\r\n", b"2\r\nok\r\n-1\r\n", b"2\r\nokay", b"0\r\nno trailer\r\n\r\n"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_malformed_body_fails_the_push_at_once_and_the_host_has_answered(body: bytes, *, is_late: bool) -> None:
    head = b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = outcome_of(saying(*((head, body) if is_late else (head + body,)), holds=True))
    assert (found, found.unreached) == (Outcome(False, "malformed answer"), False)


@pytest.mark.parametrize(
    ("head", "flood"),
    [
        (b"", b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
)
def test_bytes_without_an_end_that_are_no_body_fail_the_push_at_once(head: bytes, flood: bytes) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(head)
        with suppress(ConnectionError):
            while True:
                writer.write(flood * 1_000)
                await writer.drain()
                sent += len(flood) * 1_000

    found = outcome_of(endless)
    assert (found, found.unreached) == (Outcome(False, "malformed answer"), False)
    assert sent < 10 * RECEIVED_BYTES_MAX


def test_a_silent_receiver_and_a_dripping_one_run_into_the_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.1)

    for talk in (silent, dripping):
        outcome = outcome_of(talk, timeout_s=1)
        assert outcome == Outcome(False, "timeout after 1 s")
        assert outcome.unreached


def test_of_an_endless_answer_only_the_beginning_is_read() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 2 * ANSWER_BYTES_MAX

    assert outcome_of(saying(endless, holds=True)) == Outcome(True, "http 200")


@pytest.mark.parametrize("length", [5, 3 * ANSWER_BYTES_MAX])
def test_of_who_did_not_take_the_message_the_beginning_of_the_answer_is_kept(length: int) -> None:
    found = outcome_of(
        saying(f"HTTP/1.1 500 X\r\nContent-Length: {length}\r\n\r\n".encode() + b"x" * length, holds=True)
    )
    assert (found.status, found.answer) == (500, b"x" * min(length, READ_BYTES_MAX))


def test_of_a_delivery_nothing_of_the_answer_is_kept() -> None:
    found = outcome_of(saying(OK))

    assert (found.status, found.answer) == (200, b"")


def test_a_closed_port_is_connection_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    refused = pushed(f"http://127.0.0.1:{port}/")
    assert (refused.detail, refused.unreached) == ("connection refused", True)


def test_connections_and_the_loop_outlive_a_run() -> None:
    peers: list[object] = []
    pusher = pusher_with()
    with serving_elsewhere(keeping(peers)) as port:
        for _ in range(3):
            assert pusher.run(pusher.push(push_to(f"http://127.0.0.1:{port}/"))).delivered
        assert len(peers) == 1
        pusher.close()


def test_a_pusher_serves_another_loop_with_connections_of_its_own() -> None:
    async def attempt(closes: bool) -> str:
        outcome = await pusher.push(push_to(f"http://127.0.0.1:{port}/"))
        if closes:
            await pusher.aclose()
        return outcome.detail

    pusher = pusher_with()
    with serving_elsewhere(keeping([])) as port:
        assert [asyncio.run(attempt(closes)) for closes in (False, True)] == ["http 200"] * 2


def test_names_are_looked_up_in_the_threads_that_a_pusher_is_given() -> None:
    asked: list[str] = []

    def lookup(host: str) -> list[str]:
        asked.append(current_thread().name)
        return []

    with ThreadPoolExecutor(1, thread_name_prefix="given") as threads:
        assert not pushed("http://receiver.example/", lookup=lookup, threads=threads).delivered

    assert asked == ["given_0"]


def test_nothing_that_a_run_started_runs_in_the_next() -> None:
    steps: list[str] = []

    async def endless() -> None:
        try:
            while True:
                steps.append("step")
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            steps.append("end")

    async def careless() -> asyncio.Task[None]:
        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        return task

    pusher = pusher_with()
    left = pusher.run(careless())
    assert left.cancelled()
    assert steps[-1] == "end"
    before = len(steps)
    pusher.run(asyncio.sleep(0.01))
    pusher.close()
    assert len(steps) == before


@pytest.mark.parametrize(("dying_words", "connections"), [(b"", 2), (b"HTTP/1.1 200 OK\r\nA: b\r\n", 1)])
def test_a_stale_connection_is_replaced_once_if_it_died_silently(dying_words: bytes, connections: int) -> None:
    count = 0

    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)
        writer.write(dying_words)
        await writer.drain()
        writer.close()

    assert [each.delivered for each in outcomes_of(dying, 2)] == [True, connections == 2]
    assert count == connections


REFUSED = b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("surplus", [OK, OK[:20], b"HTTP/1.1 408 Idle\r\nContent-Length: 0\r\n\r\n", b"\0"])
@pytest.mark.parametrize("is_late", [False, True])
def test_surplus_bytes_behind_an_answer_are_never_the_answer_to_the_next_push(surplus: bytes, *, is_late: bool) -> None:
    answers = [OK, REFUSED]

    async def surprising(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await read_request(reader)
            writer.write(answers.pop(0) + (b"" if is_late else surplus))
            if is_late:
                await asyncio.sleep(0.02)
                writer.write(surplus)
            await read_request(reader)
            writer.write(answers.pop(0))

    assert [each.detail for each in outcomes_of(surprising, 2, pause_s=0.1)] == ["http 200", "http 500"]


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 204 N\r\nContent-Length: 2\r\n\r\nok",),
        (b"HTTP/1.1 204 N\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",),
        (b"HTTP/1.1 204 N\r\nA: b\r\n\r", b"\nok"),
        (b"HTTP/1.1 204 N\n\nok",),
        (b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 204 N\r", b"\n\r\nok"),
    ],
)
def test_a_204_with_a_body_is_a_success(parts: tuple[bytes, ...]) -> None:
    assert outcome_of(saying(*parts)) == Outcome(True, "http 204")


def test_a_connection_that_dies_at_its_first_request_is_a_failure_and_nothing_is_sent_twice() -> None:
    count = 0

    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await read_request(reader)
        writer.close()

    assert outcome_of(dying) == Outcome(False, "connection closed before the answer")
    assert count == 1


def test_a_request_is_a_post_without_cookies_and_with_nothing_the_library_adds() -> None:
    heads: list[bytes] = []

    async def cookie_baker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heads.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")

    outcomes_of(cookie_baker, 2, "/a%2Fb?c=d")
    assert heads[1].startswith(b"POST /a%2Fb?c=d HTTP/1.1\r\n")
    assert b"cookie" not in heads[1].lower()
    own = http_request(push_to("http://127.0.0.1/a%2Fb?c=d"), NOW, "1").headers
    assert len(own) > 3
    for name, value in own.items():
        assert f"{name}: {value}".lower().encode() in heads[1].lower()
    assert b"accept-encoding" not in heads[1].lower()


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert outcome_of(saying(OK)).delivered


def test_a_malformed_secret_is_a_failure_of_that_push_alone() -> None:
    outcome = pushed("http://127.0.0.1:1/", secret="whsec_hush!")
    assert outcome == Outcome(False, "malformed webhook secret")
    assert outcome.unsent


def test_no_receiver_can_choose_an_expensive_handshake() -> None:
    context = AdapterEnvironment(StoppedClock(NOW), "1").tls()

    exchanges = {each["kea"] for each in context.get_ciphers()}
    assert exchanges == {"kx-any", "kx-ecdhe"}, "TLS 1.3, and elliptic curves in TLS 1.2"
    assert context.options & ssl.OP_NO_RENEGOTIATION


async def test_tls_is_verified_by_name_and_issuer(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    issuer = Issuer("receivers")
    served = issuer.issue("localhost")
    pem.write_text(served.chain + served.key)
    serverside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serverside.load_cert_chain(pem)
    trusting = ssl.create_default_context(cadata=issuer.own.chain)

    async def blunt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)
        writer.close()

    knowing = pusher_with(make_tls=lambda: trusting, lookup=lambda host: ["127.0.0.1"])
    ignorant = pusher_with(lookup=lambda host: ["127.0.0.1"])
    async with serving(saying(OK), serverside) as port, serving(blunt) as plain_port:
        attempts = (
            (knowing, f"https://localhost:{port}/", "http 200"),
            (knowing, f"https://127.0.0.1:{port}/", "tls: certificate verify failed"),
            (ignorant, f"https://localhost:{port}/", "tls: certificate verify failed"),
            (knowing, f"https://localhost:{plain_port}/", "tls: wrong version number"),
        )
        for pusher, url, detail in attempts:
            assert (await pusher.push(push_to(url))).detail == detail
        await knowing.aclose()
        await ignorant.aclose()


def test_a_name_is_looked_up_while_hundreds_of_others_hang() -> None:
    over = Event()

    def lookup(host: str) -> list[str]:
        if host.startswith("dead"):
            over.wait(2 * PATIENT_S)
            raise OSError(host)
        return ["127.0.0.1"]

    pusher = pusher_with(lookup=lookup)

    async def attempts() -> Outcome:
        dead = [asyncio.create_task(pusher.push(push_to(f"http://dead{n}.example/"))) for n in range(300)]
        await asyncio.sleep(0)
        try:
            async with serving(saying(OK)) as port:
                return await pusher.push(push_to(f"http://alive.example:{port}/"))
        finally:
            over.set()
            await asyncio.wait(dead)

    assert pusher.run(attempts()).delivered
    pusher.close()


def test_look_ups_that_outlast_their_pushes_leave_threads_to_other_names_and_to_queues() -> None:
    over = Event()

    def lookup(host: str) -> list[str]:
        if host.endswith("slow.example"):
            over.wait(2 * PATIENT_S)
        return ["127.0.0.1"]

    threads = threads_for_pushes()
    pusher = pusher_with(lookup=lookup, threads=threads)

    async def attempts() -> Outcome:
        slow = [
            asyncio.create_task(pusher.push(push_to(f"http://{n}.slow.example/", timeout_s=1)))
            for n in range(THREADS_MAX + 100)
        ]
        assert {each.detail for each in await asyncio.gather(*slow)} == {"timeout after 1 s"}
        async with serving(saying(OK)) as port:
            assert threads.submit(lambda: True).result(5), "a call of AWS's clients has a thread"
            return await pusher.push(push_to(f"http://alive.example:{port}/", timeout_s=5))

    try:
        assert pusher.run(attempts()).delivered
    finally:
        over.set()
        pusher.close()


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.215.14", "169.254.169.254"], ["64:ff9b::a00:1"], ["::1"]]
)
def test_a_name_with_any_private_address_is_never_connected_to(addresses: list[str]) -> None:
    found = pushed("http://rebound.example/", reach=Reach.PUBLIC, lookup=lambda host: addresses)
    assert found.detail == "address not public"


@pytest.mark.parametrize(("slept_s", "looked_up"), [(29, 1), (30, 2)])
async def test_a_name_is_looked_up_again_after_a_freeze_in_which_the_monotonic_clock_stood_still(
    slept_s: int, looked_up: int
) -> None:
    now, hosts = NOW, list[str]()

    class Frozen(StoppedClock):
        def now(self) -> int:
            return now

    def lookup(host: str) -> list[str]:
        hosts.append(host)
        return ["127.0.0.1"]

    pusher = EndpointPusher(AdapterEnvironment(Frozen(), "1", Reach.ANY, lookup=lookup))

    async with serving(saying(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))) as port:
        for _ in range(2):
            assert (await pusher.push(push_to(f"http://moved.example:{port}/"))).delivered
            now += slept_s * 1000
        await pusher.aclose()
    assert len(hosts) == looked_up


@asynccontextmanager
async def asking_many(
    connector: KeepingConnector, *traces: aiohttp.TraceConfig
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Serve many hosts, and yield what asks one of them by its number."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ask(number: int) -> None:
        async with session.get(f"http://127.0.0.{number}:{port}/") as response:
            await response.read()

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await (site := web.TCPSite(runner, "0.0.0.0", 0)).start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    async with aiohttp.ClientSession(connector=connector, trace_configs=list(traces)) as session:
        yield ask
    await runner.cleanup()


async def test_the_pool_closes_idle_connections_before_it_outgrows_its_limit() -> None:
    connector = KeepingConnector(limit=20)
    most = 0
    async with asking_many(connector) as ask:
        for number in range(1, 61):
            await ask(number)
            most = max(most, connector.idle)
            # What is closed is not listed: it would be looked through for every connection that is made.
            assert sum(map(len, connector._conns.values())) == connector.idle

    assert 10 < most <= 1.2 * connector.limit


async def test_the_pool_and_the_clients_of_aws_share_the_limit_of_connections() -> None:
    beside, idle_ones = AwsConnections(), list[int]()
    connector = KeepingConnector(beside, limit=20)
    beside.closers.append(lambda: idle_ones.pop() if idle_ones else 0)
    async with asking_many(connector) as ask:
        for number in range(1, 21):
            await ask(number)
        assert connector.idle == 20
        for _ in range(15):
            beside.grow()
        assert 0 < connector.idle <= 22 - 15
        idle_ones.append(15)
        for number in range(21, 41):
            await ask(number)
        assert 7 < connector.idle <= 22


async def test_the_pool_closes_what_was_used_last_since_batches_come_back_in_turn() -> None:
    opened = 0

    async def count(*_: object) -> None:
        nonlocal opened
        opened += 1

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(count)
    async with asking_many(KeepingConnector(limit=20), trace) as ask:
        for number in range(1, 31):
            await ask(number)
        opened = 0
        for number in range(1, 16):
            await ask(number)

    assert opened == 0


async def test_messages_of_two_topics_with_one_id_do_not_share_their_content() -> None:
    received: dict[bytes, bytes] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        received[head.split()[1]] = body
        while len(received) < 2:  # Both requests are under way at once.
            await asyncio.sleep(0.001)
        writer.write(OK)
        await writer.drain()
        writer.close()

    async with serving(talk) as port:
        pusher, pushes = pusher_with(), []
        for topic in ("payroll", "weather"):
            push = push_to(f"http://127.0.0.1:{port}/{topic}", draft=Draft(topic.encode()))
            pushes.append(pusher.push(replace(push, message=replace(push.message, topic=topic))))
        assert all(outcome.delivered for outcome in await asyncio.gather(*pushes))
        await pusher.aclose()
    bodies = {path: json.loads(body)["body"] for path, body in received.items()}
    assert bodies == {b"/payroll": "payroll", b"/weather": "weather"}


def test_pushes_of_one_large_message_share_its_content() -> None:
    pushes, body = 60, b"\x01" * 256 * 1024

    pusher = pusher_with()
    with socket.create_server(("127.0.0.1", 0), backlog=pushes) as deaf:
        port = deaf.getsockname()[1]
        push = push_to(f"http://127.0.0.1:{port}/", timeout_s=2, secret="whsec_c2VjcmV0", draft=Draft(body))

        async def attempts() -> list[Outcome]:
            return await asyncio.gather(*(pusher.push(push) for _ in range(pushes)))

        tracemalloc.start()
        outcomes = pusher.run(attempts())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pusher.close()

    assert {outcome.detail for outcome in outcomes} == {"timeout after 2 s"}
    assert peak < 6 * len(body) * 5


def test_a_large_body_arrives_whole() -> None:
    bodies: list[bytes] = []

    async def keeping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append((await read_request(reader))[1])
        writer.write(OK)

    pusher = pusher_with()
    with serving_elsewhere(keeping) as port:
        push = push_to(f"http://127.0.0.1:{port}/", draft=Draft(bytes(range(128)) * 2048))
        assert pusher.run(pusher.push(push)).delivered
        pusher.close()
    assert bodies == [http_request(push, NOW, "1").body]


def test_every_protocol_is_registered_but_the_one_that_is_not_pushed_to() -> None:
    assert set(ADAPTERS) == set(Protocol) - {Protocol.PULL}
    assert AdapterEnvironment(StoppedClock(NOW), "1").reach is Reach.PUBLIC
