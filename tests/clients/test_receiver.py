"""Receiving: what the shipped code puts on the wire is verified and read, everything else is refused."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook
from tagcast.model import ContentFormat, Draft, Message, Push, PushBatch, Subscription
from tagcast.pushing.batch_form import BATCH_FORMATS, batch_request, shared_item
from tagcast.pushing.envelope import http_request
from tagcast.pushing.webhook_signature import Sign
from tagcast.subscription_settings import Signature
from tagcast_aws.store.signing_key import SubscriptionKeys
from tagcast_client import Received, Receiver, UnreadableError, VerificationError, item_failures, read_batch
from tagcast_client.received import read

from tests.clients.recipes import load_recipe
from tests.fakes.pushes import push_to

SECRET, OTHER = "whsec_" + "QUJD" * 8, "whsec_" + "REVG" * 8
KEYS = SubscriptionKeys(("seed",))


def public_key(of: Subscription, keys: SubscriptionKeys = KEYS) -> str:
    [key] = keys.of(of.subscription_id)
    return f"whpk_{base64.b64encode(bytes(key.verify_key)).decode()}"


def own_key() -> str:
    """Return the public key of the subscription that :func:`signed_by_the_service` pushes to."""
    return public_key(push_of(BODIES["text"], ContentFormat.JSON).subscription)


def sign_by(keys: SubscriptionKeys) -> Sign:
    return lambda subscription_id, content: tuple(key.sign(content).signature for key in keys.of(subscription_id))


BODIES: dict[str, Draft] = {
    "text": Draft(b"hello", True, ("apple", "pear")),
    "text beyond ASCII": Draft("äöü € 😀".encode(), True, ("größe",), properties={"p": "ä"}),
    "octets": Draft(bytes(range(256)), False),
    "JSON": Draft(b'{"a": [1, 2]}', True, content_type="application/json"),
    "broken JSON": Draft(b'{"a": ', True, content_type="application/json"),
    "a routed message": Draft(b"", True, routing_key="a.b", ordering_key="k 1"),
    "JSON without end": Draft(b"[" * 99_999, True, content_type="application/json"),
    "an envelope of its own": Draft(b'{"topic": "orders", "message_id": "0"}', True, content_type="application/json"),
}


def push_of(draft: Draft, content_format: ContentFormat, secret: str | None = SECRET) -> Push:
    push = push_to("https://example.com/", draft=draft, content_format=content_format, secret=secret)
    message = Message("orders", "01787000000000000001", draft, 1_800_000_000_123, 1_800_086_400_123)
    return Push(replace(push.subscription, topic="orders", name="billing"), message, 3)


def signed(
    draft: Draft,
    content_format: ContentFormat = ContentFormat.JSON,
    secret: str | None = SECRET,
    at_s: float | None = None,
) -> tuple[Mapping[str, str], bytes]:
    sent_at = round((time.time() if at_s is None else at_s) * 1000)
    request = http_request(push_of(draft, content_format, secret), sent_at, "0.1.0")
    return request.headers, request.body


@pytest.mark.parametrize("content_format", [each for each in ContentFormat if not each.startswith("cmq")])
@pytest.mark.parametrize("name", BODIES)
def test_every_push_is_verified_and_read(name: str, content_format: ContentFormat) -> None:
    draft = BODIES[name]
    received = Receiver(SECRET).verify(*signed(draft, content_format))

    assert (received.topic, received.subscription, received.attempt) == ("orders", "billing", 3)
    assert received.message_id == "01787000000000000001"
    assert received.body == draft.body
    assert received.tags == draft.tags
    if content_format is ContentFormat.JSON:
        assert (received.routing_key, received.properties) == (draft.routing_key, draft.properties)
        assert (received.ordering_key, received.content_type) == (draft.ordering_key, draft.content_type)
        assert received.expires_at is not None
        assert received.expires_at.timestamp() == 1_800_086_400.123
    if content_format is not ContentFormat.SIMPLIFIED:
        assert received.accepted_at is not None
        assert received.accepted_at.timestamp() == 1_800_000_000.123
    if content_format is ContentFormat.CLOUDEVENTS:
        assert received.ordering_key == draft.ordering_key


def test_a_push_of_an_older_service_lacks_attributes_that_the_client_knows() -> None:
    headers, body = signed(BODIES["text"])
    older = {name: value for name, value in json.loads(body).items() if name != "ordering_key"}

    assert read(headers, json.dumps(older).encode()).ordering_key is None


@pytest.mark.parametrize("content_format", [ContentFormat.CMQ_JSON, ContentFormat.CMQ_SIMPLIFIED])
def test_a_push_in_cmqs_form_is_verified_and_its_body_is_as_it_came(content_format: ContentFormat) -> None:
    headers, body = signed(BODIES["text"], content_format)

    received = Receiver(SECRET).verify(headers, body)

    assert (received.topic, received.message_id, received.body) == ("orders", "01787000000000000001", body)


def flip(body: bytes) -> bytes:
    return bytes([body[0] ^ 1]) + body[1:]


TAMPERED: dict[str, Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]]] = {
    "another body": lambda headers, body: (headers, flip(body)),
    "another id": lambda headers, body: (headers | {"webhook-id": "1"}, body),
    "an id that is no text": lambda headers, body: (headers | {"webhook-id": "\udcff"}, body),
    "another time": lambda headers, body: (headers | {"webhook-timestamp": str(int(time.time()) + 1)}, body),
    "no signature": lambda headers, body: ({n: v for n, v in headers.items() if n != "webhook-signature"}, body),
    "a signature that is none": lambda headers, body: (headers | {"webhook-signature": "v1"}, body),
    "a signature that is no base64": lambda headers, body: (headers | {"webhook-signature": "v1,ä"}, body),
    "a signature of another version": lambda headers, body: (headers | {"webhook-signature": "v9,QUJD"}, body),
    "a time that is none": lambda headers, body: (headers | {"webhook-timestamp": "now"}, body),
    "nothing": lambda headers, body: ({}, b""),
}


def signed_by_the_service(
    secret: str | None = None, at_s: float | None = None, keys: SubscriptionKeys = KEYS
) -> tuple[Mapping[str, str], bytes]:
    """A push of a subscription with the signature v1a."""
    push = push_of(BODIES["text"], ContentFormat.JSON, secret)
    settings = replace(push.subscription.settings, signature=Signature.V1A)
    push = replace(push, subscription=replace(push.subscription, settings=settings))
    sent_at = round((time.time() if at_s is None else at_s) * 1000)
    request = http_request(push, sent_at, "0.1.0", sign=sign_by(keys))
    return request.headers, request.body


def test_what_the_service_signs_verifies_by_the_public_key_of_the_subscription() -> None:
    alone, both = signed_by_the_service(), signed_by_the_service(SECRET)
    for receiver in (Receiver(own_key()), Receiver(OTHER, own_key())):
        assert [receiver.verify(*push).text() for push in (alone, both)] == ["hello", "hello"]
    assert Receiver(SECRET).verify(*both).text() == "hello"
    with pytest.raises(VerificationError):
        Receiver(own_key()).verify(*signed(BODIES["text"]))


def test_a_push_of_ones_own_verifies_as_no_other_subscription_s() -> None:
    """Who may subscribe has any octets signed, and may send them on with any headers beside the signed ones."""
    own = push_of(Draft(b'{"transfer": 1000000}'), ContentFormat.SIMPLIFIED, None)
    settings = replace(own.subscription.settings, signature=Signature.V1A)
    own = replace(own, subscription=replace(own.subscription, topic_id="07457000000000000002", settings=settings))
    request = http_request(own, round(time.time() * 1000), "0.1.0", sign=sign_by(KEYS))
    assert Receiver(public_key(own.subscription)).verify(request.headers, request.body).body == own.message.draft.body

    as_another = {**request.headers, "x-tagcast-topic": "orders", "x-tagcast-subscription": "billing"}

    with pytest.raises(VerificationError):
        Receiver(own_key()).verify(as_another, request.body)
    with pytest.raises(VerificationError):
        Receiver(own_key()).verify_batch(as_another | {"x-tagcast-batch": "1"}, request.body)


def test_while_the_seed_is_exchanged_either_public_key_verifies() -> None:
    subscription = push_of(BODIES["text"], ContentFormat.JSON).subscription
    headers, body = signed_by_the_service(keys=SubscriptionKeys(("another seed", "seed")))

    assert [each[:4] for each in headers["webhook-signature"].split(" ")] == ["v1a,", "v1a,"]
    for key in (own_key(), public_key(subscription, SubscriptionKeys(("another seed",)))):
        assert Receiver(key).verify(headers, body).text() == "hello"


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_changed_on_its_way_is_refused_by_the_secret_and_by_the_public_key(name: str) -> None:
    by_key = Receiver(own_key()), signed_by_the_service()
    for receiver, (headers, body) in ((Receiver(SECRET), signed(BODIES["text"])), by_key):
        with pytest.raises(VerificationError):
            receiver.verify(*TAMPERED[name](dict(headers), body))


def moved_into_the_time(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    """Move the beginning of a body such as ``1200.50`` into the timestamp: the signed bytes stay the same."""
    beginning, _, rest = body.partition(b".")
    return {**headers, "webhook-timestamp": f"{headers['webhook-timestamp']}.{beginning.decode()}"}, rest


def moved_into_the_id(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    """Move the timestamp into the id, and the beginning of the body, a later time, into the timestamp."""
    beginning, _, rest = body.partition(b".")
    earlier = f"{headers['webhook-id']}.{headers['webhook-timestamp']}"
    return {**headers, "webhook-id": earlier, "webhook-timestamp": beginning.decode()}, rest


def test_no_part_of_a_body_passes_as_the_time_or_the_id() -> None:
    amount = signed(Draft(b"1200.50", True), ContentFormat.SIMPLIFIED)
    assert Receiver(SECRET).verify(*amount).body == b"1200.50"
    timed = Draft(f"{int(time.time())}.order".encode(), True)
    for headers, body in (
        moved_into_the_time(*amount),
        moved_into_the_id(*signed(timed, ContentFormat.SIMPLIFIED)),
        moved_into_the_id(*signed(timed, ContentFormat.SIMPLIFIED, at_s=time.time() - 3_600)),
    ):
        with pytest.raises(VerificationError):
            Receiver(SECRET).verify(headers, body)


@pytest.mark.parametrize("off_s", [-301, 301])
def test_what_is_older_or_newer_than_five_minutes_is_refused(off_s: int) -> None:
    def pushed(off_s: float) -> tuple[tuple[Mapping[str, str], bytes], ...]:
        at_s = time.time() + off_s
        return signed(BODIES["text"], at_s=at_s), signed_by_the_service(at_s=at_s)

    for receiver, late, timely in zip(
        (Receiver(SECRET), Receiver(own_key())), pushed(off_s), pushed(off_s * 0.97), strict=True
    ):
        assert failure_of(receiver, *late) == "untimely"
        assert receiver.verify(*timely).text() == "hello"


@pytest.mark.parametrize("key", ["whpk_", "whpk_QUJD", "whpk_ä"])
def test_what_is_no_public_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError):
        Receiver(key)


def test_any_of_the_secrets_may_have_signed() -> None:
    request = signed(BODIES["octets"], ContentFormat.SIMPLIFIED, OTHER)
    assert Receiver(SECRET, OTHER).verify(*request).body == bytes(range(256))
    with pytest.raises(VerificationError):
        Receiver(SECRET).verify(*request)
    with pytest.raises(ValueError, match="secret"):
        Receiver()


def test_what_the_standard_webhooks_library_signs_is_verified() -> None:
    headers, body = signed(BODIES["text beyond ASCII"], ContentFormat.SIMPLIFIED)
    Webhook(SECRET).verify(body, dict(headers), json_parse=False)
    assert Receiver(SECRET).verify({name.upper(): value for name, value in headers.items()}, body).text() == "äöü € 😀"


def failure_of(receiver: Receiver, headers: Mapping[str, str], body: bytes) -> str:
    with pytest.raises(VerificationError) as caught:
        receiver.verify(headers, body)
    return caught.value.failure


def test_each_cause_of_a_failed_verification_has_a_reason_of_its_own() -> None:
    headers, body = signed(BODIES["text"])
    unsigned = {name: value for name, value in headers.items() if name != "webhook-signature"}
    assert failure_of(Receiver(SECRET), unsigned, body) == "unsigned"
    assert failure_of(Receiver(SECRET), {**headers, "webhook-timestamp": "soon"}, body) == "untimely"
    assert failure_of(Receiver(SECRET), *signed_by_the_service()) == "other_scheme"
    assert failure_of(Receiver(own_key()), headers, body) == "other_scheme"
    assert failure_of(Receiver(OTHER), headers, body) == "wrong_signature"
    assert failure_of(Receiver(SECRET), headers, body + b" ") == "wrong_signature"


@pytest.mark.parametrize(
    "text", ["", "secret", "whsec_", "whsec_QUJD", "whsec_not base64 at all, of some length!", "A" * 40]
)
def test_a_text_that_is_no_secret_is_refused_when_the_receiver_is_made(text: str) -> None:
    with pytest.raises(ValueError, match="a secret is whsec_ and the base64 of 24 to 64 bytes"):
        Receiver(text)


def test_a_secret_or_a_body_of_another_type_is_named() -> None:
    missing: Any = None  # E.g. of an environment variable.
    with pytest.raises(TypeError, match="a secret is a text, not NoneType"):
        Receiver(missing)
    headers, body = signed(BODIES["text"])
    text: Any = body.decode()
    with pytest.raises(TypeError, match="the body must be the bytes of the request, not str"):
        Receiver(SECRET).verify(headers, text)


def test_what_is_signed_and_no_push_is_unreadable() -> None:
    headers, body = signed(BODIES["text"])
    with pytest.raises(UnreadableError):
        Receiver(SECRET).verify({n: v for n, v in headers.items() if n != "x-tagcast-topic"}, body)


def signed_batch(
    content_format: ContentFormat = ContentFormat.JSON,
    drafts: Sequence[Draft] = tuple(BODIES.values()),
    made: Callable[[Message, int], Message] = lambda message, place: message,
) -> tuple[Mapping[str, str], bytes]:
    known = push_of(drafts[0], content_format)
    messages = [
        made(replace(known.message, message_id=f"0178700000000000000{place}", draft=draft), place)
        for place, draft in enumerate(drafts)
    ]
    batch = PushBatch(known.subscription, tuple(Push(known.subscription, each, 1) for each in messages), "batch_1")
    shared = [shared_item(each, content_format) for each in messages]
    request = batch_request(batch, round(time.time() * 1000), "0.1.0", shared)
    return request.headers, request.body


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
def test_a_batch_is_verified_and_read_message_by_message(content_format: ContentFormat) -> None:
    headers, body = signed_batch(content_format)
    found = Receiver(SECRET).verify_batch(headers, body)

    in_envelopes = content_format is ContentFormat.JSON
    assert [each.body for each in found if in_envelopes or each.content_type != "application/json"] == [
        draft.body for draft in BODIES.values() if in_envelopes or draft.content_type is None
    ]
    assert [each.message_id for each in found] == [f"0178700000000000000{place}" for place in range(len(BODIES))]
    assert {(each.topic, each.subscription, each.attempt) for each in found} == {("orders", "billing", 1)}
    assert len({each.traceparent for each in found}) == len(found)
    with pytest.raises(VerificationError):
        Receiver(SECRET).verify_batch(headers, flip(body))


@pytest.mark.parametrize("content_format", ContentFormat)
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ('{"specversion": "1.0", "id": "another"}', "application/cloudevents+json; charset=utf-8"),
        ('"hello"', "application/JSON"),
        ('{"a": 1}\n{"a": 2}\n', "application/x-ndjson"),
        ("hello", "application/x-not-json-really"),
    ],
)
def test_a_body_is_read_by_its_media_type(body: str, content_type: str, content_format: ContentFormat) -> None:
    draft = Draft(body.encode(), content_type=content_type)
    if content_format not in (ContentFormat.CMQ_JSON, ContentFormat.CMQ_SIMPLIFIED):
        single = Receiver(SECRET).verify(*signed(draft, content_format))
        is_renamed = content_format is ContentFormat.CLOUDEVENTS and "cloudevents" in content_type
        assert (single.body, single.content_type) == (draft.body, "application/json" if is_renamed else content_type)
    if content_format in BATCH_FORMATS:
        batch = Receiver(SECRET).verify_batch(*signed_batch(content_format, (draft, draft)))
        assert [(each.body, each.content_type) for each in batch] == [(draft.body, content_type)] * 2


ORIGINAL = "01786000000000000007"


def replayed(message: Message, place: int) -> Message:
    """Every other message is a replay, each of another one."""
    return replace(message, replay_of=f"{ORIGINAL[:-1]}{place}" if place % 2 else None)


@pytest.mark.parametrize("content_format", ContentFormat)
@pytest.mark.parametrize("place", [0, 1])
def test_a_push_says_whether_it_is_a_replay_and_of_what(content_format: ContentFormat, place: int) -> None:
    push = push_of(BODIES["text"], content_format)
    request = http_request(replace(push, message=replayed(push.message, place)), round(time.time() * 1000), "0.1.0")
    expected = f"{ORIGINAL[:-1]}1" if place else None

    assert Receiver(SECRET).verify(request.headers, request.body).replay_of == expected
    assert [each.replay_of for each in Receiver(SECRET).verify_batch(request.headers, request.body)] == [expected]


@pytest.mark.parametrize("content_format", sorted(BATCH_FORMATS))
@pytest.mark.parametrize("size", [1, 2, len(BODIES)])
def test_each_message_of_a_batch_says_whether_it_is_a_replay_and_of_what(
    content_format: ContentFormat, size: int
) -> None:
    drafts = tuple(BODIES.values())[:size]
    headers, body = signed_batch(content_format, drafts, replayed)
    found = Receiver(SECRET).verify_batch(headers, body)

    assert [each.replay_of for each in found] == [
        f"{ORIGINAL[:-1]}{place}" if place % 2 else None for place in range(size)
    ]
    assert [each.message_id for each in found] == [f"0178700000000000000{place}" for place in range(size)]
    if content_format is ContentFormat.CLOUDEVENTS:
        assert [each.ordering_key for each in found] == [draft.ordering_key for draft in drafts]
    else:
        told = [(each.tags, each.routing_key, each.properties) for each in found]
        assert told == [(draft.tags, draft.routing_key, draft.properties) for draft in drafts]


AS_EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "01787000000000000001",
    "ce-time": "2026-11-29T12:00:00Z",
}
"""Headers of a CloudEvent with the id of :func:`push_of`, which an attacker adds to an envelope."""


@pytest.mark.parametrize("more", [{}, AS_EVENT], ids=["alone", "as an event"])
@pytest.mark.parametrize("name", ["x-tagcast-topic", "x-tagcast-subscription", "x-tagcast-attempt"])
def test_unsigned_headers_that_differ_from_the_signed_envelope_are_refused(name: str, more: dict[str, str]) -> None:
    headers, body = signed(BODIES["text"])

    assert Receiver(SECRET).verify({**headers, **more}, body).text() == "hello"
    with pytest.raises(UnreadableError, match="than the envelope"):
        Receiver(SECRET).verify({**headers, **more, name: "7"}, body)


def test_an_unsigned_header_makes_no_batch_of_a_message_and_no_message_of_a_batch() -> None:
    forged = f'[{{"topic": "orders", "subscription": "billing", "message_id": "{"0" * 20}"}}]'
    headers, body = signed(Draft(forged.encode(), True), ContentFormat.SIMPLIFIED)
    with pytest.raises(UnreadableError, match="without the id of a batch"):
        Receiver(SECRET).verify_batch({**headers, "x-tagcast-batch": "1"}, body)

    batched, items = signed_batch(ContentFormat.JSON)
    with pytest.raises(UnreadableError, match="without the header"):
        Receiver(SECRET).verify({name: each for name, each in batched.items() if name != "x-tagcast-batch"}, items)


def test_a_push_of_one_message_is_read_as_a_batch_of_one_and_a_batch_as_no_message() -> None:
    receiver = Receiver(SECRET)
    single = signed(BODIES["text"])

    assert receiver.verify_batch(*single) == (receiver.verify(*single),)
    with pytest.raises(UnreadableError, match="verify_batch"):
        receiver.verify(*signed_batch())


@pytest.mark.parametrize("body", [b"", b"{}x", b"[1]", b'[{"topic": "orders"}]', b"7", b"[" * 99_999])
def test_what_is_no_batch_is_unreadable(body: bytes) -> None:
    headers, _ = signed_batch()
    with pytest.raises(UnreadableError):
        read_batch(headers, body)


def test_a_message_of_another_subscription_is_in_no_batch() -> None:
    headers, body = signed_batch()
    with pytest.raises(UnreadableError, match="another topic or subscription"):
        read_batch(headers, body.replace(b'"billing"', b'"others"'))


Recipe = Callable[[str], ModuleType]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    return load_recipe


def asked(app: Any, headers: Mapping[str, str], body: bytes, method: str = "POST") -> httpx.Response:
    """What an ASGI application answers at its hook."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.request(method, "/hook", content=body, headers=dict(headers))

    return asyncio.run(ask())


def invocation(headers: Mapping[str, str], body: bytes, *, is_base64: bool = False) -> dict[str, Any]:
    """The event of a function URL."""
    text = base64.b64encode(body).decode() if is_base64 else body.decode()
    http = {"http": {"method": "POST"}}
    return {"headers": dict(headers), "body": text, "isBase64Encoded": is_base64, "requestContext": http}


Send = Callable[[Mapping[str, str], bytes], int]


def to_django(hook: Any) -> Send:
    requests = django_requests()

    def send(headers: Mapping[str, str], body: bytes) -> int:
        named = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        return int(hook(requests.post("/hook", data=body, content_type=headers["content-type"], **named)).status_code)

    return send


def to_flask(app: Any) -> Send:
    post = app.test_client().post
    return lambda headers, body: int(post("/hook", data=body, headers=dict(headers)).status_code)


def to_function(handler: Any, *, is_base64: bool) -> Send:
    return lambda headers, body: int(handler(invocation(headers, body, is_base64=is_base64), None)["statusCode"])


@pytest.mark.parametrize(
    ("name", "sending"),
    [
        ("fastapi_app", lambda module: lambda headers, body: asked(module.app, headers, body).status_code),
        ("flask_app", lambda module: to_flask(module.app)),
        ("django_view", lambda module: to_django(module.hook)),
        ("function_url", lambda module: to_function(module.handler, is_base64=False)),
        ("function_url", lambda module: to_function(module.handler, is_base64=True)),
    ],
)
def test_a_recipe_takes_a_push_and_its_repetition_and_refuses_a_changed_one(
    recipe: Recipe, capsys: pytest.CaptureFixture[str], name: str, sending: Callable[[ModuleType], Send]
) -> None:
    send, (headers, body) = sending(recipe(name)), signed(BODIES["text beyond ASCII"])

    assert [send(headers, body), send(headers, body), send(headers, flip(body))] == [204, 204, 401]
    assert capsys.readouterr().out == "orders 01787000000000000001 äöü € 😀\n"


@pytest.mark.parametrize("name", ["fastapi_app", "flask_app", "function_url"])
def test_a_recipe_asks_for_a_message_again_while_another_delivery_of_it_is_processed(recipe: Recipe, name: str) -> None:
    module = recipe(name)
    headers, body = signed(BODIES["text"])
    claim = module.seen._store.claim("orders/billing/01787000000000000001", "another process", 30.0)

    if name == "fastapi_app":
        asyncio.run(claim)
        answer = asked(module.app, headers, body)
        told = answer.status_code, answer.headers["retry-after"]
    elif name == "flask_app":
        flask = module.app.test_client().post("/hook", data=body, headers=dict(headers))
        told = flask.status_code, flask.headers["Retry-After"]
    else:
        found = module.handler(invocation(headers, body), None)
        told = found["statusCode"], found["headers"]["Retry-After"]

    assert told == (503, "30")


def test_the_recipe_for_batches_answers_which_failed(recipe: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    app = recipe("fastapi_batches").app
    headers, body = signed_batch(drafts=(Draft(b"hello"), Draft(b"\xff", False)))

    answers = [asked(app, headers, body) for _ in range(2)]

    assert [each.json() for each in answers] == [item_failures(read_batch(headers, body)[1:])] * 2
    assert asked(app, headers, flip(body)).status_code == 401
    assert capsys.readouterr().out == "orders 01787000000000000000 hello\n"


def test_in_the_recipe_for_batches_an_exception_fails_only_its_message(recipe: Recipe) -> None:
    module = recipe("fastapi_batches")
    headers, body = signed_batch(drafts=(Draft(b"a"), Draft(b"b"), Draft(b"c")))
    done: list[str] = []

    def process(message: Received) -> None:
        if message.text() == "b":
            raise KeyError("customer")
        done.append(message.text())

    vars(module)["process"] = process
    assert asked(module.app, headers, body).json() == item_failures(read_batch(headers, body)[1:2])
    assert done == ["a", "c"]


def django_requests() -> Any:
    from django.conf import settings
    from django.test import RequestFactory

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], DEFAULT_CHARSET="utf-8")
    return RequestFactory()


def test_every_recipe_agrees_to_be_pushed_to(recipe: Recipe) -> None:
    event = {"requestContext": {"http": {"method": "OPTIONS"}}}
    lambda_answer = recipe("function_url").handler(event, None)
    answers = [
        *(asked(recipe(name).app, {}, b"", "OPTIONS") for name in ("fastapi_app", "fastapi_batches")),
        recipe("flask_app").app.test_client().options("/hook"),
        recipe("django_view").hook(django_requests().options("/hook")),
    ]

    assert [(each.status_code, each.headers["WebHook-Allowed-Origin"]) for each in answers] == [(200, "*")] * 4
    assert (lambda_answer["statusCode"], lambda_answer["headers"]) == (200, {"WebHook-Allowed-Origin": "*"})
