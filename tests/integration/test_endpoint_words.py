"""What endpoints are told and what is made of their answers, word for word and at each boundary."""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import socket
import ssl
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
    UnknownEndpointError,
)
from tagcast.model import ContentFormat, Draft, Endpoint, Outcome, Protocol, Push
from tagcast.resource_names import queue_named
from tagcast_aws.endpoints import addresses
from tagcast_aws.endpoints.adapter import AdapterEnvironment, threads_for_pushes
from tagcast_aws.endpoints.clients import CLIENTS_MAX, Caller
from tagcast_aws.endpoints.connection_faults import failure, is_unreached, is_unsent
from tagcast_aws.endpoints.function import FunctionEndpoint, error_type
from tagcast_aws.endpoints.guard import Guard
from tagcast_aws.endpoints.http import outcome, read_answer, retry_after_s
from tagcast_aws.endpoints.resolver import CHECKED_MAX, TRIED_MAX, AddressRefusedError, CheckedResolver
from tagcast_aws.endpoints.sqs import QueueEndpoint, group_id
from tagcast_aws.runtime.settings import Reach
from tagcast_aws.runtime.system import SystemClock

from tests.fakes import pushes
from tests.fakes.pushes import NOW
from tests.integration.scripted import ScriptedClient, refusal

KEY = ConnectionKey("a.test", 443, True, True, None, None, None)


def push_to(protocol: Protocol, target: str, *, ordering_key: str | None = None) -> Push:
    draft = Draft(b"hi", tags=("apple",), ordering_key=ordering_key)
    return pushes.push_to(target, protocol, draft=draft, content_format=ContentFormat.SIMPLIFIED, timeout_s=7)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (199, Outcome(False, "http 199")),
        (200, Outcome(True, "http 200")),
        (204, Outcome(True, "http 204")),
        (299, Outcome(True, "http 299")),
        (300, Outcome(False, "redirect 300 refused")),
        (399, Outcome(False, "redirect 399 refused")),
        (400, Outcome(False, "http 400")),
        (409, Outcome(False, "http 409")),
        (410, Outcome(False, "http 410", gone=True)),
        (411, Outcome(False, "http 411")),
    ],
)
def test_a_status_means_what_the_semantics_say(status: int, expected: Outcome) -> None:
    assert outcome(status, None, NOW) == expected


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        (" 7 ", 7.0),
        ("86399", 86_399.0),
        ("86400", 86_400.0),
        ("86401", 86_400.0),
        ("100000", 86_400.0),
        ("000005", 5.0),
        ("1000000", 86_400.0),
        ("9" * 5_000, 86_400.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 -0000", 30.0),
        ("Tue, 14 Nov 2023 23:13:50 +0100", 30.0),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0),
        ("Fri, 17 Nov 2023 22:13:10 GMT", 86_400.0),
        ("soon", None),
        ("-5", None),
        ("\u0661", None),
        ("Sat, 01 Jan 0001 00:00:00 GMT", 0.0),
        ("Tue, 14 Nov 99999 22:13:50 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_a_day(header: str, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds
    assert outcome(503, header, NOW).retry_after_s == seconds


def os_error(number: int) -> OSError:
    return OSError(number, "secret words")


def refused(kind: Any, cause: Exception) -> Exception:
    error: Exception = kind(KEY, cause)
    return error


def unconnected(number: int) -> Exception:
    return refused(aiohttp.ClientConnectorError, os_error(number))


@pytest.mark.parametrize(
    ("error", "words", "unreached", "unsent"),
    [
        (ssl.SSLError(), "tls: handshake failed", True, False),
        (
            refused(aiohttp.ClientConnectorCertificateError, ValueError("x")),
            "tls: certificate verify failed",
            True,
            False,
        ),
        (
            refused(aiohttp.ClientConnectorSSLError, ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong")),
            "tls: handshake failed",
            True,
            False,
        ),
        (ssl.SSLError(1, "x"), "tls: handshake failed", True, False),
        (refused(aiohttp.ClientConnectorDNSError, AddressRefusedError("x")), "address not public", False, True),
        (AddressRefusedError("x"), "connection failed", False, True),
        (refused(aiohttp.ClientConnectorDNSError, OSError("x")), "does not resolve", True, False),
        (aiohttp.ServerDisconnectedError(), "connection closed before the answer", True, False),
        (aiohttp.ClientPayloadError("x"), "answer cut off", False, False),
        (unconnected(errno.ECONNREFUSED), "connection refused", True, False),
        (ConnectionRefusedError(), "connection refused", True, False),
        (os_error(errno.ECONNREFUSED), "connection refused", True, False),
        (ConnectionResetError(), "connection reset", True, False),
        (unconnected(errno.ECONNRESET), "connection reset", True, False),
        (unconnected(errno.EPIPE), "connection reset", True, False),
        (unconnected(errno.ENETUNREACH), "host unreachable", True, False),
        (unconnected(errno.EHOSTUNREACH), "host unreachable", True, False),
        (unconnected(errno.ETIMEDOUT), "connection timed out", True, False),
        (unconnected(errno.EACCES), "connection failed", True, False),
        (ValueError("secret words"), "request failed: ValueError", False, False),
    ],
)
def test_a_fault_on_the_way_is_told_in_few_words_of_our_own_and_blames_the_host_or_not(
    error: Exception, words: str, unreached: bool, unsent: bool
) -> None:
    assert (failure(error), is_unreached(error), is_unsent(error)) == (words, unreached, unsent)


def test_an_answer_that_comes_in_pieces_is_kept_up_to_its_bound() -> None:
    pieces = [b"ab", b"cd", b"ef", b"gh"]

    class Content:
        async def read(self, most: int) -> bytes:
            return pieces.pop(0) if pieces else b""

    response: Any = SimpleNamespace(content=Content(), headers={})

    assert asyncio.run(read_answer(response, 5)) == b"abcde"
    assert pieces == []


def test_a_tls_fault_is_told_by_its_reason() -> None:
    error = ssl.SSLError(1, "x")
    error.reason = "WRONG_VERSION_NUMBER"

    assert failure(error) == "tls: wrong version number"
    assert failure(refused(aiohttp.ClientConnectorSSLError, error)) == "tls: wrong version number"


@pytest.mark.parametrize(
    ("target", "region"),
    [
        ("arn:aws:sqs:eu-west-1:123456789012:q", "eu-west-1"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/q", "eu-west-1"),
        ("https://vpce-1.sqs.eu-west-2.vpce.amazonaws.com/123456789012/q", "eu-west-2"),
        ("https://sqs-fips.us-gov-west-1.amazonaws.com/123456789012/q", "us-gov-west-1"),
        ("https://eu-central-1.queue.amazonaws.com/123456789012/q", "eu-central-1"),
        ("https://queue.amazonaws.com/123456789012/q", "us-east-1"),
        ("https://sqs.eusc-de-east-1.amazonaws.eu/123456789012/q", "eusc-de-east-1"),
        ("https://sqs.eusc-de-east-1.api.amazonwebservices.eu/123456789012/q", "eusc-de-east-1"),
        ("http://127.0.0.1:4566/123456789012/q", None),
    ],
)
def test_a_queue_is_asked_in_the_region_that_it_names(target: str, region: str | None) -> None:
    assert [named.region for named in [queue_named(target, elsewhere=True)] if named] == [region]


@pytest.mark.parametrize("key", ["order-7", "!", "~", "x" * 128])
def test_an_ordering_key_that_sqs_allows_is_its_group(key: str) -> None:
    assert group_id(key) == key


@pytest.mark.parametrize("key", ["x" * 129, "a b", "naïve", "\x7f", "\ud800"])
def test_any_other_ordering_key_has_the_group_of_its_hash(key: str) -> None:
    assert group_id(key) == hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


class Clients:
    """Makes one scripted client and remembers with what."""

    def __init__(self, *answers: Any) -> None:
        self.client = ScriptedClient(list(answers))
        self.made: list[tuple[str, str | None, Any]] = []

    def __call__(self, service: str, *, region_name: str | None, config: Any) -> ScriptedClient:
        self.made.append((service, region_name, config))
        return self.client

    def surroundings(self) -> AdapterEnvironment:
        return AdapterEnvironment(SystemClock(), "1", make_client=self)


def delivered(endpoint: Any, clients: Clients, push: Push) -> Outcome:
    async def deliver() -> Outcome:
        adapter = endpoint(clients.surroundings())
        result: Outcome = await adapter.deliver(push)
        await adapter.close()
        return result

    return asyncio.run(deliver())


def test_a_queue_by_url_gets_one_message_with_its_attributes_in_its_region_and_time() -> None:
    clients = Clients({})
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/q"

    assert delivered(QueueEndpoint, clients, push_to(Protocol.SQS, url)) == Outcome(True, "sqs accepted")

    [(operation, request)] = clients.client.asked
    assert operation == "send_message"
    assert request.keys() == {"QueueUrl", "MessageBody", "MessageAttributes"}
    assert (request["QueueUrl"], request["MessageBody"]) == (url, "hi")
    assert {name: value["DataType"] for name, value in request["MessageAttributes"].items()} == dict.fromkeys(
        request["MessageAttributes"], "String"
    )
    assert all(value["StringValue"] for value in request["MessageAttributes"].values())
    [(service, region, config)] = clients.made
    assert (service, region) == ("sqs", "eu-west-1")
    assert (config.connect_timeout, config.read_timeout, config.retries) == (5, 7, {"total_max_attempts": 1})


@pytest.mark.parametrize(("key", "group"), [("k1", "k1"), (None, "fruit")])
def test_a_fifo_queue_by_arn_is_asked_at_its_region_s_address_and_gets_group_and_id(
    key: str | None, group: str
) -> None:
    clients = Clients({}, {})
    clients.client.meta = SimpleNamespace(endpoint_url="https://sqs.eu-west-1.amazonaws.com/")
    push = push_to(Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:q.fifo", ordering_key=key)

    assert delivered(QueueEndpoint, clients, push) == Outcome(True, "sqs accepted")

    assert clients.client.operations == ["send_message"]
    [sent] = clients.client.requests
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/q.fifo"
    assert (sent["QueueUrl"], sent["MessageGroupId"]) == (url, group)
    assert sent["MessageDeduplicationId"] == "fruit-07457000000000000042"


class Answer:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, size: int) -> bytes:
        return self._content[:size]


def test_a_function_is_invoked_once_and_waited_for() -> None:
    clients = Clients({"Payload": Answer(b"{}")})
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:f"

    assert delivered(FunctionEndpoint, clients, push_to(Protocol.LAMBDA, arn)) == Outcome(True, "function returned")

    [(operation, request)] = clients.client.asked
    assert operation == "invoke"
    assert request.keys() == {"FunctionName", "InvocationType", "Payload"}
    assert (request["FunctionName"], request["InvocationType"]) == (arn, "RequestResponse")
    assert [(service, region) for service, region, _ in clients.made] == [("lambda", "eu-west-1")]


@pytest.mark.parametrize("name", ["s-fan-out", "arn:aws:lambda:eu-west-1:123456789012:function:s-fan-out:1"])
def test_a_function_of_the_service_is_never_invoked(name: str) -> None:
    endpoint = FunctionEndpoint(replace(Clients().surroundings(), own_functions="s-"))

    outcome = asyncio.run(endpoint.deliver(push_to(Protocol.LAMBDA, name)))

    assert outcome == Outcome(False, "begins with the stack's name and -, like the functions of the service")
    assert outcome.unsent


def test_a_function_by_name_is_invoked_in_the_region_of_the_service() -> None:
    clients = Clients({"Payload": Answer(b'{"errorType": "KeyError"}'), "FunctionError": "Unhandled"})

    failed = delivered(FunctionEndpoint, clients, push_to(Protocol.LAMBDA, "f"))

    assert failed == Outcome(False, "function error: KeyError")
    assert clients.made[0][1] is None


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (b'{"errorType": "KeyError"}', "KeyError"),
        (b'{"errorType": "a.B$c_1"}', "a.B$c_1"),
        (b'{"errorType": "two words"}', "Unhandled"),
        (b'{"errorType": 5}', "Unhandled"),
        (b'{"errorType": "' + b"x" * 80 + b'"}', "x" * 80),
        (b'{"errorType": "' + b"x" * 81 + b'"}', "Unhandled"),
        (b"[]", "Unhandled"),
        (b"not json", "Unhandled"),
        (b"\xff", "Unhandled"),
        (b"[" * 100_000, "Unhandled"),
    ],
)
def test_a_failed_function_is_told_by_its_type_or_by_what_lambda_says(payload: bytes, named: str) -> None:
    assert error_type(payload, "Unhandled") == named


def without_a_code() -> ClientError:
    fault = refusal("x")
    del fault.response["Error"]["Code"]
    return fault


@pytest.mark.parametrize(
    ("fault", "detail", "unreached", "unsent"),
    [
        (TimeoutError(), "timeout after 7 s", True, False),
        (ReadTimeoutError(endpoint_url="https://x.test"), "timeout after 7 s", True, False),
        (ConnectTimeoutError(endpoint_url="https://x.test"), "timeout after 7 s", True, False),
        (EndpointConnectionError(endpoint_url="https://x.test"), "sqs: EndpointConnectionError", True, False),
        (SSLError(endpoint_url="https://x.test", error=OSError("x")), "sqs: SSLError", True, False),
        (ConnectionClosedError(endpoint_url="https://x.test"), "sqs: ConnectionClosedError", True, False),
        (refusal("AccessDenied"), "sqs: AccessDenied", False, False),
        (without_a_code(), "sqs: unknown", False, False),
        (BotoCoreError(), "sqs: BotoCoreError", False, True),
        (NoCredentialsError(), "sqs: NoCredentialsError", False, True),
        (UnknownEndpointError(service_name="sqs", region_name="x"), "sqs: UnknownEndpointError", False, True),
    ],
)
def test_a_fault_of_aws_is_a_failure_in_few_words_and_blames_the_host_or_not(
    fault: Exception, detail: str, unreached: bool, unsent: bool
) -> None:
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/q"

    found = delivered(QueueEndpoint, Clients(fault, fault), push_to(Protocol.SQS, url))

    assert (found.delivered, found.detail, found.unreached, found.unsent) == (False, detail, unreached, unsent)


async def test_one_client_is_made_for_each_region_and_timeout() -> None:
    clients = Clients()

    caller = Caller("sqs", clients.surroundings())
    for region, timeout_s in (("eu-west-1", 3), ("eu-west-1", 3), ("eu-west-1", 4), (None, 3)):
        await caller.call(region, timeout_s, lambda client: None)

    made = [(region, config.connect_timeout, config.read_timeout) for _, region, config in clients.made]
    assert made == [("eu-west-1", 3, 3), ("eu-west-1", 4, 4), (None, 3, 3)]


async def test_clients_for_any_number_of_regions_do_not_add_up() -> None:
    made: WeakSet[Answer] = WeakSet()

    def make(service: str, **of: Any) -> Answer:
        client = Answer(b"")
        made.add(client)
        return client

    caller = Caller("sqs", AdapterEnvironment(SystemClock(), "1", make_client=make))
    for number in range(2 * CLIENTS_MAX):
        await caller.call(f"xx-{number}", 3, lambda client: None)
    gc.collect()
    assert len(made) <= CLIENTS_MAX


async def test_invented_regions_neither_delay_nor_displace_the_clients_of_the_own_region() -> None:
    may_go_on, made = Event(), list[str | None]()

    def make(service: str, region_name: str | None, **of: Any) -> Answer:
        if region_name not in (None, "eu-west-1"):
            assert may_go_on.wait(10)
        made.append(region_name)
        return Answer(b"")

    caller = Caller("sqs", AdapterEnvironment(SystemClock(), "1", make_client=make, region="eu-west-1"))
    for region in ("eu-west-1", None):
        await caller.call(region, 3, lambda client: None)
    others = [
        asyncio.create_task(caller.call(f"xx-{number}", 30, lambda client: None)) for number in range(CLIENTS_MAX)
    ]
    late = asyncio.create_task(caller.call("xx-late", 1, lambda client: None))
    await asyncio.sleep(0.1)
    for region, timeout_s in (("eu-west-1", 3), ("eu-west-1", 4), (None, 3)):
        await asyncio.wait_for(caller.call(region, timeout_s, lambda client: None), 5)
    with pytest.raises(TimeoutError):
        await late
    may_go_on.set()
    await asyncio.gather(*others)
    await caller.call("xx-new", 3, lambda client: None)
    await caller.call("eu-west-1", 3, lambda client: None)

    assert [made.count("eu-west-1"), made.count(None), made.count("xx-late")] == [2, 1, 0]


def resolved(found: list[str], *, reach: Reach = Reach.PUBLIC) -> Any:
    resolver = CheckedResolver(reach, threads_for_pushes(), lambda host: found)
    return asyncio.run(resolver.resolve("a.test", 443))


def test_of_a_name_with_thousands_of_addresses_only_the_first_are_checked_and_tried() -> None:
    public = [f"93.184.{number // 256}.{number % 256}" for number in range(4_000)]

    assert [each["host"] for each in resolved([*public, "10.0.0.1"])] == public[:TRIED_MAX]
    with pytest.raises(AddressRefusedError):
        resolved([*public[: CHECKED_MAX - 1], "10.0.0.1"])


def test_a_resolved_name_is_connected_to_by_the_addresses_that_were_checked() -> None:
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

    known = {"hostname": "a.test", "port": 443, "proto": 0, "flags": flags}
    assert resolved(["93.184.215.14", "2606:2800::1"]) == [
        {**known, "host": "93.184.215.14", "family": socket.AF_INET},
        {**known, "host": "2606:2800::1", "family": socket.AF_INET6},
    ]


def test_a_scope_id_is_no_part_of_the_family() -> None:
    assert [each["family"] for each in resolved(["fe80::1%eth0"], reach=Reach.ANY)] == [socket.AF_INET6]
    with pytest.raises(AddressRefusedError, match="not public"):
        resolved(["fe80::1%eth0"])
    assert addresses.are_reachable(["2606:2800::1%eth0"], Reach.PUBLIC)


def test_a_name_without_addresses_or_that_is_none_does_not_resolve() -> None:
    with pytest.raises(OSError, match="does not resolve"):
        resolved([])

    def unreadable(host: str) -> list[str]:
        raise UnicodeError

    with pytest.raises(OSError, match="does not resolve"):
        asyncio.run(CheckedResolver(Reach.PUBLIC, threads_for_pushes(), unreadable).resolve("x"))


def test_the_system_s_resolver_is_asked_for_stream_addresses_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def getaddrinfo(*arguments: Any, **named: Any) -> list[Any]:
        asked.append((arguments, named))
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.2.3.4", 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.2.3.4", 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    assert addresses.look_up("a.test") == ["1.2.3.4", "::1"]
    assert asked == [(("a.test", None), {"type": socket.SOCK_STREAM, "flags": socket.AI_ADDRCONFIG})]


@pytest.mark.parametrize(
    ("found", "refusal_"),
    [
        (["93.184.215.14"], None),
        (["93.184.215.14", "10.0.0.1"], "address not public"),
        ([], "does not resolve"),
        (OSError(), "does not resolve"),
        (UnicodeError(), "does not resolve"),
        (TimeoutError(), "does not resolve"),
    ],
)
def test_a_name_is_subscribed_if_all_that_it_resolves_to_is_public(found: Any, refusal_: str | None) -> None:
    asked: list[str] = []

    def lookup(host: str) -> list[str]:
        asked.append(host)
        if isinstance(found, Exception):
            raise found
        return list(found)

    guard = Guard(lookup=lookup)

    assert guard.refusal(Endpoint(Protocol.HTTPS, "https://a.test/x")) == refusal_
    assert asked == ["a.test"]
    assert Guard(Reach.ANY, lookup=lookup).refusal(Endpoint(Protocol.HTTPS, "https://a.test/x")) is None
    assert guard.refusal(Endpoint(Protocol.HTTPS, "https://93.184.215.14/")) is None
    assert asked == ["a.test"]
