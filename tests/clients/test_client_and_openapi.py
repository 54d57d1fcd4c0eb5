"""The client against the OpenAPI document: each operation is called as its example says, and reads its answer."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import openapi_source
import pytest
from tagcast.filters.kinds import KINDS, canonical
from tagcast_client import AnyFilter, ArchivedMessage, Client, Filter, NewMessage, Pages, Subscription
from tagcast_client.filters import with_defaults
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
PLACES = {
    operation["operationId"]: (path, verb.upper(), operation)
    for path, item in DOCUMENT["paths"].items()
    for verb, operation in item.items()
}


def sample(name: str, schema: Mapping[str, Any]) -> Any:
    by_type = {"integer": schema.get("maximum", 3), "boolean": True}
    at = NOW if schema.get("format") == "date-time" else f"a={name}"
    return schema["enum"][0] if "enum" in schema else by_type.get(schema["type"], at)


def message_of(item: Mapping[str, Any]) -> NewMessage | ArchivedMessage:
    said = {name: value for name, value in item.items() if name not in ("body", "body_base64", "replay_of")}
    message = NewMessage(b"\x00\xff" if "body_base64" in item else item["body"], **said)
    return ArchivedMessage(item["replay_of"], message) if "replay_of" in item else message


def shown(value: Any) -> Any:
    """Return a value of the client as the API writes it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode()
    if is_dataclass(value):
        return {each.name: shown(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: shown(each) for name, each in value.items()}
    return [shown(each) for each in value] if isinstance(value, list | tuple) else value


def says(value: Any, example: Any) -> bool:
    """Say whether a value that was read has everything that the example has."""
    if isinstance(example, Mapping) and isinstance(value, Mapping):
        return all(name in value and says(value[name], each) for name, each in example.items())
    if isinstance(example, list) and isinstance(value, list):
        return len(value) == len(example) and all(map(says, value, example))
    return bool(value == example)


class Exampled(httpx.BaseTransport):
    """Answers what the example of an operation does."""

    def __init__(self, operation: Mapping[str, Any]) -> None:
        self.status, answer = next(each for each in operation["responses"].items() if each[0].startswith("2"))
        self.example = answer.get("content", {}).get("application/json", {}).get("example")
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.status == "204":
            return httpx.Response(204)
        answer = {"name": "tagcast", "version": "0", "api_version": "0", "openapi": "", "health": ""}
        return httpx.Response(int(self.status), json=self.example or answer)


def call(client: Client, name: str) -> Any:
    """Call an operation with every parameter that it has, and the body of its example."""
    _, _, operation = PLACES[name]
    method = getattr(client, name)
    parameters = [each for each in operation["parameters"] if each["in"] in ("path", "query")]
    arguments = {each["name"]: sample(each["name"], each["schema"]) for each in parameters}
    arguments |= operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example", {})
    for field in ("message", "messages"):
        if field in arguments:
            said = arguments[field]
            arguments[field] = [message_of(each) for each in said] if field == "messages" else message_of(said)
    taken = inspect.signature(method).parameters
    if "if_version" in taken:
        arguments["if_version"] = 3
    is_list = name.startswith("list_") and "cursor" in arguments
    cursor = arguments.pop("cursor") if is_list else None
    result = method(**arguments)
    assert isinstance(result, Pages) == is_list
    return result.page(cursor).items if isinstance(result, Pages) else result


@pytest.mark.parametrize("name", PLACES)
def test_an_operation_sends_the_example_of_the_document_and_reads_its_answer(name: str) -> None:
    path, verb, operation = PLACES[name]
    api = Exampled(operation)

    result = call(Client("http://api.test", transport=api), name)

    [request] = api.requests
    parameters = {(each["in"], each["name"]): each["schema"] for each in operation["parameters"]}
    names = {each: sample(each, schema) for (where, each), schema in parameters.items() if where == "path"}
    assert (request.method, request.url.path) == (verb, path.format(**names))
    assert set(request.url.params) == {each for where, each in parameters if where == "query"}
    sent = {each for where, each in parameters if where == "header" and each in request.headers}
    offered = {each for where, each in parameters if where == "header" and not each.startswith("trace")}
    assert offered - sent == ({"If-Match"} if "If-None-Match" in offered else set()), "each stands for the other"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    if body is not None:
        got = json.loads(request.content)
        assert {key: value for key, value in got.items() if key != "replace"} == body
    if api.example is not None:
        [values] = api.example.values() if isinstance(result, tuple) and len(api.example) == 1 else [api.example]
        expected = api.example.get(next(iter(api.example)), values) if isinstance(result, tuple) else values
        assert says(shown(result), expected)


def test_an_operation_takes_every_field_of_its_body() -> None:
    for name, (_, _, operation) in PLACES.items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        properties = {} if content is None else SCHEMAS[content["schema"]["$ref"].rpartition("/")[2]]["properties"]
        taken = dict(inspect.signature(getattr(Client, name)).parameters)
        for form in get_args(
            get_type_hints(getattr(Client, name)).get("settings" if "settings" in taken else "changes")
        ):
            taken |= form.__annotations__
        if name != "publish":  # Its body is text or octets.
            assert properties.keys() <= taken.keys(), name


def test_a_setting_that_an_answer_leaves_out_has_its_default_and_a_secret_is_not_printed() -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    answer = {"secret": {"type": "string"}, "keep": {"type": "string"}, "warnings": texts, "name": {"type": "string"}}
    body = {"keep": {"type": "string", "default": "life"}, "secret": {"type": "string", "writeOnly": True}}
    schemas = {"ThingAnswer": {"properties": answer, "required": ["name"]}, "ThingBody": {"properties": body}}
    modules = openapi_source.Modules({"components": {"schemas": schemas}, "paths": {}})
    assert modules.models[modules.class_of("ThingAnswer")].splitlines()[6:] == [
        "    name: str",
        "    secret: str | None = field(default=None, repr=False)",
        "    keep: str = 'life'",
        "    warnings: tuple[str, ...] = ()",
    ]
    secrets = {each.name: each.repr for each in fields(Subscription) if each.name == "secret"}
    assert secrets == {"secret": False}


def test_the_tables_name_every_setting_with_its_bounds() -> None:
    topic, subscription = ({each.name: each for each in table} for table in (TOPIC_SETTINGS, SUBSCRIPTION_SETTINGS))
    assert list(topic) == list(SCHEMAS["TopicBody"]["properties"])
    assert list(subscription) == list(SCHEMAS["SubscriptionBody"]["properties"])
    retention, rate = topic["retention_seconds"], subscription["max_per_second"]
    assert (retention.type, retention.minimum, retention.maximum, retention.default) == ("integer", 60, 86_400, 86_400)
    assert (rate.type, rate.minimum, rate.maximum, rate.default) == ("number", 0.01, 1000, None)
    assert topic["ordering"].choices == ("topic", "key", "none")
    assert {name for name, each in subscription.items() if each.is_write_only} == {
        "secret",
        "headers",
        "client_certificate",
    }


def test_a_table_reads_properties_in_every_form_of_the_document() -> None:
    kind = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"pem": {"type": "string", "writeOnly": True}},
    }
    body = {
        "plain": {"type": "boolean", "default": True, "description": "Say it.", "x-option": "--plain"},
        "nullable": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "How many."},
        "referred": {"anyOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "null"}]},
        "extended": {"allOf": [{"$ref": "#/components/schemas/Word"}], "description": "Which.", "x-short": "w"},
        "one_of": {"oneOf": [{"$ref": "#/components/schemas/Kind"}, {"$ref": "#/components/schemas/Kind"}]},
        "anything": {"anyOf": [{"type": "integer"}, {"const": "life"}]},
    }
    schemas = {"Kind": kind, "Word": {"enum": ["a", "b"], "type": "string", "description": "A word."}}
    document = {"components": {"schemas": {**schemas, "TopicBody": {"properties": body}}}, "paths": {}}
    rows = openapi_source.Modules(document).table("TABLE", "TopicBody").splitlines()
    assert rows[1:] == [
        "TABLE: tuple[Setting, ...] = (",
        "    Setting('plain', 'boolean', help='Say it.', default=True, extra={'option': '--plain'}),",
        "    Setting('nullable', 'integer', help='How many.', minimum=1),",
        "    Setting('referred', 'object', is_write_only=True),",
        "    Setting('extended', 'string', help='Which.', choices=('a', 'b'), extra={'short': 'w'}),",
        "    Setting('one_of', 'object'),",
        "    Setting('anything', 'any'),",
        ")",
    ]


def test_the_build_fails_where_it_would_leave_something_out() -> None:
    answer = {"properties": {"results": {"type": "array", "items": {"type": "string"}}}}
    clash = openapi_source.Modules({"components": {"schemas": {"Lane": answer, "LaneAnswer": answer}}, "paths": {}})
    clash.class_of("LaneAnswer")
    with pytest.raises(ValueError, match="both named Lane"):
        clash.class_of("Lane")
    header = {"name": "X-New", "in": "header", "required": False, "schema": {"type": "string"}}
    operation = {"operationId": "act", "summary": "Act", "parameters": [header], "responses": {"204": {}}}
    document = {"components": {"schemas": {}}, "paths": {"/act": {"post": operation}}}
    with pytest.raises(ValueError, match="X-New"):
        openapi_source.Modules(document).operations()


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
    assert with_defaults(written) == with_defaults(constructed)


def test_every_kind_of_filter_has_a_constructor() -> None:
    assert {constructed["kind"] for constructed, _ in FILTERS.values()} == set(KINDS)
