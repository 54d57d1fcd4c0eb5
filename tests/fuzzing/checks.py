"""What is asked of every answer besides what the fuzzer asks itself."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from schemathesis import Case, Response
from schemathesis.checks import CheckContext
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL, description

HTTP_API = Path(__file__).parents[2] / "docs" / "http-api.md"
ONE_BY_ONE = {
    (route.method, route.path)
    for route in (*MANAGE, *PUBLISH, *PULL)
    if route.body is not None and route.body.item_models
}
"""Whose items are read one by one: what is wrong with one is said in its place of the answer."""


@cache
def table(*header: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table of docs/http-api.md."""
    lines = HTTP_API.read_text().splitlines()
    first = lines.index(f"| {' | '.join(header)} |") + 2
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[first:]]
    end = next(place for place, line in enumerate(lines[first:]) if not line.startswith("|"))
    return tuple(tuple(row) for row in rows[:end])


def is_a_documented_problem(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """A refusal is a problem of the table of errors, and nothing of a refused request is stored.

    A member that disagrees with its group is stored, so that the group's list shows it (docs/consumers.md).
    """
    if response.status_code < 400:
        return
    problem = json.loads(response.content)
    code = problem["code"]
    assert (str(response.status_code), code) in {row[:2] for row in table("status", "code", "when")}, problem
    assert code == "disagreement" or not case.operation.app.service.wrote, f"{code}: something was stored"


def is_refused_only_for_what_a_schema_cannot_tell(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """What the document lets through is refused for the state of things, or at a value whose format says more."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    assert response.status_code != 400, response.text
    if response.status_code == 422:
        told = {name.strip(" `") for row in table("format", "the service also checks") for name in row[0].split(",")}
        for fault in json.loads(response.content)["errors"]:
            steps = [_unescaped(step) for step in fault["pointer"].removeprefix("#").split("/")[1:]]
            assert told & set(formats(case, steps)), fault


def formats(case: Case[Any], steps: Sequence[str]) -> Iterator[str]:
    """The formats of the values on the way to a place of a request: its body, or a parameter."""
    operation = description()["paths"][case.operation.path][case.method.lower()]
    for parameter in operation["parameters"]:
        if steps and parameter["name"] == steps[0]:
            yield from _formats(parameter["schema"], steps[1:])
    if "requestBody" in operation:
        yield from _formats(operation["requestBody"]["content"]["application/json"]["schema"], steps)


def _formats(schema: Mapping[str, Any], steps: Sequence[str]) -> Iterator[str]:
    if "$ref" in schema:
        schema = description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "format" in schema:
        yield schema["format"]
    for choice in ("anyOf", "oneOf"):
        for each in schema.get(choice, ()):
            yield from _formats(each, steps)
    if not steps:
        return
    inner = schema.get("properties", {}).get(steps[0], schema.get("items", schema.get("additionalProperties")))
    if isinstance(inner, dict):
        yield from _formats(inner, steps[1:])


def _unescaped(step: str) -> str:
    return re.sub("~[01]", lambda found: {"~0": "~", "~1": "/"}[found.group()], step)


def not_a_server_error(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Nothing is asked for that makes the service fail."""
    assert response.status_code < 500, response.text


def validate(response: Response, case: Case[Any]) -> None:
    """Check an answer in every way."""
    checks: list[Any] = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        unsupported_method,
        is_a_documented_problem,
        is_refused_only_for_what_a_schema_cannot_tell,
    ]
    if (case.method, case.operation.path) not in ONE_BY_ONE:
        checks.append(negative_data_rejection)
    case.validate_response(response, checks=checks)
