"""Requests to AWS carry a signature that AWS's own library makes of the same request."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tagcast_client import AsyncClient, BearerToken, Client, Retries, SigningError, SigV4

from tests.http_server import Handler, serving

URL = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"
OF_A_FUNCTION = "https://abc.lambda-url.eu-west-1.on.aws"


def signed_by_aws(monkeypatch: pytest.MonkeyPatch, request: httpx.Request, again: AWSRequest, service: str) -> str:
    """Return how the library of AWS signs *again* at the instant of *request*."""
    at = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")  # noqa: DTZ007 - as the library has it
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at)
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token")
    SigV4Auth(credentials, service, "eu-west-1").add_auth(again)
    return str(again.headers["Authorization"])


def publish(client: Client) -> object:
    return client.publish("a b", "äöü", tags=["x"], idempotency_key="k")


def sent(url: str, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], object] = publish) -> list[httpx.Request]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, json={"message_id": "1", "accepted_at": "2026-01-01T00:00:00.000Z",
                                         "expires_at": "2026-01-02T00:00:00.000Z", "matched": 0})  # fmt: skip

    with Client(url, transport=httpx.MockTransport(answer)) as client:
        ask(client)
    return seen


@pytest.mark.parametrize(
    ("given", "url", "service"),
    [(URL, URL, "execute-api"), (f"{OF_A_FUNCTION}/", OF_A_FUNCTION, "lambda")],
    ids=["an API", "the URL of a function, as the stack puts it out"],
)
def test_a_request_to_aws_is_signed_as_its_own_library_signs_it(
    monkeypatch: pytest.MonkeyPatch, given: str, url: str, service: str
) -> None:
    [request] = sent(given, monkeypatch)
    headers = {name: request.headers[name] for name in ("content-type", "host", "idempotency-key")}
    again = AWSRequest("POST", f"{url}/topics/a%20b/messages", headers=headers, data=request.content)

    assert request.headers["authorization"] == signed_by_aws(monkeypatch, request, again, service)
    assert request.headers["x-amz-security-token"] == "token"
    assert str(request.url) == f"{url}/topics/a%20b/messages"


def test_a_query_with_a_blank_is_signed_as_aws_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    query = {"property": "customer=a b+c~*", "since": "2026-01-01T00:00:00+00:00", "tag": "new order/é"}
    [request] = sent(URL, monkeypatch, lambda client: client.request("GET", "/topics/a/history", query=query))
    again = AWSRequest("GET", f"{URL}/topics/a/history", headers={"host": request.headers["host"]}, params=query)

    assert request.headers["authorization"] == signed_by_aws(monkeypatch, request, again, "execute-api")
    assert dict(request.url.params) == query


def test_a_request_elsewhere_is_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    [request] = sent("http://127.0.0.1:8080", monkeypatch)
    assert "authorization" not in request.headers


def test_without_credentials_or_region_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    transport = httpx.MockTransport(lambda request: pytest.fail("it was sent"))
    for auth in (SigV4(), SigV4("no-such-profile")):
        client = Client(URL, auth=auth, transport=transport, retries=Retries(seconds=0))
        with pytest.raises(SigningError):
            client.health()


def test_a_role_that_may_not_be_assumed_is_an_error_of_the_clients_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Sts(Handler):
        def serve(self) -> None:
            error = b"<Error><Code>AccessDenied</Code><Message>me may not assume it</Message></Error>"
            self.answer(403, b"<ErrorResponse>" + error + b"</ErrorResponse>", {"content-type": "text/xml"})

    config = tmp_path / "config"
    config.write_text(
        "[profile me]\naws_access_key_id = a\naws_secret_access_key = b\n"
        "[profile other]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = me\nregion = eu-west-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    transport = httpx.MockTransport(lambda request: pytest.fail("it was sent"))
    with serving(Sts) as url, Client(URL, auth=SigV4("other"), transport=transport) as client:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        with pytest.raises(SigningError, match="me may not assume it"):
            client.health()


@pytest.mark.parametrize("of", ["credentials", "token"])
async def test_an_asynchronous_client_waits_for_credentials_beside_its_event_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of: str
) -> None:
    found = json.dumps({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"})
    (tmp_path / "slow.sh").write_text(f"sleep 0.5; echo '{found}'")
    (tmp_path / "config").write_text(f"[profile me]\ncredential_process = sh {tmp_path / 'slow.sh'}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    def slow_token() -> str:
        time.sleep(0.5)
        return "t"

    auth = SigV4("me") if of == "credentials" else BearerToken(slow_token)
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"status": "ok", "version": "1"})

    async with AsyncClient(URL, auth=auth, transport=httpx.MockTransport(answer)) as client:
        asking, ticks = asyncio.create_task(client.health()), 0
        while not asking.done():
            await asyncio.sleep(0.05)
            ticks += 1
        await asking

    assert ticks >= 5
    assert "authorization" in sent[0].headers


@pytest.mark.parametrize("token", ["s3cret\n", "s3cr\u00e9t", "two s3crets", ""])
def test_a_token_that_no_header_can_hold_is_neither_sent_nor_logged(
    token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Client("http://127.0.0.1:9", auth=BearerToken(lambda: token)) as client, pytest.raises(SigningError) as fault:
        client.health()
    assert "s3cr" not in str(fault.value) + caplog.text


def test_a_token_is_sent_by_plain_http_to_this_machine_only() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.url.scheme}://{request.url.host}")
        return httpx.Response(200, json={"status": "ok"})

    refused = ("http://127.0.0.1.org", "http://a.localhost")  # A proxy of the environment would get these.
    for url in ("http://127.0.0.1", "http://localhost", "http://[::1]", "https://example.org", *refused):
        with Client(url, auth=BearerToken("t"), transport=httpx.MockTransport(answer)) as client:
            if url in refused:
                with pytest.raises(SigningError, match="https only"):
                    client.request("GET", "/health")
            else:
                client.request("GET", "/health")
    assert sent == ["http://127.0.0.1", "http://localhost", "http://::1", "https://example.org"]
