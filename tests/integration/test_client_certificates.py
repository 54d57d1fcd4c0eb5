"""Receivers that let in only who presents a certificate of theirs, over real TLS of the loopback interface."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import ssl
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tagcast.model import Endpoint, Outcome, Protocol, Push
from tagcast.sealing import OPENED_S
from tagcast.subscription_settings import ClientCertificate
from tagcast.verification import VerificationResult
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.client_certificate import present, validate_certificate
from tagcast_aws.endpoints.client_contexts import CONTEXTS_MAX, ClientContexts
from tagcast_aws.endpoints.pusher import EndpointPusher
from tagcast_aws.endpoints.verifier import HttpVerifier
from tagcast_aws.runtime.settings import Reach

from tests.certificates import Certified, Issuer
from tests.fakes.pushes import NOW, push_to
from tests.fakes.stopped_clock import StoppedClock
from tests.fakes.world import FakeClock
from tests.http_server import Handler

OURS, THEIRS = Issuer("receivers"), Issuer("somebody else")
SERVER, CLIENT, OTHER, FOREIGN = (
    OURS.issue("localhost"),
    OURS.issue("tagcast"),
    OURS.issue("another tenant"),
    THEIRS.issue("tagcast"),
)


def pem_of(certified: Certified) -> str:
    return validate_certificate(certified.chain, certified.key)[1]


def strict_tls() -> ssl.SSLContext:
    """A context as Python 3.13 makes it, on which the functions run; earlier ones are less strict."""
    context = ssl.create_default_context(cadata=OURS.own.chain)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def around(clock: StoppedClock | None = None) -> AdapterEnvironment:
    return AdapterEnvironment(
        clock or StoppedClock(NOW), "1", reach=Reach.ANY, make_tls=strict_tls, lookup=lambda host: ["127.0.0.1"]
    )


class Doorman(ThreadingHTTPServer):
    """A receiver of TLS; who was let in with which certificate, and over how many connections.

    Its TLS is OpenSSL's own on a blocking socket, as that of most receivers: it says by an alert why it refuses.
    """

    daemon_threads = True

    def __init__(self, version: str = "TLSv1_3") -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.seen: list[str | None] = []
        self.connections = 0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.maximum_version = ssl.TLSVersion[version]
        self.tls.verify_mode = ssl.CERT_REQUIRED
        self.tls.load_verify_locations(cadata=OURS.own.chain)
        present(self.tls, SERVER.chain + SERVER.key)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError), self.tls.wrap_socket(request, True, do_handshake_on_connect=False) as talking:
            try:
                talking.do_handshake()
            except ssl.SSLError:
                self.hear_out(talking)
                raise
            self.connections += 1
            super().finish_request(talking, client_address)

    @staticmethod
    def hear_out(talking: ssl.SSLSocket) -> None:
        """Read until the other side has closed: closed before, the connection is reset, and the alert may be lost."""
        while os.read(talking.fileno(), 65_536):
            pass

    @contextmanager
    def at_work(self) -> Iterator[str]:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://localhost:{self.server_address[1]}/hook"
        self.shutdown()
        self.server_close()


class Hook(Handler):
    """Takes what it is sent and repeats tokens, and notes whose certificate was presented."""

    protocol_version = "HTTP/1.1"
    server: Doorman

    def serve(self) -> None:
        self.server.seen.append(self.connection.getpeercert()["subject"][0][0][1])
        sent = json.loads(self.body() or b"{}")
        self.answer(405 if self.command == "OPTIONS" else 200, sent.get("verification_token", "").encode())

    do_OPTIONS = serve  # noqa: N815


def presenting(url: str, certified: Certified | None) -> Push:
    push = push_to(url)
    if certified is None:
        return push
    certificate, key = validate_certificate(certified.chain, certified.key)
    chosen = replace(push.subscription.settings, client_certificate=certificate, client_key=key)
    return replace(push, subscription=replace(push.subscription, settings=chosen))


def pushed(url: str, *presented: Certified | None) -> list[Outcome]:
    pusher = EndpointPusher(around())

    async def attempts() -> list[Outcome]:
        return [await pusher.push(presenting(url, each)) for each in presented]

    try:
        return pusher.run(attempts())
    finally:
        pusher.close()


@pytest.mark.parametrize(
    ("version", "without"), [("TLSv1_2", "handshake failure"), ("TLSv1_3", "certificate required")]
)
def test_who_presents_its_certificate_is_let_in_and_nobody_else_and_the_outcome_says_why(
    version: str, without: str
) -> None:
    doorman = Doorman(version)
    with doorman.at_work() as url:
        outcomes = pushed(url, CLIENT, None, FOREIGN, CLIENT)

    details = [each.detail for each in outcomes]
    assert details == ["http 200", f"tls: alert {without}", "tls: alert unknown ca", "http 200"]
    assert doorman.seen == ["tagcast", "tagcast"]
    assert outcomes[2].unreached is False, "a receiver that refuses one certificate is no dead host"


def test_no_connection_is_used_for_a_subscription_with_another_certificate() -> None:
    doorman = Doorman()
    with doorman.at_work() as url:
        pushed(url, CLIENT, OTHER, CLIENT, OTHER, None, CLIENT)

    assert doorman.seen == ["tagcast", "another tenant", "tagcast", "another tenant", "tagcast"]
    assert doorman.connections == 2


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"client_certificate": ClientCertificate("ab", "tagcast", NOW)}, "client certificate expired"),
        ({"client_key": None}, "client certificate missing"),
        ({"endpoint": Endpoint(Protocol.HTTP, "http://localhost:1/")}, "client certificate needs https"),
    ],
)
def test_without_a_certificate_in_force_nothing_is_sent_and_the_outcome_says_so(
    changes: dict[str, Any], detail: str
) -> None:
    doorman = Doorman()
    with doorman.at_work() as url:
        push = presenting(url, CLIENT)
        chosen = replace(push.subscription.settings, **changes)
        pusher = EndpointPusher(around())
        outcome = pusher.run(pusher.push(replace(push, subscription=replace(push.subscription, settings=chosen))))
        pusher.close()
        consent = HttpVerifier(around(), "tagcast").ask(chosen, "a-token", None)

    assert (outcome.detail, outcome.unreached, outcome.unsent, consent.refusal) == (detail, False, True, detail)
    assert doorman.connections == 0


def test_an_endpoint_is_asked_whether_it_agrees_with_the_certificate_of_its_pushes() -> None:
    doorman, verifier = Doorman(), HttpVerifier(around(), "tagcast")
    with doorman.at_work() as url:
        agreed, refused = (
            verifier.ask(presenting(url, each).subscription.settings, "a-token", None) for each in (CLIENT, None)
        )

    assert (agreed, refused) == (VerificationResult(), VerificationResult("tls: alert certificate required"))
    assert doorman.seen == ["tagcast", "tagcast"], "by OPTIONS and by POST"


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_private_key_is_in_no_file_when_it_was_loaded_and_nobody_else_may_read_it_before(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    met: list[tuple[list[int], str]] = []

    class Watching(ssl.SSLContext):
        def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
            modes = [stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()]
            met.append((modes, Path(certfile).read_text()))
            super().load_cert_chain(certfile, keyfile, password)

    present(Watching(ssl.PROTOCOL_TLS_CLIENT), pem_of(CLIENT))

    assert met == [([] if in_memory else [0o600], pem_of(CLIENT))]
    assert list(tmp_path.iterdir()) == []


async def test_contexts_are_made_once_for_all_who_wait_and_only_so_many_are_kept() -> None:
    made = []

    def make_tls() -> ssl.SSLContext:
        made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return made[-1]

    contexts, pem = ClientContexts(replace(around(), make_tls=make_tls)), pem_of(CLIENT)
    impatient = asyncio.create_task(contexts.presenting(pem))
    await asyncio.sleep(0)
    impatient.cancel()
    assert set(await asyncio.gather(*(contexts.presenting(pem) for _ in range(10)))) == {made[0]}
    for number in range(1, CONTEXTS_MAX):
        await contexts.presenting(pem + "\n" * number)
    assert await contexts.presenting(pem) is made[0]
    await contexts.presenting(pem + "\n" * CONTEXTS_MAX)
    assert await contexts.presenting(pem) is made[0], "what was wanted last is kept"
    await contexts.presenting(pem + "\n")
    assert len(made) == CONTEXTS_MAX + 2


async def test_contexts_are_made_one_at_a_time_and_only_while_a_push_waits() -> None:
    """Otherwise many certificates would take the processor and the threads from other pushes."""
    at_once, most, made = 0, 0, 0

    def make_tls() -> ssl.SSLContext:
        nonlocal at_once, most, made
        at_once, most, made = at_once + 1, max(most, at_once + 1), made + 1
        time.sleep(0.01)
        at_once -= 1
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    contexts, pem = ClientContexts(replace(around(), make_tls=make_tls)), pem_of(CLIENT)
    await asyncio.gather(*(contexts.presenting(pem + "\n" * number) for number in range(20)))
    late = [asyncio.create_task(contexts.presenting(pem + "\n" * number)) for number in range(20, 40)]
    await asyncio.sleep(0)
    for each in late:
        each.cancel()
    await contexts.presenting(pem + "\n" * 40)

    assert (most, made) == (1, 22)


@pytest.mark.parametrize("stopped", [None, "monotonic", "now"])
async def test_a_private_key_is_kept_no_longer_than_other_secrets_whichever_clock_stands_still(
    stopped: str | None,
) -> None:
    clock = FakeClock()
    environment = replace(around(), clock=clock)
    contexts, pem = ClientContexts(environment), pem_of(CLIENT)
    first = await contexts.presenting(pem)
    if stopped is not None:
        still = getattr(clock, stopped)()
        setattr(clock, stopped, lambda: still)
    clock.sleep(OPENED_S - 1)
    assert await contexts.presenting(pem) is first
    clock.sleep(1)
    gone = weakref.ref(first)
    del first
    await contexts.presenting(pem + "\n")
    environment.threads.shutdown()  # A thread may still hold what it returned.
    gc.collect()
    assert gone() is None


async def test_a_context_that_could_not_be_made_is_made_anew_when_it_is_wanted_again() -> None:
    faults = [OSError(errno.EMFILE, "Too many open files")]

    def make_tls() -> ssl.SSLContext:
        if faults:
            raise faults.pop()
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    contexts, pem = ClientContexts(replace(around(), make_tls=make_tls)), pem_of(CLIENT)
    waiting = [asyncio.create_task(contexts.presenting(pem)) for _ in range(2)]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in told] == [OSError, OSError]
    assert await contexts.presenting(pem) is await contexts.presenting(pem)
