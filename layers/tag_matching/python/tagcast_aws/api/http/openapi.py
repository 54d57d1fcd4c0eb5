"""The OpenAPI 3.1 document of a route table and its models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema
from tagcast.errors import FaultCode
from tagcast.model import EntryState
from tagcast.rows.tail import EVENTS_MAX, EventKind

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import DELIVERY_STATES, EVENT_STATES
from tagcast_aws.api.http.body import EmptyBody
from tagcast_aws.api.http.problems import ABOUT_BLANK, MEDIA_TYPE, ProblemCode
from tagcast_aws.api.http.routing import (
    API_VERSION,
    API_VERSIONS,
    REPLAYED_HEADER,
    REQUEST_ID_HEADER,
    VERSION_HEADER,
    Route,
)
from tagcast_aws.api.http.webhooks import TAG_OF_WEBHOOKS, PushBody, webhooks

TAGS = {
    "publishing": "Publish messages.",
    "messages": "Track messages, and explain their deliveries.",
    "topics": "Named streams of messages.",
    "subscriptions": "Subscriptions of a topic, and their settings.",
    "lanes": "Deliveries of a subscription: pause, resume, retry, skip, list the backlog.",
    "filters": "Shadows (candidate filters that run alongside the active one), and tests of filters.",
    "groups": "Consumer groups: members, pulls and acknowledgements.",
    "service": "The service itself.",
}
_MADE: Mapping[str, Mapping[str, str]] = {
    "create_topic": {"topic": "$response.body#/name"},
    "create_subscription": {"topic": "$request.path.topic", "subscription": "$response.body#/name"},
    "publish": {"topic": "$request.path.topic", "message_id": "$response.body#/message_id"},
}
"""For each operation that creates a resource: the path parameters of the new resource, as runtime expressions."""

_WITHIN = {"create_topic": "create_subscription"}
"""Maps an operation that creates a resource to the operation that creates a named resource inside it."""


def links_of(name: str, operations: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the links from the operation *name* to operations on the resource that it creates.

    The result is empty if the operation creates nothing. *operations* are pairs of name and path.

    >>> links_of("create_topic", [("get_topic", "/topics/{topic}"), ("health", "/health")])
    {'get_topic': {'operationId': 'get_topic', 'parameters': {'topic': '$response.body#/name'}}}
    """
    made = _MADE.get(name, {})
    return {
        other: {"operationId": other, "parameters": dict(made)}
        for other, path in operations
        if made and other != name and (set(re.findall(r"\{(\w+)\}", path)) == set(made) or _WITHIN.get(name) == other)
    }


_REF = "#/components/schemas/{model}"
_NULL = [{"type": "null"}]
_UNIONS = {"kind": "Filter", "protocol": "Endpoint", "strategy": "Retry"}
"""The schema of each union, by the property that distinguishes its models."""
_OR_NULL = ("Filter",)
"""The unions whose schemas include null, because each value may be null."""
_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Idempotency-Key": (
        "While the message lives, a repeated request with this key gets the first answer.",
        {"type": "string", "pattern": limits.IDEMPOTENCY_KEY},
    ),
    "If-Match": (
        "The ETag that the resource must have, or *.",
        {"type": "string", "pattern": rf"^\*$|{limits.ENTITY_TAGS}"},
    ),
    "If-None-Match": ("*: create only; refused if the resource exists.", {"type": "string", "pattern": r"^\*$"}),
    "traceparent": ("W3C trace of messages without their own traceparent; ignored if invalid.", {"type": "string"}),
    "tracestate": ("W3C tracestate that belongs to the traceparent.", {"type": "string"}),
}
_PATTERNS = {"message_id": limits.MESSAGE_ID, "member_id": limits.MEMBER_ID}
_QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_MAX, "default": limits.PAGE_DEFAULT},
    "cursor": {"type": "string", "format": "cursor", "pattern": limits.CURSOR, "maxLength": limits.CURSOR_LENGTH_MAX},
    "subscription": {"type": "string", "pattern": limits.NAME},
    "bodies": {"type": "boolean", "default": False},
    "only": {"type": "string", "enum": ["failing", *(each.value for each in EntryState)]},
    "kind": {"type": "string", "enum": [each.value for each in EventKind]},
    "max_events": {"type": "integer", "minimum": 0, "maximum": EVENTS_MAX, "default": EVENTS_MAX},
    "state": {"type": "string", "enum": list(EVENT_STATES)},
    "since": {"type": "string", "format": "date-time"},
    "tag": {"type": "string"},
    "property": {"type": "string", "description": "name=value", "pattern": "^[^=]+=.*$"},
    "wait_seconds": {"type": "integer", "minimum": 0, "maximum": limits.TAIL_WAIT_S_MAX, "default": 0},
}
_QUERY_OF_ROUTE: dict[tuple[str, str], dict[str, Any]] = {
    ("/topics/{topic}/history", "state"): {"type": "string", "enum": list(DELIVERY_STATES)},
    ("/topics/{topic}/messages/{message_id}/explain", "subscription"): {"type": "string", "pattern": limits.ENTRY_NAME},
}
"""Query parameters that have the name of another route's parameter, but allow other values."""
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "const": ABOUT_BLANK},
        "title": {"type": "string", "description": "The name that HTTP gives the status"},
        "status": {"type": "integer"},
        "code": {
            "type": "string",
            "enum": list(ProblemCode),
            "description": "Kind of the problem, for programs",
        },
        "detail": {"type": "string", "description": "For people; its text may change"},
        "request_id": {
            "type": "string",
            "description": "Id of the request, as in the header; not in the results of a batch",
        },
        "group": {"description": "In a disagreement: the filter of the group"},
        "yours": {"description": "In a disagreement: the filter of the client, if known"},
        "difference": {"type": "array", "items": {"type": "string"}},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["code", "detail", "pointer"],
                "properties": {
                    "code": {"type": "string", "enum": list(FaultCode)},
                    "detail": {"type": "string", "description": "For people; its text may change"},
                    "pointer": {"type": "string", "description": "A JSON pointer into the body, or a parameter's name"},
                },
            },
        },
    },
}


_VERSION: dict[str, Any] = {
    "name": VERSION_HEADER,
    "in": "header",
    "required": False,
    "description": "The API version that the caller expects; other versions are refused.",
    "schema": {"type": "string", "enum": list(API_VERSIONS)},
}
_ANSWER_HEADERS: dict[str, Any] = {
    VERSION_HEADER: {
        "description": "The API version of the answer.",
        "required": True,
        "schema": {"type": "string", "format": "date"},
    },
    REQUEST_ID_HEADER: {
        "description": "The id of the request, as in the log of the service.",
        "required": True,
        "schema": {"type": "string"},
    },
}
_SECURITY_SCHEMES: dict[str, Any] = {
    "iam": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4, service execute-api",
    },
    "jwt": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Replaces signatures if the deployment names an issuer; manage includes read and consume",
    },
}
_ABOUT = """Publish/subscribe: tag-matched fan-out, blocking lanes, three retry strategies.

To generate a client: for Java, Go and Ruby use openapi-generator, for Go with
`useOneOfDiscriminatorLookup=true`. For TypeScript use `openapi-typescript --default-non-nullable=false`."""
_WEBHOOKS = {TAG_OF_WEBHOOKS: "Requests of the service to an HTTP endpoint."}
_REPLAYED: dict[str, Any] = {
    REPLAYED_HEADER: {
        "description": "Repeats the answer to an earlier request with this Idempotency-Key; nothing new was published.",
        "schema": {"type": "string", "const": "true"},
    }
}


@cache
def examples() -> Mapping[str, Mapping[str, Any]]:
    """Return one example for each operation: its request (``body``) and its answer (``status``, ``answer``).

    The service gave these answers in the story of tests/unit/api/example_story.py. A test runs the story again.
    """
    found: Mapping[str, Mapping[str, Any]] = json.loads((Path(__file__).parent / "examples.json").read_text())
    return found


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document that describes *routes*, in their order."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    models = {route.body for route in routes if route.body not in (None, EmptyBody)}
    models |= {item for model in models for item in model.item_models}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, bodies = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    schemas |= bodies["$defs"]
    schemas["PushBody"] = TypeAdapter(PushBody).json_schema(ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    _link(paths)
    unions: dict[str, Any] = {}
    schemas = {name: simplify(schema, unions) for name, schema in schemas.items()} | unions
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "tagcast",
            "version": API_VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"iam": []}, {"jwt": []}],
        "tags": [{"name": name, "description": text} for name, text in (TAGS | _WEBHOOKS).items()],
        "paths": paths,
        "webhooks": webhooks(_REF.format(model="PushBody")),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "headers": _ANSWER_HEADERS,
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }
    return {name: _in_markdown(part) for name, part in document.items()}


def simplify(value: Any, unions: dict[str, Any]) -> Any:
    """Return a schema in the forms that public client generators read. Put its unions into *unions*, by name.

    A union of models becomes a schema of its own. An integer without a maximum has 64 bits.

    >>> models = {"oneOf": [{"$ref": "#/components/schemas/TagsFilter"}, {"$ref": "#/components/schemas/Sql92Filter"}]}
    >>> simplify({"anyOf": [models | {"discriminator": {"propertyName": "kind"}}, {"type": "null"}]}, {})
    {'$ref': '#/components/schemas/Filter'}
    >>> simplify({"type": "integer"}, {}), simplify({"type": "integer", "maximum": 10}, {})
    ({'type': 'integer', 'format': 'int64'}, {'type': 'integer', 'maximum': 10})
    """
    if isinstance(value, list):
        return [simplify(each, unions) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: simplify(each, unions) for name, each in value.items()}
    if found.get("type") == "integer" and "maximum" not in found:
        return found | {"format": "int64"}
    if "oneOf" in found:
        models, discriminator = found.pop("oneOf"), found.pop("discriminator")
        found.pop("title", None)
        name = _UNIONS[discriminator["propertyName"]]
        unions[name] = {"oneOf": models + _NULL * (name in _OR_NULL), "discriminator": discriminator}
        return {"$ref": _REF.format(model=name)} | found
    match found.get("anyOf"):
        case [{"$ref": reference} as union, {"type": "null"}] if (name := reference.rpartition("/")[2]) in unions:
            others = {key: each for key, each in found.items() if key not in ("anyOf", "discriminator", "title")}
            return (union if name in _OR_NULL else {"oneOf": [union, *_NULL]}) | others
    return found


def _in_markdown(value: Any) -> Any:
    """Return *value* with all descriptions converted from reST to the Markdown of OpenAPI."""
    if isinstance(value, list):
        return [_in_markdown(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: markdown(each) if name == "description" and isinstance(each, str) else _in_markdown(each)
        for name, each in value.items()
    }


def markdown(text: str) -> str:
    """Return *text*, a docstring in reST, as Markdown.

    >>> markdown("Read as :class:`MessageBody`, ``null`` is none.")
    'Read as `MessageBody`, `null` is none.'
    """
    return re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`")


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    example = examples().get(route.name, {})
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.group],
        "summary": route.summary or str(route.serve.__doc__).partition("\n")[0].removesuffix("."),
        "parameters": _parameters(route),
        "responses": {str(status): _answer(status, kind, schemas) for status, kind in route.answers.items()},
    }
    if "answer" in example:
        operation["responses"][str(example["status"])]["content"]["application/json"]["example"] = example["answer"]
    operation["responses"]["default"] = {
        "description": "A problem",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    headers = {header: {"$ref": f"#/components/headers/{header}"} for header in _ANSWER_HEADERS}
    for status, answer in operation["responses"].items():
        repeats = "Idempotency-Key" in route.headers and status != "default"
        answer["headers"] = headers | (_REPLAYED if repeats else {})
    if route.body not in (None, EmptyBody):  # Client generators would send null for a body without fields.
        operation["requestBody"] = {
            "required": route.body.is_required(),
            "content": {"application/json": {"schema": {"$ref": _REF.format(model=route.body.__name__)}}},
        }
        if "body" in example:
            operation["requestBody"]["content"]["application/json"]["example"] = example["body"]
    operation["security"] = [{"iam": []}, {"jwt": [route.scopes[0]]}] if route.scopes else []
    return operation


def _link(paths: dict[str, Any]) -> None:
    """Add the links to the successful answers of every operation."""
    described = [(path, operation) for path, methods in paths.items() for operation in methods.values()]
    named = [(operation["operationId"], path) for path, operation in described]
    for _, operation in described:
        if links := links_of(operation["operationId"], named):
            for status in operation["responses"].keys() - {"default"}:
                operation["responses"][status]["links"] = links


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    for name in re.findall(r"\{(\w+)\}", route.path):
        schema = {"type": "string", "pattern": _PATTERNS.get(name, limits.NAME)}
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name in route.query:
        schema = _QUERY_OF_ROUTE.get((route.path, name), _QUERY[name])
        parameters.append({"name": name, "in": "query", "required": name in route.required, "schema": schema})
    for name in route.headers:
        text, schema = _HEADERS[name]
        parameters.append({"name": name, "in": "header", "required": False, "description": text, "schema": schema})
    return [*parameters, _VERSION]


def _answer(status: int, kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    description = {200: "Done", 201: "Created", 202: "Under way", 204: "Removed"}[status]
    if kind is None:
        return {"description": description}
    schema = TypeAdapter(kind).json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    if "title" in schema:
        schemas[schema["title"]] = schema
        schema = {"$ref": _REF.format(model=schema["title"])}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
