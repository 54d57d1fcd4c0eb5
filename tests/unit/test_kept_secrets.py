"""What nobody is shown of a subscription stays where a PUT leaves it out, and goes by null."""

from typing import Any

import pytest
from tagcast.registry import subscriptions
from tagcast.rows.keys import secrets_key
from tagcast.sealing import OpenedSecrets

from tests.fakes.world import FakeWorld
from tests.unit.api.test_http_api import Reply
from tests.unit.worlds import ask, known

S, SEVERAL = "/topics/test1/subscriptions/A", "/topics/test1/subscriptions/batch"
HOOK = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
ELSEWHERE = {"endpoint": {"protocol": "https", "url": "https://example.com/other"}}
ANOTHER_HOST = {"endpoint": {"protocol": "https", "url": "https://example.org/hook"}, "verification": "required"}
SECRET, OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
HEADERS = {"authorization": "Bearer 4711"}


def kept(fake: FakeWorld) -> tuple[str | None, dict[str, str] | None]:
    settings = known(fake)
    return settings.secret, None if settings.headers is None else dict(settings.headers)


def put(fake: FakeWorld, **settings: Any) -> Reply:
    reply = ask(fake, "PUT", S, HOOK | settings)
    assert reply.status in (200, 201), reply.json
    return reply


def test_what_a_put_leaves_out_of_secrets_stays_and_all_else_has_its_default(fake: FakeWorld) -> None:
    put(fake, secret=SECRET, headers=HEADERS, timeout_seconds=7)
    row = dict(fake.store.rows[secrets_key("test1", "A")])

    changed = put(fake, filter={"kind": "tags", "tags": ["a"]})

    assert fake.store.rows[secrets_key("test1", "A")] == row
    assert fake.vault.opened == [], "what stays is not opened for it"
    assert kept(fake) == (SECRET, HEADERS)
    assert (changed.json["signatures"], changed.json["timeout_seconds"]) == (["v1"], 15)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"secret": OTHER}, (OTHER, HEADERS)),
        ({"headers": {"x-tenant": "b"}}, (SECRET, {"x-tenant": "b"})),
        ({"secret": None}, (None, HEADERS)),
        ({"headers": None}, (SECRET, None)),
        ({"secret": None, "headers": None}, (None, None)),
    ],
)
def test_what_a_put_names_is_replaced_and_null_removes(fake: FakeWorld, given: Any, left: Any) -> None:
    put(fake, secret=SECRET, headers=HEADERS)

    put(fake, **given)

    assert kept(fake) == left
    assert (secrets_key("test1", "A") in fake.store.rows) is (left != (None, None))


def test_a_former_secret_goes_on_signing_until_its_end_whatever_is_put_besides(fake: FakeWorld) -> None:
    put(fake, secret=SECRET)
    subscriptions.rotate_secret(fake.world, "test1", "A", OTHER, 3_600)

    put(fake, headers=HEADERS)

    assert known(fake).signing_secrets(fake.clock.now()) == (OTHER, SECRET)


def test_of_a_batch_each_keeps_its_own(fake: FakeWorld) -> None:
    put(fake, secret=SECRET, headers=HEADERS)

    reply = ask(fake, "POST", SEVERAL, {"subscriptions": [HOOK | {"name": "A", "headers": None}, HOOK | {"name": "B"}]})

    assert [each["signatures"] for each in reply.json["results"]] == [["v1"], []]
    assert kept(fake) == (SECRET, None)


def test_a_way_that_has_no_headers_is_refused_until_they_are_removed(fake: FakeWorld) -> None:
    put(fake, secret=SECRET, headers=HEADERS)
    queue = {"endpoint": {"protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:123456789012:orders"}}

    refused = ask(fake, "PUT", S, queue)
    several = ask(fake, "POST", SEVERAL, {"subscriptions": [queue | {"name": "A"}]})

    assert (refused.status, refused.pointers) == (422, ["#/headers"])
    assert "allowed only for pushes over HTTP" in refused.json["errors"][0]["detail"]
    assert several.json["results"][0]["error"]["errors"][0]["pointer"] == "#/headers"
    assert kept(fake) == (SECRET, HEADERS)
    assert ask(fake, "PUT", S, queue | {"headers": None}).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_another_endpoint_is_asked_with_the_secrets_that_its_pushes_will_have(fake: FakeWorld, method: str) -> None:
    put(fake, secret=SECRET, headers=HEADERS, verification="required")
    fake.world.memory.of(OpenedSecrets).clear()

    assert ask(fake, method, S, ELSEWHERE | {"verification": "required"}).status == 200

    asked = fake.verifier.settings[-1]
    assert (asked.endpoint.target, asked.secret, asked.headers) == (ELSEWHERE["endpoint"]["url"], SECRET, HEADERS)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_another_host_gets_no_headers_that_its_subscriber_does_not_name(fake: FakeWorld, method: str) -> None:
    def move(**settings: Any) -> tuple[int, list[str]]:
        if method != "POST":
            reply = ask(fake, method, S, ANOTHER_HOST | settings)
            return reply.status, reply.pointers if reply.status == 422 else []
        [result] = ask(fake, "POST", SEVERAL, {"subscriptions": [ANOTHER_HOST | settings | {"name": "A"}]}).json[
            "results"
        ]
        error = result.get("error", {"status": 200, "errors": []})
        return error["status"], [each["pointer"] for each in error["errors"]]

    for chosen in (HEADERS, None):
        put(fake, secret=SECRET, headers=HEADERS)
        fake.verifier.settings.clear()
        fake.world.memory.of(OpenedSecrets).clear()

        assert move() == (422, ["#/headers"])
        assert move(secret=OTHER) == (422, ["#/headers"])
        assert (fake.verifier.settings, kept(fake)) == ([], (SECRET, HEADERS))

        assert move(headers=chosen) == (200, [])
        assert [each.headers for each in fake.verifier.settings] == [chosen]
        assert kept(fake) == (SECRET, chosen)
        assert move(timeout_seconds=3) == (200, []), "the host has the headers already"


def test_a_patch_names_every_header_that_goes_to_another_host(fake: FakeWorld) -> None:
    put(fake, headers=HEADERS | {"x-tenant": "a"})

    refused = ask(fake, "PATCH", S, ANOTHER_HOST | {"headers": {"X-Tenant": "a"}})
    assert (refused.status, refused.pointers) == (422, ["#/headers"])
    assert ask(fake, "PATCH", S, ANOTHER_HOST | {"headers": {"x-tenant": "b", "Authorization": None}}).status == 200
    assert kept(fake) == (None, {"x-tenant": "b"})


@pytest.mark.parametrize("url", ["http://example.com/hook", "https://example.com:8443/hook"])
def test_another_scheme_or_port_is_another_host(fake: FakeWorld, url: str) -> None:
    put(fake, headers=HEADERS)
    moved = {"endpoint": {"protocol": url.partition(":")[0], "url": url}}

    assert [ask(fake, method, S, moved).pointers for method in ("PUT", "PATCH")] == [["#/headers"]] * 2


def test_a_secret_stays_for_another_host_which_gets_only_signatures(fake: FakeWorld) -> None:
    put(fake, secret=SECRET)

    assert ask(fake, "PATCH", S, ANOTHER_HOST).status == 200
    assert kept(fake) == (SECRET, None)


def test_while_secrets_cannot_be_read_a_put_that_names_one_of_them_loses_none(fake: FakeWorld) -> None:
    put(fake, secret=SECRET, headers=HEADERS)
    fake.world.memory.of(OpenedSecrets).clear()

    fake.vault.broken = True
    assert ask(fake, "PUT", S, HOOK | {"secret": OTHER}).status == 503
    assert ask(fake, "PUT", S, HOOK | {"timeout_seconds": 3}).status == 200
    fake.vault.broken = False

    assert kept(fake) == (SECRET, HEADERS)
