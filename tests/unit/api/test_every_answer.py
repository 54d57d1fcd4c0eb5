"""What holds of every answer: the version that it follows, the id of its request, problems that programs can read."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.errors import FaultCode
from tagcast.filters.kinds import KINDS
from tagcast_aws import wiring
from tagcast_aws.api.http.problems import ProblemCode
from tagcast_aws.api.http.routing import API_VERSION
from tagcast_aws.api.routes import description
from tagcast_client import version

from functions.cmq import app as cmq
from functions.manage import app as manage
from tests.cmq.asking import HOME, Asking, event_of
from tests.fakes.handlers import answered
from tests.unit.api.test_http_api import HOOK, BrokenStore, Client, S

LAYERS = Path(__file__).parents[3] / "layers" / "tag_matching" / "python"
DOCUMENT = description()


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("PUT", "/topics/new", {}, 201),
        ("DELETE", "/topics/orders", None, 204),
        ("POST", "/topics/orders/messages", {"body": "x"}, 201),
        ("PUT", "/topics/orders", "{", 400),
        ("GET", "/nowhere", None, 404),
        ("PATCH", "/health", None, 405),
        ("PUT", "/topics/orders", {"size": 1}, 422),
    ],
)
def test_every_answer_says_its_version_and_the_id_of_its_request(
    api: Client, method: str, target: str, body: Any, status: int
) -> None:
    answer = api(method, target, body)

    assert answer.status == status
    assert (answer.headers["tagcast-version"], answer.headers["tagcast-request-id"]) == (API_VERSION, "r-1")
    if status >= 400:
        assert answer.json["request_id"] == "r-1"


def test_a_version_that_the_service_knows_may_be_asked_for_and_another_is_refused(api: Client) -> None:
    assert api("GET", "/topics", **{"Tagcast-Version": API_VERSION}).status == 200

    for unknown in ("2020-01-01", "", "latest"):
        refused = api("GET", "/topics", **{"tagcast-version": unknown})
        assert (refused.status, refused.json["code"]) == (400, "unknown_version")
        assert API_VERSION in refused.json["detail"]
    refused = api("POST", "/topics/orders/messages", {"body": "x"}, **{"tagcast-version": "2020-01-01"})
    assert refused.status == 400
    assert not any(key.pk.startswith("MSG#") for key in api.fakes.store.rows)


def test_the_client_asks_for_the_version_of_the_service() -> None:
    assert version.API_VERSION == API_VERSION == DOCUMENT["info"]["version"]


def test_the_answers_of_cmq_have_the_id_of_their_request_too() -> None:
    asking = Asking()
    answer = answered_by_cmq(asking, event_of("Action=ListTopic", method="GET"))
    assert (answer["headers"]["tagcast-request-id"], json.loads(answer["body"])["requestId"]) == ("r-1", "r-1")


def answered_by_cmq(asking: Asking, event: dict[str, Any]) -> dict[str, Any]:
    return cmq.handle(event, asking.fake.world, asking.secret, HOME)


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("fault", ["unforeseen", "told"])
def test_every_line_of_the_log_that_a_request_writes_has_its_id(
    api: Client, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    broken: Any = BrokenStore(ValueError("table on fire"))

    def world() -> Any:
        wiring.logger().warning("a line of an adapter")
        return replace(api.fakes.world, store=broken) if fault == "unforeseen" else api.fakes.world

    monkeypatch.setattr(wiring, "process", lambda: SimpleNamespace(world=world()))
    context = SimpleNamespace(
        function_name="manage", memory_limit_in_mb=512, invoked_function_arn="arn", aws_request_id="r"
    )
    event = {
        "version": "2.0", "rawPath": S, "rawQueryString": "", "headers": {},
        "requestContext": {"stage": "$default", "requestId": "gateway-7", "http": {"method": "GET", "path": S}},
    }  # fmt: skip
    log = StringIO()
    monkeypatch.setattr(wiring.logger().registered_handler, "stream", log)

    level = wiring.logger().log_level
    wiring.logger().setLevel("INFO")  # Histories that this process played before leave it silent.
    try:
        answer = manage.lambda_handler(event, context)
    finally:
        wiring.logger().setLevel(level)

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(lines) == (2 if fault == "unforeseen" else 1)
    assert {line["correlation_id"] for line in lines} == {answer["headers"]["tagcast-request-id"]} == {"gateway-7"}


@pytest.mark.parametrize("target", ["/topics?state=blocked", "/topics/orders?limit=1", f"{S}?verbose=1"])
def test_a_parameter_that_a_route_does_not_have_is_refused_as_an_unknown_field_is(api: Client, target: str) -> None:
    refused = api("GET", target)

    [fault] = refused.json["errors"]
    name = target.partition("?")[2].partition("=")[0]
    assert (refused.status, refused.json["code"]) == (422, "invalid")
    assert (fault["code"], fault["pointer"]) == ("unknown", f"#/{name}")
    assert fault["detail"].startswith("is not a known parameter; allowed: ")
    if target.startswith("/topics?"):
        assert fault["detail"].endswith("allowed: limit, cursor")


def test_a_change_with_an_unknown_parameter_changes_nothing(api: Client) -> None:
    assert api("DELETE", "/topics/orders?dry_run=true").status == 422
    assert api("GET", "/topics/orders").status == 200


def test_an_event_of_a_state_that_there_is_not_is_refused_instead_of_waited_for(api: Client) -> None:
    refused = api("GET", "/topics/orders/tail?state=diskarded")
    assert (refused.status, refused.pointers) == (422, ["#/state"])


def test_at_the_root_cmq_answers_only_who_asks_cmq() -> None:
    for event in (event_of("Action=ListTopic", method="GET", path="/"), event_of("a=1&action=ListTopic", path="/")):
        assert "requestId" in json.loads(answered_by_cmq(Asking(), event)["body"])
    for event in (event_of('{"Action": 1}', path="/"), event_of("", method="GET", path="/prod/")):
        refused = answered_by_cmq(Asking(), event)
        assert (refused["statusCode"], "GET /openapi.json" in refused["body"]) == (404, True)
        assert refused["headers"]["tagcast-version"] == API_VERSION
    assert json.loads(answered_by_cmq(Asking(), event_of("", method="GET"))["body"])["code"] == 4000


def test_a_repeated_answer_says_that_it_is_one(api: Client) -> None:
    def asked(path: str, body: Any, key: str) -> str | None:
        return api("POST", f"/topics/orders/{path}", body, **{"idempotency-key": key}).headers.get(
            "idempotent-replayed"
        )

    two = {"messages": [{"body": "1"}, {"body": "2"}, {"tags": "no message"}]}
    assert [asked("messages", {"body": "x"}, "a") for _ in range(2)] == [None, "true"]
    assert [asked("messages/batch", two, "b") for _ in range(2)] == [None, "true"]
    none = {"messages": [{"tags": "no message"}]}
    assert [asked("messages/batch", none, "c") for _ in range(2)] == [None, None]

    api("PUT", "/topics/orders/subscriptions/a", HOOK)
    replay = {"messages": [{"body": "x", "replay_of": "0" * 20}]}
    assert [asked("subscriptions/a/replay", replay, "d") for _ in range(2)] == [None, "true"]


def test_a_batch_of_which_a_part_is_new_is_no_repetition(api: Client) -> None:
    body = json.dumps({"messages": [{"body": "1"}, {"body": "2"}]})
    first = answered(api.fakes.world, "POST", "/topics/orders/messages/batch", body, {"idempotency-key": "k"})
    second_claim = next(key for key in api.fakes.store.rows if key.pk.startswith("IDEM#") and key.pk.endswith("#k#1"))
    del api.fakes.store.rows[second_claim]  # As if the first request had died in between.

    second = answered(api.fakes.world, "POST", "/topics/orders/messages/batch", body, {"idempotency-key": "k"})

    assert "idempotent-replayed" not in second["headers"]
    assert json.loads(first["body"])["results"][0] == json.loads(second["body"])["results"][0]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"size": 1}, [("unknown", "#/size")]),
        ({"retention_seconds": "x"}, [("wrong_type", "#/retention_seconds")]),
        ({"retention_seconds": 1}, [("too_small", "#/retention_seconds")]),
        ({"retention_seconds": 10**6}, [("too_large", "#/retention_seconds")]),
        ({"ordering": "fifo"}, [("not_allowed", "#/ordering")]),
    ],
)
def test_each_fault_has_a_code_for_programs(api: Client, body: Any, faults: list[tuple[str, str]]) -> None:
    refused = api("PUT", "/topics/orders", body)
    assert [(each["code"], each["pointer"]) for each in refused.json["errors"]] == faults
    assert refused.json["type"] == "about:blank"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, "required"),
        (HOOK | {"filter": {"kind": "sql92", "expression": "a >"}}, "syntax"),
        (HOOK | {"filter": {"kind": "tag"}}, "not_allowed"),
        (HOOK | {"filter": {"kind": "tags", "tags": ["x" * 65]}}, "too_large"),
        (HOOK | {"ordered": True, "retry": {"max_retries": 9}}, "conflict"),
        (HOOK | {"ordered": False, "retry": {"strategy": "BACKOFF_RETRY"}}, "conflict"),
        (HOOK | {"retry": {"strategy": "BACKOFF_RETRY", "max_interval_seconds": 9}}, "conflict"),
        (HOOK | {"retry": {"strategy": "BACKOFF_RETRY", "max_retries": "forever"}}, "wrong_type"),
        (HOOK | {"retry": {"strategy": "BACKOFF_RETRY", "max_retries": 101}}, "too_large"),
        (HOOK | {"secret": "mine"}, "wrong_format"),
        (HOOK | {"headers": {"x-a": "1", "X-A": "2"}}, "duplicate"),
        ({"endpoint": {"protocol": "https", "url": "https://169.254.169.254/"}}, "refused"),
    ],
)
def test_each_fault_of_a_subscription_has_a_code_for_programs(api: Client, settings: Any, code: str) -> None:
    api.fakes.world = replace(api.fakes.world, guard=SimpleNamespace(refusal=refusal))
    assert [each["code"] for each in api("PUT", S, settings).json["errors"]] == [code]


def refusal(endpoint: Any) -> str | None:
    return "leads to an address that is not reached" if "169.254" in endpoint.target else None


def test_each_code_of_a_fault_and_of_a_problem_is_used_somewhere() -> None:
    text = "".join(path.read_text() for path in LAYERS.rglob("*.py"))
    for codes in (FaultCode, ProblemCode):
        used = set(re.findall(rf"{codes.__name__}\.([A-Z][A-Z_]+)", text))
        assert {each.name for each in codes} == used


def test_every_instant_of_the_document_is_one_and_every_state_says_what_it_may_be() -> None:
    instants, states = [], []
    for model, name, schema in properties():
        told = json.dumps(schema)
        if name.endswith("_at") or name == "since":
            instants.append(name)
            assert '"date-time"' in told, (model, name)
        if name in ("state", "status", "mode", "ordering", "keep", "content_format", "kind", "protocol", "strategy"):
            states.append(name)
            assert model == "Problem" or '"enum"' in told or '"const"' in told or name == "status", (model, name)
    assert (len(instants), states.count("state")) == (36, 12)


def properties() -> Iterator[tuple[str, str, Any]]:
    for model, schema in DOCUMENT["components"]["schemas"].items():
        for name, each in schema.get("properties", {}).items():
            yield model, name, each


def test_filters_are_typed_by_their_kinds() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for model, name, schema in properties():
        if name == "filter" and model != "SubscriptionPatch":
            assert schema["$ref"] == "#/components/schemas/Filter", model
    assert {"type": "null"} in schemas["Filter"]["oneOf"]
    assert schemas["Filter"]["discriminator"]["propertyName"] == "kind"
    assert tuple(schemas["Filter"]["discriminator"]["mapping"]) == tuple(sorted(KINDS))
    for kind, ref in schemas["Filter"]["discriminator"]["mapping"].items():
        assert schemas[ref.rpartition("/")[2]]["properties"]["kind"]["const"] == kind


def test_no_description_is_written_as_a_docstring_is() -> None:
    assert not re.findall(r"``|:\w+:`", json.dumps(DOCUMENT))
