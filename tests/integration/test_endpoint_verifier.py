"""What an HTTP receiver is asked before the first push, over real sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey
from tagcast.model import SubscriptionSettings
from tagcast.pushing.webhook_signature import signature
from tagcast.subscription_settings import Signature
from tagcast.verification import VerificationResult
from tagcast_aws.endpoints import verification_requests
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.verifier import HttpVerifier
from tagcast_aws.runtime.settings import Reach

from tests.fakes.pushes import NOW, push_to
from tests.fakes.stopped_clock import StoppedClock
from tests.http_server import Handler, serving
from tests.integration.test_endpoints_http import serving_elsewhere

ORIGIN, TOKEN = "123456789012.eu-west-1.tagcast", "an-unguessable-token"
SECRET, OWN_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SigningKey(b"k" * 32)
Answer = Callable[[str, dict[str, str], bytes], bytes]


def settings_for(url: str, **chosen: Any) -> SubscriptionSettings:
    return replace(push_to(url).subscription.settings, **chosen)


def asked(
    answer: Answer,
    *,
    reach: Reach = Reach.ANY,
    subscription_id: str | None = "07457000000000000001-0",
    **chosen: Any,
) -> VerificationResult:
    """Ask a receiver that makes its answer of the method, the headers and the body."""

    class Asked(Handler):
        def serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.wfile.write(answer(self.command, headers, self.body()))

        do_OPTIONS = serve  # noqa: N815

    around = AdapterEnvironment(StoppedClock(NOW), "1", reach, sign=sign)
    with serving(Asked) as url:
        return HttpVerifier(around, ORIGIN).ask(settings_for(f"{url}/hook", **chosen), TOKEN, subscription_id)


def sign(subscription_id: str, content: bytes) -> tuple[bytes, ...]:
    assert subscription_id == "07457000000000000001-0"
    return (OWN_KEY.sign(content).signature,)


def said(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def test_a_receiver_of_cloudevents_agrees_with_a_rate_and_is_sent_no_token() -> None:
    methods = []

    def allow(method: str, headers: dict[str, str], body: bytes) -> bytes:
        methods.append(method)
        origin = headers["webhook-request-origin"]
        return said("200 OK", f"WebHook-Allowed-Origin: {origin}", "WebHook-Allowed-Rate: 120")

    assert asked(allow) == VerificationResult(per_second=2.0)
    assert methods == ["OPTIONS"]


def test_a_receiver_without_the_handshake_agrees_by_repeating_the_token() -> None:
    def repeat(method: str, headers: dict[str, str], body: bytes) -> bytes:
        if method == "OPTIONS":
            return said("405 Method Not Allowed")
        return said("200 OK", body=json.loads(body)["verification_token"].encode())

    assert asked(repeat) == VerificationResult()


def test_a_confirmation_is_signed_and_has_the_headers_of_the_pushes_to_come() -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    def listen(method: str, headers: dict[str, str], body: bytes) -> bytes:
        seen.append((headers, body))
        return said("404 Not Found")

    asked(listen, secret=SECRET, signature=Signature.V1A, headers={"x-tenant": "a"})
    (offered, _), (confirming, body) = seen
    assert offered["x-tenant"] == confirming["x-tenant"] == "a"
    assert "webhook-signature" not in offered
    v1, v1a = confirming["webhook-signature"].split(" ")
    content = f"{TOKEN}.{NOW // 1000}.".encode() + body
    assert confirming["webhook-id"] == TOKEN
    assert signature(SECRET, TOKEN, NOW // 1000, body) == v1
    OWN_KEY.verify_key.verify(content, base64.b64decode(v1a.removeprefix("v1a,")))

    asked(listen)
    assert "webhook-signature" not in seen[-1][0]

    asked(listen, subscription_id=None, secret=SECRET, signature=Signature.V1A)
    assert [each[:3] for each in seen[-1][0]["webhook-signature"].split(" ")] == ["v1,"]
    asked(listen, subscription_id=None, signature=Signature.V1A)
    assert "webhook-signature" not in seen[-1][0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda method, headers, body: said("200 OK"), "token not repeated"),
        (lambda method, headers, body: said("200 OK", body=body), "token not repeated"),
        (lambda method, headers, body: said("500 Oops", body=TOKEN.encode()), "http 500"),
        (lambda method, headers, body: said("200 OK", body=TOKEN.encode() + b"x" * 2_000), "token not repeated"),
        (lambda method, headers, body: said("302 Found", "Location: /ok"), "http 302"),
        (lambda method, headers, body: said("204 Fine", "WebHook-Allowed-Origin: other.test"), "token not repeated"),
    ],
    ids=["indifferent", "echo", "failing", "long", "redirect", "other origin"],
)
def test_who_does_not_agree_is_refused_with_a_reason(answer: Answer, reason: str) -> None:
    assert asked(answer).refusal == reason


def test_who_sends_the_question_elsewhere_has_not_agreed_though_it_would_there() -> None:
    methods: list[str] = []

    def send_away(method: str, headers: dict[str, str], body: bytes) -> bytes:
        methods.append(method)
        if methods == ["OPTIONS"]:
            return said("307 Elsewhere", "Location: /elsewhere")
        return said("404 Not Found") if method == "POST" else said("200 OK", f"WebHook-Allowed-Origin: {ORIGIN}")

    assert asked(send_away).refusal == "http 404"
    assert methods == ["OPTIONS", "POST"]


def test_an_address_that_is_not_public_is_not_asked() -> None:
    def never(method: str, headers: dict[str, str], body: bytes) -> bytes:
        raise AssertionError(method)

    assert asked(never, reach=Reach.PUBLIC) == VerificationResult("address not public")
    around = AdapterEnvironment(StoppedClock(0), "1", lookup=lambda host: ["10.0.0.1"])
    consent = HttpVerifier(around, ORIGIN).ask(settings_for("http://inside.test/"), TOKEN, None)
    assert consent == VerificationResult("address not public")


def test_who_is_silent_is_a_refusal_when_the_time_for_an_answer_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(verification_requests, "QUESTION_S", 0.1)
    around = AdapterEnvironment(StoppedClock(NOW), "1", reach=Reach.ANY)
    with serving_elsewhere(silent) as port:
        consent = HttpVerifier(around, ORIGIN).ask(settings_for(f"http://127.0.0.1:{port}/"), TOKEN, None)
    assert consent == VerificationResult("timeout after 0.1 s")


def test_nobody_who_answers_is_a_refusal_and_no_fault() -> None:
    around = AdapterEnvironment(StoppedClock(0), "1", reach=Reach.ANY)
    consent = HttpVerifier(around, ORIGIN).ask(settings_for("http://127.0.0.1:1/"), TOKEN, None)
    assert consent == VerificationResult("connection refused")
