"""Which endpoints may be subscribed."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast.model import Endpoint, Protocol
from tagcast_aws.endpoints.adapter import AdapterEnvironment, threads_for_pushes
from tagcast_aws.endpoints.addresses import is_public
from tagcast_aws.endpoints.function import FunctionEndpoint
from tagcast_aws.endpoints.guard import Guard
from tagcast_aws.endpoints.resolver import CheckedResolver
from tagcast_aws.endpoints.sqs import QueueEndpoint
from tagcast_aws.runtime.settings import Reach
from tagcast_aws.runtime.system import SystemClock

from tests.integration.test_endpoint_words import push_to

FUNCTION_OF_LAMBDA = (
    r"(arn:(aws[a-zA-Z-]*)?:lambda:)?((eusc-)?[a-z]{2}((-gov)|(-iso([a-z]?)))?-[a-z]+-\d{1}:)?(\d{12}:)?(function:)?"
)
"""What may stand before a function's name, as the model of Lambda's API has it (FunctionName)."""
PUBLIC = Guard(lookup=lambda host: ["93.184.215.14"])


def unasked(host: str) -> list[str]:
    raise AssertionError(host)


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_calls_private(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    inside = address.ipv4_mapped or address.sixtofour if isinstance(address, ipaddress.IPv6Address) else None
    if inside is not None:  # Releases of Python differ in what they call these.
        assert is_public(address) == is_public(inside)
    else:
        assert not is_public(address) or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    within = (
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        str(ipaddress.IPv6Address(0x2002 << 112 | int(address) << 80)),
    )

    assert {is_public(ipaddress.ip_address(each)) for each in within} == {is_public(address)}


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("https://example.com/hook?x=@", None),
        ("https://example.com/x@y", None),
        ("https://example.com:1/", None),
        ("https://example.com/" + "a" * (2048 - 20), None),
        ("https://example.com/" + "a" * (2048 - 19), "URL longer than 2048 characters"),
        ("https://example.com/#", "URL has a fragment"),
        ("https://a.1/", "invalid host"),
        ("https://a.0x1./", "invalid host"),
        ("https://93.184.215.14./", "invalid host"),
        ("https://example.com:8443", None),
        ("http://example.com/", "URL scheme is not https"),
        ("https:example.com", "invalid host"),
        ("https:///hook", "invalid host"),
        ("https://u:p@example.com/", "URL has a user name or password"),
        ("https://example.com:0/", "invalid port"),
        ("https://example.com:99999/", "malformed URL"),
        ("https://exam ple.com/", "URL has whitespace, control characters or a backslash"),
        ("https://example.com/\r\nX: 1", "URL has whitespace, control characters or a backslash"),
        ("https://a\\@127.0.0.1/", "URL has whitespace, control characters or a backslash"),
        ("https://127.0.0.1/", "address not public"),
    ],
)
def test_a_url_is_checked_before_its_name_is_resolved(url: str, refusal: str | None) -> None:
    assert PUBLIC.refusal(Endpoint(Protocol.HTTPS, url)) == refusal


VECTOR_FILES = Path(__file__).parents[1] / "vectors"
VECTORS = json.loads((VECTOR_FILES / "addresses.json").read_text())
HOSTS = [(group["why"], host, group["refused"]) for group in VECTORS["hosts"] for host in group["hosts"]]


def test_an_address_of_the_vectors_is_judged_as_they_say() -> None:
    assert len(HOSTS) + len(VECTORS["answers"]) >= 200
    wrong = [
        (why, host)
        for why, host, refused in HOSTS
        if (PUBLIC.refusal(Endpoint(Protocol.HTTPS, f"https://{host}/hook")) is not None) is not refused
    ]
    assert wrong == []


@pytest.mark.parametrize("case", VECTORS["answers"], ids=lambda case: case["why"])
def test_a_name_is_judged_by_all_that_it_leads_to_when_subscribed_and_when_pushed_to(case: dict[str, Any]) -> None:
    def lookup(host: str) -> list[str]:
        return list(case["addresses"])

    refusal = Guard(lookup=lookup).refusal(Endpoint(Protocol.HTTPS, "https://example.com/"))
    assert (refusal is not None) is case["refused"]
    resolver = CheckedResolver(Reach.PUBLIC, threads_for_pushes(), lookup)
    if case["refused"]:
        with pytest.raises(OSError):
            asyncio.run(resolver.resolve("example.com", 443))
    else:
        assert len(asyncio.run(resolver.resolve("example.com", 443))) == len(case["addresses"])


def test_a_name_that_led_elsewhere_when_it_was_subscribed_is_judged_anew_at_every_push() -> None:
    answers = iter((["93.184.215.14"], ["93.184.215.14"], ["169.254.169.254"]))

    def lookup(host: str) -> list[str]:
        return next(answers)

    assert Guard(lookup=lookup).refusal(Endpoint(Protocol.HTTPS, "https://example.com/")) is None
    resolver = CheckedResolver(Reach.PUBLIC, threads_for_pushes(), lookup)
    assert asyncio.run(resolver.resolve("example.com", 443))[0]["host"] == "93.184.215.14"
    with pytest.raises(OSError):
        asyncio.run(resolver.resolve("example.com", 443))


def test_where_any_address_is_allowed_no_name_is_resolved() -> None:
    guard = Guard(Reach.ANY, lookup=unasked)
    assert guard.refusal(Endpoint(Protocol.HTTP, "http://receiver.internal:9000/")) is None
    assert guard.refusal(Endpoint(Protocol.HTTP, "http://127.0.0.1:9000/")) is None
    assert guard.refusal(Endpoint(Protocol.HTTP, "http://127.1:9000/")) == "invalid host"
    assert guard.refusal(Endpoint(Protocol.HTTP, "https://127.0.0.1/")) == "URL scheme is not http"


@pytest.mark.parametrize(
    ("address", "refusal"),
    [
        ("93.184.215.14", None),
        ("10.0.0.1", None),
        ("100.64.0.1", None),
        ("172.31.255.255", None),
        ("192.168.0.1", None),
        ("fd00:ec2::1", None),
        ("::ffff:10.0.0.1", None),
        ("127.0.0.1", "address neither public nor private"),
        ("::1", "address neither public nor private"),
        ("::ffff:127.0.0.1", "address neither public nor private"),
        ("64:ff9b::7f00:1", "address neither public nor private"),
        ("0.0.0.0", "address neither public nor private"),
        ("169.254.169.254", "address neither public nor private"),
        ("fe80::1", "address neither public nor private"),
        ("224.0.0.1", "address neither public nor private"),
    ],
)
def test_where_private_addresses_are_allowed_neither_loopback_nor_link_local_ones_are(
    address: str, refusal: str | None
) -> None:
    """Lambda's runtime API is at 127.0.0.1:9001 (lambda/latest/dg/runtimes-api.html)."""
    literal = f"http://[{address}]:9001/" if ":" in address else f"http://{address}:9001/"
    assert Guard(Reach.PRIVATE, lookup=unasked).refusal(Endpoint(Protocol.HTTP, literal)) == refusal
    named = Guard(Reach.PRIVATE, lookup=lambda host: [address])
    assert named.refusal(Endpoint(Protocol.HTTP, "http://receiver.internal/")) == refusal
    resolver = CheckedResolver(Reach.PRIVATE, threads_for_pushes(), lambda host: [address])
    if refusal is None:
        assert asyncio.run(resolver.resolve("receiver.internal", 9001))[0]["host"] == address
    else:
        with pytest.raises(OSError, match=refusal):
            asyncio.run(resolver.resolve("receiver.internal", 9001))


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("arn:aws:sqs:eu-west-1:123456789012:q.fifo", None),
        (f"https://sqs.eu-west-1.amazonaws.com/123456789012/{'q' * 76}.fifo", "not a queue URL or ARN"),
        ("http://sqs.eu-west-1.amazonaws.com/123456789012/q", "not a queue of AWS"),
        ("arn:aws:sns:eu-west-1:123456789012:q", "not a queue URL or ARN"),
        ("https://a.test/123456789012/q", "not a queue of AWS"),
    ],
)
def test_a_queue_is_one_of_aws(target: str, refusal: str | None) -> None:
    assert Guard(lookup=unasked).refusal(Endpoint(Protocol.SQS, target)) == refusal
    assert Guard(Reach.PRIVATE, lookup=unasked).refusal(Endpoint(Protocol.SQS, target)) == refusal


def test_a_queue_of_a_local_stack_is_allowed_where_any_address_is() -> None:
    endpoint = Endpoint(Protocol.SQS, "http://127.0.0.1:4566/000000000000/q")
    assert Guard(Reach.ANY, lookup=unasked).refusal(endpoint) is None


NAMES = json.loads((VECTOR_FILES / "resource_names.json").read_text())
OWN = {"own_queues": NAMES["own_queues"], "own_functions": NAMES["own_functions"]}
SPELLINGS = [
    (Endpoint(Protocol(group["protocol"]), target), group["refused"])
    for group in NAMES["groups"]
    for target in group["targets"]
]


def test_queues_and_functions_are_judged_as_the_vectors_say_however_they_are_spelled() -> None:
    guard = Guard(lookup=unasked, **OWN)

    assert len(SPELLINGS) >= 100
    assert [each.target for each, refused in SPELLINGS if (guard.refusal(each) is not None) is not refused] == []


async def test_no_push_reaches_what_the_guard_refuses_and_every_push_what_it_lets_through() -> None:
    asked: list[str] = []

    class Client:
        meta = SimpleNamespace(endpoint_url="https://sqs.eu-west-1.amazonaws.com")

        def invoke(self, FunctionName: str, **_: object) -> dict[str, Any]:  # noqa: N803 boto3's
            asked.append(FunctionName)
            return {"Payload": io.BytesIO()}

        def send_message(self, QueueUrl: str, **_: object) -> None:  # noqa: N803 boto3's
            asked.append(QueueUrl)

    around = AdapterEnvironment(SystemClock(), "1", make_client=lambda *_, **__: Client(), **OWN)

    for endpoint, refused in SPELLINGS:
        adapter = FunctionEndpoint(around) if endpoint.protocol is Protocol.LAMBDA else QueueEndpoint(around)
        outcome = await adapter.deliver(push_to(endpoint.protocol, endpoint.target))
        assert outcome.delivered == (not refused), endpoint
    assert len(asked) == sum(not refused for _, refused in SPELLINGS)


@given(st.from_regex(re.compile(FUNCTION_OF_LAMBDA), fullmatch=True), st.sampled_from(("", ":1", ":$LATEST", ":live")))
def test_what_lambda_reads_as_a_function_of_the_service_is_refused(before: str, version: str) -> None:
    assert Guard(**OWN).refusal(Endpoint(Protocol.LAMBDA, f"{before}tagcast-fan-out{version}")) is not None


def test_neither_the_guard_nor_the_pusher_imports_a_client_before_it_is_needed() -> None:
    script = (
        "import sys, tagcast_aws.endpoints.guard, tagcast_aws.endpoints.pusher\n"
        "print([name for name in ('aiohttp', 'boto3', 'botocore') if name in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert found.stdout.strip() == "[]"


def test_the_thread_of_a_lookup_takes_no_more_work_when_its_answer_is_there() -> None:
    threads: list[ThreadPoolExecutor] = []

    def make_thread() -> ThreadPoolExecutor:
        threads.append(ThreadPoolExecutor(1))
        return threads[-1]

    guard = Guard(lookup=lambda host: ["93.184.215.14"], make_thread=make_thread)

    assert guard.refusal(Endpoint(Protocol.HTTPS, "https://example.com/")) is None
    [thread] = threads
    with pytest.raises(RuntimeError, match="after shutdown"):
        thread.submit(print)
