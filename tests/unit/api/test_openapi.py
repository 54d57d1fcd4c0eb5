"""The API document: names, groups and examples, and the client that a public generator makes of it."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from tagcast.model import ContentFormat
from tagcast.pushing.envelope import http_request
from tagcast_aws.api.http.openapi import TAGS, examples
from tagcast_aws.api.http.webhooks import TAG_OF_WEBHOOKS
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL, description
from tagcast_client import Client, item_failures, read_batch

from tests.clients.in_memory_api import InMemoryApi
from tests.clients.test_receiver import BODIES, push_of, signed_batch
from tests.unit.api.example_story import played

DOCUMENT = description()
HOOK: dict[str, Any] = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}
DESCRIBED = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}  # fmt: skip


def faults(value: Any, schema: Any) -> list[str]:
    whole = {"$defs": DOCUMENT["components"]["schemas"], **schema}
    text = json.dumps(whole).replace("#/components/schemas/", "#/$defs/")
    return [error.message for error in Draft202012Validator(json.loads(text)).iter_errors(value)]


def test_the_examples_are_what_the_service_answers() -> None:
    assert examples() == played(), "python -m tests.unit.api.example_story writes them anew"


def test_every_operation_has_a_short_name_a_group_and_an_example() -> None:
    assert len(DESCRIBED) == len((*PUBLISH, *PULL, *MANAGE))
    assert {tag for operation in DESCRIBED.values() for tag in operation["tags"]} == set(TAGS)
    assert DESCRIBED.keys() - {"get_openapi"} == examples().keys()
    methods = {name for name in dir(Client) if not name.startswith("_")}
    assert DESCRIBED.keys() <= methods


@pytest.mark.parametrize("name", sorted(examples()))
def test_an_example_is_one_by_its_own_schema(name: str) -> None:
    operation, example = DESCRIBED[name], examples()[name]
    if "body" in example:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert faults(example["body"], schema) == []
    if "answer" in example:
        schema = operation["responses"][str(example["status"])]["content"]["application/json"]["schema"]
        assert faults(example["answer"], schema) == [], "python -m tests.unit.api.example_story, then make docs"
        assert faults([], schema), "the schema says something"


def inner(value: Any) -> Iterator[Any]:
    """Yield every object inside *value*, and *value* itself."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inner(each)


def test_the_document_is_one_by_the_schema_of_openapi() -> None:
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []


def test_no_webhook_shares_the_group_of_an_operation() -> None:
    """Public generators write one class for each group, and a class of webhooks would overwrite that of operations."""
    webhooks = [operation for methods in DOCUMENT["webhooks"].values() for operation in methods.values()]
    assert {tag for operation in webhooks for tag in operation["tags"]} == {TAG_OF_WEBHOOKS}
    assert [each["name"] for each in DOCUMENT["tags"]] == [*TAGS, TAG_OF_WEBHOOKS]


def test_an_integer_that_a_version_of_a_topic_would_overflow_is_marked_as_long() -> None:
    """Without the format, public generators for Java, Go and C# read an integer into 32 bits."""
    integers = [each for each in inner(DOCUMENT["components"]["schemas"]) if each.get("type") == "integer"]
    assert {each.get("format") for each in integers if "maximum" not in each} == {"int64"}
    assert all(each["maximum"] < 2**31 for each in integers if "maximum" in each)


def test_each_union_is_one_schema_with_a_discriminator() -> None:
    """Public generators for Go and Java cannot read a union without a name of its own, or without a discriminator."""
    schemas, null = DOCUMENT["components"]["schemas"], {"type": "null"}
    unions = {name: schema for name, schema in schemas.items() if "oneOf" in schema}
    assert sorted(unions) == ["Endpoint", "Filter", "Retry"]
    for name, union in unions.items():
        models = [each["$ref"] for each in union["oneOf"] if each != null]
        assert set(union["discriminator"]["mapping"].values()) == set(models)
        assert (null in union["oneOf"]) is (name == "Filter")
    others = [each for each in inner(schemas) if "oneOf" in each and each not in unions.values()]
    assert [each["oneOf"] for each in others] == [[{"$ref": "#/components/schemas/Retry"}, null]] * 2


def test_a_choice_between_types_names_each_type_and_has_no_default() -> None:
    """Public generators for Java read an untyped choice as the other one, and write a default that does not compile."""
    schemas = DOCUMENT["components"]["schemas"].values()
    fields = [field for schema in schemas for field in schema.get("properties", {}).values()]
    choices = [(field, [each for each in field.get("anyOf", ()) if each != {"type": "null"}]) for field in fields]
    several = [(field, named) for field, named in choices if len(named) > 1]
    assert [[each["type"] for each in named] for _, named in several] == [["integer", "string"]]
    assert not [field for field, _ in several if "default" in field]


def test_no_operation_describes_a_body_without_fields() -> None:
    """Public generators for Java and Go send null for a body that a program leaves out; the service refuses it."""
    for name, operation in DESCRIBED.items():
        if "requestBody" in operation:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            assert DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]["properties"], name


def test_no_rule_between_fields_looks_like_a_type() -> None:
    """Public generators write a class for a part of a `not`, and none of the properties beside an `allOf` of rules."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for each in inner(schema):
            assert "patternProperties" not in each, name
        assert "not" not in schema, name
    for name in ("SubscriptionBody", "NamedSubscription"):
        assert "allOf" not in DOCUMENT["components"]["schemas"][name]


def test_no_pattern_of_a_value_has_an_escape_above_ascii() -> None:
    """A regular expression of Ruby or PHP takes `\\x9f` for a byte of UTF-8. Generators do not read a `not`."""
    parts = list(inner(DOCUMENT))
    refused = [part["not"] for part in parts if "not" in part]
    patterns = [part["pattern"] for part in parts if isinstance(part.get("pattern"), str) and part not in refused]
    assert patterns
    assert not [pattern for pattern in patterns if re.search(r"\\x[89a-f]", pattern)]


def test_the_webhook_is_what_a_push_sends() -> None:
    push = DOCUMENT["webhooks"]["push"]["post"]
    content = push["requestBody"]["content"]["application/json"]
    said = {each["name"]: each["required"] for each in push["parameters"]}
    assert faults(content["example"], content["schema"]) == []
    for draft in BODIES.values():
        request = http_request(push_of(draft, ContentFormat.JSON), 1_800_000_000_000, "0.1.0")
        assert faults(json.loads(request.body), content["schema"]) == []
        sent = {name for name in request.headers if name.startswith(("webhook-", "x-tagcast-", "trace"))}
        assert {name for name, required in said.items() if required} <= sent <= set(said)


@pytest.mark.parametrize("content_format", [ContentFormat.JSON, ContentFormat.CLOUDEVENTS])
def test_the_webhook_of_batches_is_what_a_batch_sends(content_format: ContentFormat) -> None:
    push = DOCUMENT["webhooks"]["push_batch"]["post"]
    headers, body = signed_batch(content_format)
    said = {each["name"]: each["required"] for each in push["parameters"]}

    content = push["requestBody"]["content"][headers["content-type"]]
    assert faults(json.loads(body), content["schema"]) == []
    assert {name for name in headers if name.startswith(("webhook-", "x-tagcast-", "trace"))} == set(said)
    answer = push["responses"]["2XX"]["content"]["application/json"]["schema"]
    assert faults(item_failures(read_batch(headers, body)), answer) == []


@pytest.mark.timeout(180)
def test_a_public_generator_makes_a_client_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(DOCUMENT))
    made = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", document, "--meta", "none",
         "--output-path", tmp_path / "generated_client", "--fail-on-warning"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(str(tmp_path))
    generated = importlib.import_module("generated_client")
    call = {name: importlib.import_module(f"generated_client.api.{place}") for name, place in {
        "create_topic": "topics.create_topic", "publish": "publishing.publish", "get_message": "messages.get_message",
        "create_subscription": "subscriptions.create_subscription",
    }.items()}  # fmt: skip
    models = importlib.import_module("generated_client.models")

    client = generated.Client(base_url="http://here")
    client.set_httpx_client(httpx.Client(base_url="http://here", transport=InMemoryApi()))
    topic = call["create_topic"].sync("orders", client=client, body=models.TopicBody(retention_seconds=3600))
    assert topic.retention_seconds == 3600
    accepted = call["publish"].sync("orders", client=client, body=models.MessageBody(body="x", tags=["a"]))
    subscription = models.SubscriptionBody.from_dict(HOOK)
    made_subscription = call["create_subscription"].sync("orders", "billing", client=client, body=subscription)
    assert made_subscription.endpoint.url == HOOK["endpoint"]["url"]
    message = call["get_message"].sync("orders", accepted.message_id, client=client)
    assert (message.state, message.tags) == ("unmatched", ["a"])


@pytest.mark.parametrize(
    ("model", "value"),
    [
        ("MessageBody", {"body": None, "body_base64": None}),
        ("MessageBody", {"body": "x", "body_base64": "eA=="}),
        ("MessageBody", {"body_base64": "eA"}),
        ("MessageBody", {"body": "x", "properties": {"1": "x"}}),
        ("SubscriptionBody", {"endpoint": {"protocol": "http", "url": ""}}),
        ("SubscriptionBody", {"endpoint": {"protocol": "sqs"}}),
        ("ShadowBody", {"filter": {}}),
        ("ShadowBody", {"filter": {"kind": "everything"}}),
    ],
)
def test_what_the_service_refuses_the_document_does_not_let_through(model: str, value: Any) -> None:
    assert faults(value, {"$ref": f"#/components/schemas/{model}"})


def test_a_number_without_a_fraction_is_an_integer_as_the_document_says() -> None:
    api, content = InMemoryApi(), '{"retention_seconds": 1787.0, "max_message_bytes": 1e3}'
    assert faults(json.loads(content), {"$ref": "#/components/schemas/TopicBody"}) == []
    answer = httpx.Client(transport=api).put("http://here/topics/orders", content=content)
    assert answer.status_code == 201
    assert (answer.json()["retention_seconds"], answer.json()["max_message_bytes"]) == (1787, 1000)
