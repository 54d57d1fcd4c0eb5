"""The function publish at a URL of its own: what API Gateway did for it, it does itself or does without."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.limits import REQUEST_BYTES_MAX
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL

from functions.publish import app as publish
from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

EVENT = json.loads((Path(__file__).parents[3] / "events" / "publish_url.json").read_text())
CONTENT: str = EVENT["body"]


@pytest.fixture
def fakes() -> FakeWorld:
    fakes = FakeWorld()
    assert answered(fakes.world, "PUT", "/topics/orders")["statusCode"] == 201
    return fakes


def asked(fakes: FakeWorld, method: str = "POST", path: str = EVENT["rawPath"], **event: Any) -> dict[str, Any]:
    context = EVENT["requestContext"] | {"http": EVENT["requestContext"]["http"] | {"method": method, "path": path}}
    return publish.handle(EVENT | {"rawPath": path, "requestContext": context, **event}, fakes.world)


def test_a_message_is_accepted_there_as_the_api_accepts_it(fakes: FakeWorld) -> None:
    there = asked(fakes)
    again = answered(fakes.world, "POST", "/topics/orders/messages", CONTENT, {"Idempotency-Key": "order-1"})
    assert (there["statusCode"], again["statusCode"]) == (201, 201)
    assert json.loads(there["body"])["message_id"] == json.loads(again["body"])["message_id"]


def test_in_base64_a_request_may_be_as_large_as_in_text(fakes: FakeWorld) -> None:
    octets = CONTENT.encode().ljust(REQUEST_BYTES_MAX)
    for more, status in ((b"", 201), (b" ", 413)):
        body = base64.b64encode(octets + more).decode()
        assert asked(fakes, body=body, isBase64Encoded=True)["statusCode"] == status


def test_a_request_is_not_larger_there_than_at_the_api(fakes: FakeWorld) -> None:
    assert asked(fakes, body=json.dumps({"body": "x" * REQUEST_BYTES_MAX}))["statusCode"] == 413


def test_who_may_call_it_may_do_what_the_scope_of_publishing_lets_through_and_no_more() -> None:
    assert {scope for route in PUBLISH for scope in route.scopes} == {TokenScope.PUBLISH}


def test_nothing_is_served_there_but_publishing(fakes: FakeWorld) -> None:
    for route in (*MANAGE, *PULL):
        refused = asked(fakes, route.method, route.path)
        publishes = route.path == "/topics/{topic}/messages"
        assert refused["statusCode"] == (405 if publishes else 404), route.path
        assert refused["headers"]["Content-Type"] == "application/problem+json"
        assert refused["headers"].get("Allow") == ("POST" if publishes else None)
