"""The client against the OpenAPI document: no operation without a method, no field without its like."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from tagcast.filters.kinds import KINDS, canonical
from tagcast_client import AnyFilter, Endpoint, Filter, Retry, groups, models, operations, publishing, settings, tailing
from tagcast_client.filters import with_defaults
from tagcast_client.operation import Operation

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
MESSAGE = models.NewMessage("x")
HISTORY_WORDS = ("tag", "subscription", "state", "limit", "cursor")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TRACE = {"traceparent": "p", "tracestate": "s"}
OPERATIONS: list[Operation[Any]] = [
    operations.health(),
    operations.create_topic("t", {}),
    operations.update_topic("t", {}, 1),
    operations.get_topic("t"),
    operations.delete_topic("t", 1),
    operations.list_topics(1, "c"),
    operations.create_subscription("t", "s", {}),
    operations.create_subscriptions("t", [], replace=True),
    operations.update_subscription("t", "s", {}, 1),
    operations.get_subscription("t", "s"),
    operations.delete_subscription("t", "s", 1),
    operations.list_subscriptions("t", 1, "c"),
    operations.list_versions("t", "s"),
    operations.update_filter("t", "s", None, 1),
    operations.rotate_secret("t", "s", None, 1, 1),
    operations.verify_endpoint("t", "s"),
    publishing.publish("t", MESSAGE, "k", TRACE),
    publishing.publish_batch("t", [], "k", TRACE),
    publishing.replay("t", "s", [], "k"),
    operations.get_message("t", "1", "c", "blocked"),
    operations.find_message("1", "c", "blocked"),
    operations.list_messages("t", True, 1, "c"),
    operations.list_attempts("t", "1", 1, "c"),
    operations.read_history("t", NOW, ("a", "b"), dict.fromkeys(HISTORY_WORDS, "x")),
    operations.explain("t", "1", "s"),
    operations.change_lane("t", "s", "pause"),
    operations.change_lane("t", "s", "resume"),
    operations.change_lane("t", "s", "retry"),
    operations.skip("t", "s", "r", None),
    *(operations.change_lanes(change, {}, None) for change in ("retry", "pause", "resume", "skip")),
    operations.backlog("t", "s", 1, "c"),
    operations.list_lanes(1, "c"),
    operations.list_hosts(1, "c"),
    operations.retry_topic("t"),
    groups.pull("t", "s", 1, 1, 10, "c"),
    groups.ack("t", "s", ["h"]),
    groups.nack("t", "s", ["h"], 1),
    groups.extend("t", "s", ["h"], 10),
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
WORDS = {"t": "{topic}", "s": "{subscription}", "1": "{message_id}", "i": "{member_id}"}
ANSWERS = {
    models.Accepted: "AcceptedAnswer",
    models.Refused: "RefusedAnswer",
    models.Topic: "TopicAnswer",
    models.Head: "HeadAnswer",
    models.Lane: "LaneAnswer",
    models.PendingHead: "PendingHeadAnswer",
    models.UrgentLane: "UrgentLaneAnswer",
    models.ActedLane: "ActedLaneAnswer",
    models.ActedLanes: "ActedLanesAnswer",
    models.Host: "HostAnswer",
    models.Subscription: "SubscriptionAnswer",
    models.BatchedPushes: "BatchedPushesAnswer",
    models.ClientCertificate: "ClientCertificateAnswer",
    models.Entry: "EntryAnswer",
    models.Message: "MessageAnswer",
    groups.Pulled: "PulledAnswer",
    groups.Handle: "HandleAnswer",
    models.History: "HistoryAnswer",
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
    models.Health: "HealthAnswer",
    tailing.TailEvent: "TailEventAnswer",
    tailing.Counts: "CountsAnswer",
    tailing.Tail: "TailAnswer",
}
FORMS = [kind | none for kind in (AnyFilter, Endpoint, Retry) for none in (kind, None)]
"""Objects that are typed by their kinds here, and compared with the schemas of requests below."""
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
    of_the_connection, other = "tagcast-version", "If-Match" if operation.creates else "If-None-Match"
    assert headers - {of_the_connection, other} == set(operation.headers), "each stands in the place of the other"


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
    if get_origin(kind) is Literal:
        return shown(str)
    return re.sub(r"(typing|collections\.abc|tagcast_client\.models|datetime)\.", "", str(kind)).replace("<class ", "")


@pytest.mark.parametrize(("kind", "name"), ANSWERS.items(), ids=ANSWERS.values())
def test_a_value_has_the_fields_of_its_schema(kind: Any, name: str) -> None:
    schema = SCHEMAS[name]
    hints = get_type_hints(kind)
    mine = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    properties, required = dict(schema["properties"]), set(schema.get("required", ()))
    if properties.pop("body_base64", None):  # Two forms of one field.
        del properties["body"]
        assert hints.pop("body") == (bytes if mine.pop("body") else bytes | None)
    assert mine == {field: field in required for field in properties}
    for field, said in properties.items():
        if hints[field] in FORMS:
            continue
        wanted = kind_of(said, field.endswith(("_at", "_until")) or field == "since")
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


REQUESTS: dict[str, type[Any]] = {
    "TopicBody": settings.TopicSettings,
    "TopicPatch": settings.TopicChanges,
    "NamedSubscription": settings.NamedSubscription,
    "SubscriptionPatch": settings.SubscriptionChanges,
    "HttpEndpoint": settings.HttpEndpoint,
    "SqsEndpoint": settings.SqsEndpoint,
    "LambdaEndpoint": settings.LambdaEndpoint,
    "PullEndpoint": settings.PullEndpoint,
    "BackoffRetry": settings.BackoffRetry,
    "DecayRetry": settings.DecayRetry,
    "BatchedPushes": settings.Batch,
    "ClientCertificateBody": settings.Certificate,
}


def words_of(kind: object) -> set[str]:
    """Return the words of a Literal, or of the one in a union."""
    found = [each for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    return {word for each in found for word in get_args(each)}


def words_in(schema: Mapping[str, Any]) -> set[str]:
    """Return the words that a schema lets through."""
    inner = [word for each in schema.get("anyOf", ()) for word in words_in(each)]
    return {*schema.get("enum", ()), *inner, *([schema["const"]] if "const" in schema else [])}


@pytest.mark.parametrize(("name", "kind"), REQUESTS.items(), ids=REQUESTS)
def test_a_setting_has_its_like_in_the_document_and_the_same_words(name: str, kind: type[Any]) -> None:
    properties, hints = SCHEMAS[name]["properties"], get_type_hints(kind)
    assert hints.keys() == properties.keys()
    for field, schema in properties.items():
        if words := words_in(schema):
            assert words_of(hints[field]) == words, field


def test_members_say_the_modes_of_the_document() -> None:
    assert words_of(groups.Mode) == words_in(SCHEMAS["HeartbeatBody"]["properties"]["mode"])


FILTERS: dict[str, tuple[AnyFilter, AnyFilter]] = {
    "tags": (Filter.tags("a", "b"), {"kind": "tags", "tags": ["a", "b"], "match": "any"}),
    "all tags": (Filter.tags("a", "b", match="all"), {"kind": "tags", "tags": ["a", "b"], "match": "all"}),
    "tag_expression": (Filter.tag_expression("a || b"), {"kind": "tag_expression", "expression": "a || b"}),
    "routing_key": (Filter.routing_key("a.*", "b.#"), {"kind": "routing_key", "patterns": ["a.*", "b.#"]}),
    "sql92": (Filter.sql("price > 100"), {"kind": "sql92", "expression": "price > 100"}),
    "rocketmq": (
        Filter.sql("a = 1", dialect="rocketmq"),
        {"kind": "sql92", "expression": "a = 1", "dialect": "rocketmq"},
    ),
    "event_pattern": (Filter.pattern({"a": [1]}), {"kind": "event_pattern", "pattern": {"a": [1]}}),
    "sns": (
        Filter.pattern({"a": ["x"]}, dialect="sns", scope="properties"),
        {"kind": "event_pattern", "pattern": {"a": ["x"]}, "dialect": "sns", "scope": "properties"},
    ),
    "function": (Filter.function("rate"), {"kind": "function", "function": "rate"}),
    "blocking": (
        Filter.function("rate", on_error="block", timeout_seconds=5),
        {"kind": "function", "function": "rate", "on_error": "block", "timeout_seconds": 5},
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_constructed_filter_is_the_one_that_answers_show(name: str) -> None:
    constructed, written = FILTERS[name]
    assert constructed == canonical(written) == canonical(constructed)
    assert with_defaults(written) == constructed


def test_every_kind_of_filter_has_a_constructor() -> None:
    assert {constructed["kind"] for constructed, _ in FILTERS.values()} == set(KINDS)
    assert {word for kind in get_args(AnyFilter) for word in words_of(get_type_hints(kind)["kind"])} == set(KINDS)
