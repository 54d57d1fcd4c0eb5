"""A certificate that a subscriber's pushes present: what is wrong with one is named, and its key is never told."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tagcast.model import Subscription
from tagcast.operating.verification import verify
from tagcast.registry import subscriptions
from tagcast.rows.keys import secrets_key
from tagcast.subscription_settings import Signature
from tagcast.verification import VerificationResult

from tests.certificates import OF_OPENSSL, OF_SERVERS, Certified, Issuer, pem_of
from tests.fakes.world import FakeWorld
from tests.unit.api.test_http_api import Reply
from tests.unit.worlds import ask, known

S = "/topics/test1/subscriptions/A"
HTTPS = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OURS = Issuer("receivers")
BETWEEN = Issuer("subscribers", OURS)
EC = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65_537, 2_048)
PLAIN = BETWEEN.issue("tagcast", EC)
CHAIN = Certified(PLAIN.chain + BETWEEN.own.chain, PLAIN.key)


def body_of(certified: Certified) -> dict[str, Any]:
    return {"client_certificate": {"certificate": certified.chain, "private_key": certified.key}}


def put(fake: FakeWorld, certified: Certified | None = CHAIN, **settings: Any) -> Reply:
    shown = {"client_certificate": None} if certified is None else body_of(certified)
    return ask(fake, "PUT", S, HTTPS | shown | settings)


def stored(fake: FakeWorld) -> Subscription:
    return subscriptions.get_subscription(fake.world, "test1", "A")


def secret_lines(key: str) -> list[str]:
    return [line for line in key.splitlines() if len(line) > 40 and "-----" not in line]


@pytest.mark.parametrize(
    "certified",
    [
        PLAIN,
        CHAIN,
        Certified(CHAIN.chain + OURS.own.chain, CHAIN.key),
        BETWEEN.issue("rsa", RSA),
        Certified(PLAIN.chain.replace("\n", "\r\n"), pem_of(EC, form=OF_OPENSSL)),
        Certified(
            f"Certificate:\n  Data: …\n{PLAIN.chain}",
            f"-----BEGIN EC PARAMETERS-----\nBg==\n-----END EC PARAMETERS-----\n{PLAIN.key}",
        ),
    ],
    ids=["alone", "with its issuer", "with all issuers", "rsa", "as openssl writes keys", "with what openssl adds"],
)
def test_a_certificate_with_its_key_is_taken(fake: FakeWorld, certified: Certified) -> None:
    assert put(fake, certified).status == 201


@pytest.mark.parametrize(
    ("certified", "pointer", "reason"),
    [
        (Certified("4711", PLAIN.key), "certificate", "must be PEM certificates"),
        (Certified(PLAIN.chain + PLAIN.key, PLAIN.key), "certificate", "must be PEM certificates"),
        (Certified(PLAIN.chain.replace("M", "A"), PLAIN.key), "certificate", "not a certificate"),
        (
            Certified(PLAIN.chain.replace("\n-----E", "\xa0\n-----E"), PLAIN.key),
            "certificate",
            "must be PEM certificates",
        ),
        (Certified(PLAIN.chain + OURS.own.chain, PLAIN.key), "certificate", "must be signed by the next"),
        (BETWEEN.issue("old", EC, days=(-2, -1)), "certificate", "certificate has expired"),
        (BETWEEN.issue("young", EC, days=(1, 2)), "certificate", "not yet valid"),
        (BETWEEN.issue("a server", EC, purpose=OF_SERVERS), "certificate", "unsuitable certificate purpose"),
        (BETWEEN.issue("weak", rsa.generate_private_key(65_537, 1_024)), "certificate", "too weak"),
        (Certified(PLAIN.chain, "4711"), "private_key", "one private key"),
        (Certified(PLAIN.chain, PLAIN.key + PLAIN.key), "private_key", "one private key"),
        (Certified(PLAIN.chain, PLAIN.key.replace("M", "A")), "private_key", "not a key that TLS can use"),
        (Certified(PLAIN.chain, pem_of(EC, b"4711")), "private_key", "must not be encrypted"),
        (Certified(PLAIN.chain, pem_of(EC, b"4711", OF_OPENSSL)), "private_key", "must not be encrypted"),
        (Certified(PLAIN.chain, BETWEEN.issue("another").key), "private_key", "does not belong"),
        (Certified(PLAIN.chain, pem_of(RSA)), "private_key", "does not belong"),
        (Certified(BETWEEN.own.chain + PLAIN.chain, PLAIN.key), "private_key", "does not belong"),
        (Certified(PLAIN.chain + " " * 10_240, PLAIN.key), "certificate", "at most 10240"),
        (Certified(PLAIN.chain, PLAIN.key + " " * 4_096), "private_key", "at most 4096"),
    ],
)
def test_what_no_push_could_present_is_refused_with_its_reason(
    fake: FakeWorld, certified: Certified, pointer: str, reason: str
) -> None:
    answer = put(fake, certified)

    assert (answer.status, answer.pointers) == (422, [f"#/client_certificate/{pointer}"])
    assert reason in answer.json["errors"][0]["detail"]
    assert not any(line in json.dumps(answer.json) for line in secret_lines(certified.key))
    assert secrets_key("test1", "A") not in fake.store.rows


@pytest.mark.parametrize(
    "endpoint",
    [
        {"protocol": "http", "url": "http://example.com/"},
        {"protocol": "pull"},
        {"protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"},
        {"protocol": "lambda", "function": "f"},
    ],
)
def test_only_pushes_over_https_present_a_certificate(fake: FakeWorld, endpoint: Mapping[str, str]) -> None:
    assert put(fake, endpoint=endpoint).pointers == ["#/client_certificate"]


def test_of_a_certificate_everybody_is_told_whose_it_is_and_nobody_its_key(fake: FakeWorld) -> None:
    answers = [put(fake), ask(fake, "GET", S), ask(fake, "GET", "/topics/test1/subscriptions")]

    told = answers[1].json["client_certificate"]
    assert told == answers[0].json["client_certificate"]
    assert (told["subject"], len(told["fingerprint"])) == ("commonName=tagcast", 64)
    assert told["expires_at"].endswith("Z")
    said = json.dumps([answer.json for answer in answers]) + repr((fake.store.rows, stored(fake), known(fake)))
    assert not any(line in said for line in secret_lines(CHAIN.key))
    assert (known(fake).client_key or "").endswith(CHAIN.key)


def test_an_empty_certificate_is_no_word_for_the_present_one(fake: FakeWorld) -> None:
    put(fake)
    answer = ask(fake, "PATCH", S, body_of(Certified("", "")))
    assert (answer.status, answer.pointers) == (422, ["#/client_certificate/certificate"])


def test_a_push_is_made_with_the_certificate_that_was_put_last(fake: FakeWorld) -> None:
    renewed = BETWEEN.issue("renewed")
    for each in (CHAIN, renewed, None):
        put(fake, each)
        fake.first_round("x")

    keys = [push.subscription.settings.client_key for push in fake.pusher.pushes]
    assert [key and key.endswith(of.key) for key, of in zip(keys, (CHAIN, renewed), strict=False)] == [True, True]
    assert keys[2] is None
    assert secrets_key("test1", "A") not in fake.store.rows
    assert "client_certificate" not in ask(fake, "GET", S).json


def test_an_endpoint_is_asked_with_the_opened_secrets_of_its_subscription(fake: FakeWorld) -> None:
    fake.verifier.consents["https://example.com/hook"] = VerificationResult("http 404")
    put(fake, secret=SECRET, signature="v1a", verification="required")
    verify(fake.world, "test1", "A")

    first, again = fake.verifier.settings
    for asked in (first, again):
        assert (asked.secret, asked.signature, asked.client_key is None) == (SECRET, Signature.V1A, False)
    assert fake.verifier.subscription_ids == [None, stored(fake).subscription_id]
    assert fake.signer.is_ready


def test_of_several_subscriptions_each_has_its_own_certificate_or_its_fault(fake: FakeWorld) -> None:
    misfit = Certified(PLAIN.chain, pem_of(RSA))
    several = [{"name": name, **HTTPS, **body_of(each)} for name, each in (("A", CHAIN), ("B", misfit))]
    made, refused = ask(fake, "POST", "/topics/test1/subscriptions/batch", {"subscriptions": several}).json["results"]

    assert made["client_certificate"]["subject"] == "commonName=tagcast"
    assert (known(fake).client_key or "").endswith(CHAIN.key)
    assert [fault["pointer"] for fault in refused["error"]["errors"]] == ["#/client_certificate/private_key"]
