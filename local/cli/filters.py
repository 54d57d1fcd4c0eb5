"""Filters on the command line: the options that make one, and `tagcast filter test`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json

from local.cli.content import BodyArgument, ContentType, PropertyPairs, RoutingKey, Tags, message_of
from local.cli.screen import state_text
from local.cli.session import session_of
from local.cli.tree import explanation_tree

filters = typer.Typer(no_args_is_help=True, help="Try a filter out, or give it to a subscription.")


class Dialect(StrEnum):
    """How SQL92 is read."""

    STRICT = "strict"
    ROCKETMQ = "rocketmq"


TagFilter = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Receive messages with this tag; may be repeated."),
]
TagExpression = Annotated[
    str | None,
    typer.Option("--tag-expression", metavar="EXPR", help="Tag expression, such as 'TagA || TagB'."),
]
RoutingKeyFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--routing-key", metavar="PATTERN", help="Pattern such as 'order.*.eu' or 'audit.#'; may be repeated."
    ),
]
SqlFilter = Annotated[
    str | None, typer.Option("--sql", metavar="EXPR", help='SQL92 over properties, such as "price > 100".')
]
SqlDialect = Annotated[Dialect | None, typer.Option("--dialect", help="How --sql is read (default: strict).")]
JsonFilter = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Any filter as JSON: {"kind": "function", …}.')
]


def _parsed_filter(text: str) -> Json:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--filter is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise typer.BadParameter('--filter is not a JSON object such as {"kind": "tags", "tags": ["apple"]}')
    return parsed


def filter_of(
    *,
    tags: list[str] | None = None,
    tag_expression: str | None = None,
    patterns: list[str] | None = None,
    sql: str | None = None,
    dialect: Dialect | None = None,
    filter_json: str | None = None,
) -> Json | None:
    """The one filter that the options describe; None means everything.

    >>> filter_of(tags=["apple"])
    {'kind': 'tags', 'tags': ['apple']}
    >>> filter_of(sql="a = 1", dialect=Dialect.ROCKETMQ)
    {'kind': 'sql92', 'expression': 'a = 1', 'dialect': 'rocketmq'}
    >>> filter_of() is None
    True
    """
    if dialect is not None and sql is None:
        raise typer.BadParameter("--dialect belongs to --sql")
    described: list[Json] = []
    if tags:
        described.append({"kind": "tags", "tags": tags})
    if tag_expression is not None:
        described.append({"kind": "tag_expression", "expression": tag_expression})
    if patterns:
        described.append({"kind": "routing_key", "patterns": patterns})
    if sql is not None:
        chosen: Json = {"dialect": dialect.value} if dialect else {}
        described.append({"kind": "sql92", "expression": sql, **chosen})
    if filter_json is not None:
        described.append(_parsed_filter(filter_json))
    if len(described) > 1:
        raise typer.BadParameter(
            "there is one filter: give one of --tag, --tag-expression, --routing-key, --sql, --filter"
        )
    return described[0] if described else None


def filter_text(described: Any) -> str:
    """A filter in one line.

    >>> filter_text(None), filter_text({"kind": "tags", "tags": ["a", "b"]})
    ('everything', 'tags: a, b')
    >>> filter_text({"kind": "sql92", "expression": "a = 1", "dialect": "strict"})
    'sql92 (strict): a = 1'
    """
    if not isinstance(described, dict):
        return "everything"
    kind = described.get("kind", "?")
    if dialect := described.get("dialect"):
        kind = f"{kind} ({dialect})"
    for name in ("tags", "patterns", "expression", "function"):
        if name in described:
            condition = described[name]
            return f"{kind}: {', '.join(condition) if isinstance(condition, list) else condition}"
    return str(kind)


def _verdict(answer: Json) -> RenderableType:
    verdict = Text.assemble("verdict: ", state_text(answer.get("verdict")))
    if (explanation := answer.get("explanation")) is None:
        return verdict
    return Group(verdict, explanation_tree("explanation", explanation))


@filters.command("test")
def try_filter(
    ctx: typer.Context,
    body: BodyArgument = "",
    tag_filter: Annotated[
        list[str] | None,
        typer.Option("--filter-tag", metavar="TAG", help="Tag filter under test; may be repeated."),
    ] = None,
    tag_expression: TagExpression = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option("--pattern", metavar="PATTERN", help="Routing key pattern under test; may be repeated."),
    ] = None,
    sql: SqlFilter = None,
    dialect: SqlDialect = None,
    filter_json: JsonFilter = None,
    tag: Tags = None,
    routing_key: RoutingKey = None,
    property_pairs: PropertyPairs = None,
    content_type: ContentType = None,
) -> None:
    """Ask what a filter says to a message, and why; nothing is stored or sent.

    The message is described as for `publish` (--tag, --routing-key, --property), the filter by one of
    --filter-tag, --tag-expression, --pattern, --sql or --filter. Exit code 0, whatever the verdict.
    """
    described = filter_of(
        tags=tag_filter,
        tag_expression=tag_expression,
        patterns=pattern,
        sql=sql,
        dialect=dialect,
        filter_json=filter_json,
    )
    message = message_of(
        body.encode(),
        tags=tag,
        routing_key=routing_key,
        property_pairs=property_pairs,
        content_type=content_type,
    )
    session = session_of(ctx)
    asked = {"filter": described, "message": message}
    session.show(session.api.request("POST", "/filters/test", asked), _verdict)
