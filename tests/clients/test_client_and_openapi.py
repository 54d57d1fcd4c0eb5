"""The client against the OpenAPI document: no operation without a method, no field without its like."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from tagcast_client import (
    group_models,
    group_operations,
    groups,
    hosts,
    models,
    operations,
    publishing,
    service,
    tailing,
)
from tagcast_client.operation import Operation

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
MESSAGE = models.NewMessage("x")
TRACE = {"traceparent": "p", "tracestate": "s"}
OPERATIONS: list[Operation[Any]] = [
    service.health(),
    operations.put_topic("t", {}, 1),
    operations.change_topic("t", {}, 1),
    operations.get_topic("t"),
    operations.delete_topic("t", 1),
    operations.list_topics(1, "c"),
    operations.put_subscription("t", "s", {}, 1),
    operations.put_subscriptions("t", []),
    operations.change_subscription("t", "s", {}, 1),
    operations.get_subscription("t", "s"),
    operations.delete_subscription("t", "s", 1),
    operations.list_subscriptions("t", 1, "c"),
    operations.list_versions("t", "s"),
    operations.change_filter("t", "s", None, 1),
    operations.rotate_secret("t", "s", None, 1, 1),
    operations.verify_endpoint("t", "s"),
    publishing.publish("t", MESSAGE, "k", TRACE),
    publishing.publish_batch("t", [], "k", TRACE),
    publishing.replay("t", "s", [], "k"),
    operations.get_message("t", "1", "c", "blocked"),
    operations.find_message("1", "c", "blocked"),
    operations.list_messages("t", True, 1, "c"),
    operations.list_attempts("t", "1", 1, "c"),
    operations.explain("t", "1", "s"),
    operations.change_lane("t", "s", "pause"),
    operations.change_lane("t", "s", "resume"),
    operations.change_lane("t", "s", "retry"),
    operations.skip("t", "s", "r"),
    operations.backlog("t", "s", 1, "c"),
    operations.list_lanes(1, "c"),
    hosts.list_hosts(1, "c"),
    operations.push("t"),
    group_operations.pull("t", "s", 1, 1, 10, "c"),
    group_operations.ack("t", "s", ["h"]),
    group_operations.nack("t", "s", ["h"], 1),
    group_operations.extend("t", "s", ["h"], 10),
    operations.set_shadow("t", "s", None),
    operations.get_shadow("t", "s"),
    operations.delete_shadow("t", "s"),
    operations.promote_shadow("t", "s", 1),
    groups.heartbeat("t", "s", "i", {}),
    groups.leave("t", "s", "i"),
    groups.list_members("t", "s"),
    operations.test_filter(None, MESSAGE),
    tailing.tail("t", tailing.TailWish("k", "s", "s", 1), "c", 1),
]
WORDS = {"t": "{topic}", "s": "{subscription}", "1": "{message_id}", "i": "{client_id}"}
ANSWERS = {
    models.Accepted: "AcceptedAnswer",
    models.Refused: "RefusedAnswer",
    models.Topic: "TopicAnswer",
    models.Head: "HeadAnswer",
    models.Lane: "LaneAnswer",
    models.OwedHead: "OwedHeadAnswer",
    models.UrgentLane: "UrgentLaneAnswer",
    hosts.Host: "HostAnswer",
    models.Subscription: "SubscriptionAnswer",
    models.BatchedPushes: "BatchedPushesAnswer",
    models.ClientCertificate: "ClientCertificateAnswer",
    models.Entry: "EntryAnswer",
    models.Message: "MessageAnswer",
    group_models.Pulled: "PulledAnswer",
    group_models.Handle: "HandleAnswer",
    models.Attempt: "AttemptAnswer",
    models.Attempted: "AttemptedAnswer",
    models.Delivery: "DeliveryAnswer",
    models.Version: "VersionAnswer",
    models.Shadow: "ShadowAnswer",
    models.ShadowCounts: "ShadowCounts",
    models.ShadowSample: "ShadowSample",
    groups.Member: "MemberAnswer",
    groups.Group: "GroupAnswer",
    models.FilterTest: "FilterTestAnswer",
    service.Health: "HealthAnswer",
    tailing.TailEvent: "TailEventAnswer",
    tailing.Counts: "CountsAnswer",
    tailing.Tail: "TailAnswer",
}
ENVELOPES = {
    "AttemptsAnswer", "BacklogAnswer", "BatchAnswer", "HandlesAnswer", "HostsAnswer", "PullAnswer",
    "LanesAnswer", "MembersAnswer", "MessagesAnswer", "SubscriptionsAnswer", "TopicsAnswer",
    "PutSubscriptionsAnswer", "UrgentLanesAnswer", "VersionsAnswer",
}  # fmt: skip


def template(path: str) -> str:
    return "/" + "/".join(WORDS.get(word, word) for word in path.strip("/").split("/"))


def described(operation: Operation[Any]) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][template(operation.path)][operation.method.lower()]
    return found


def test_every_operation_of_the_document_has_its_like() -> None:
    offered = {
        (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
        if method in ("get", "put", "patch", "post", "delete")
    }
    assert {(each.method, template(each.path)) for each in OPERATIONS} == offered - {
        ("GET", "/"),
        ("GET", "/openapi.json"),
    }


def operation_id(operation: Operation[Any]) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=operation_id)
def test_an_operation_sends_only_parameters_that_the_document_knows(operation: Operation[Any]) -> None:
    parameters = {each["name"]: each["in"] for each in described(operation).get("parameters", [])}
    assert {name for name, where in parameters.items() if where == "query"} == set(operation.query)
    headers = {name for name, where in parameters.items() if where == "header"}
    of_the_connection, for_if_match = "tagcast-version", "If-None-Match"
    assert headers - {of_the_connection, for_if_match} == set(operation.headers)


def kind_of(schema: Mapping[str, Any], is_instant: bool) -> object:
    """Return the annotation that a schema asks for."""
    if "anyOf" in schema:
        [only] = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return kind_of(only, is_instant) | type(None)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return next(kind for kind, its in ANSWERS.items() if its == name)
    if "oneOf" in schema:
        return Mapping[str, str if all(map(is_of_texts, schema["oneOf"])) else Any]  # type: ignore[misc]
    match schema["type"]:
        case "string":
            return datetime if is_instant else str
        case "integer":
            return int
        case "number":
            return float
        case "boolean":
            return bool
        case "array":
            return tuple[kind_of(schema["items"], False), ...]  # type: ignore[misc]
        case "object":
            inner = schema.get("additionalProperties")
            return Mapping[str, kind_of(inner, False) if isinstance(inner, dict) else Any]  # type: ignore[misc]
    raise AssertionError(schema)


def is_of_texts(schema: Mapping[str, Any]) -> bool:
    """Say whether all that an object of this schema holds are texts."""
    held = SCHEMAS[schema["$ref"].rpartition("/")[2]]["properties"].values()
    kinds = {choice.get("type") for each in held for choice in each.get("anyOf", [each])}
    return kinds <= {"string", "null"}


def shown(kind: object) -> str:
    """Return an annotation as text; `X | None` and the default of what may be absent look the same."""
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(sorted(shown(each) for each in get_args(kind)))
    return re.sub(r"(typing|collections\.abc|tagcast_client\.models|datetime)\.", "", str(kind)).replace("<class ", "")


@pytest.mark.parametrize(("kind", "name"), ANSWERS.items(), ids=ANSWERS.values())
def test_a_value_has_the_fields_of_its_schema(kind: Any, name: str) -> None:
    schema = SCHEMAS[name]
    hints = get_type_hints(kind)
    mine = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    required = set(schema.get("required", ()))
    assert mine == {field: field in required for field in schema["properties"]}
    for field, said in schema["properties"].items():
        wanted = kind_of(said, field.endswith("_at") or field == "since")
        hint = hints[field]
        if not mine[field] and type(None) in get_args(hint) and type(None) not in get_args(wanted):
            wanted = wanted | type(None)
        assert shown(hint) == shown(wanted), field


def test_every_answer_of_the_document_has_its_value() -> None:
    answers = {name for name in SCHEMAS if name.endswith("Answer")}
    assert answers == {name for name in ANSWERS.values() if name.endswith("Answer")} | ENVELOPES | {"AboutAnswer"}


def test_a_new_message_has_the_fields_of_its_schema() -> None:
    given = models.NewMessage("x", ("a",), "a.b", {"p": "v"}, "k", "text/plain", "p", "s").as_json()
    octets = models.NewMessage(b"x").as_json()
    assert given.keys() | octets.keys() == SCHEMAS["MessageBody"]["properties"].keys()
    archived = models.ArchivedMessage("1", models.NewMessage("x")).as_json()
    assert archived.keys() <= SCHEMAS["ReplayedMessage"]["properties"].keys()
