"""Filters on the command line: the options of a filter, and `tagcast filter test`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client import TagcastError
from tagcast_client.filters import PatternDialect, PatternScope, SqlDialect
from tagcast_client.operation import Json
from tagcast_client.signing import is_aws

from tagcast_cli.content import PropertyPairs, TextAttributes, body_bytes, message_of, parse_json, warn_of_commas
from tagcast_cli.options import with_options
from tagcast_cli.screen import state_text
from tagcast_cli.session import Session, session_of
from tagcast_cli.tree import explanation_tree
from tagcast_cli.visible import visible_line

filters = typer.Typer(no_args_is_help=True, help="Test a filter, or set it on a subscription.")


TagFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", callback=warn_of_commas, metavar="TAG", help="Receive messages with this tag; may be repeated."
    ),
]
SqlFilter = Annotated[
    str | None, typer.Option("--sql", metavar="EXPR", help='SQL92 over properties, such as "price > 100".')
]
FILTER_OPTIONS = "--tag, --tag-expression, --routing-key, --sql, --event-pattern, --filter"


def _parse_object(option: str, text: str, example: str) -> Json:
    try:
        parsed = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{option} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise typer.BadParameter(f"{option} is not a JSON object such as {example}")
    return parsed


def _parse_pattern(text: str) -> Json:
    content = body_bytes(text).decode("utf-8", "replace") if text.startswith("@") else text
    return _parse_object("--event-pattern", content, '{"price": [{"numeric": [">", 100]}]}')


@dataclass(frozen=True)
class FilterOptions:
    """The options of one filter. Without any of these options, the filter matches everything."""

    tag: TagFilter = None
    all_tags: Annotated[
        bool, typer.Option("--all-tags", help="Match only messages that have every --tag; default: any --tag.")
    ] = False
    tag_expression: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Tag expression, such as 'TagA || TagB'.")
    ] = None
    routing_key: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Pattern such as 'order.*.eu' or 'audit.#'; may be repeated."),
    ] = None
    sql: SqlFilter = None
    event_pattern: Annotated[
        str | None, typer.Option(metavar="JSON", help="Pattern of EventBridge or SNS as JSON, or @file.json.")
    ] = None
    dialect: Annotated[
        Literal[SqlDialect, PatternDialect] | None,
        typer.Option(help="Dialect of --sql (default: strict) or --event-pattern (default: eventbridge)."),
    ] = None
    scope: Annotated[
        PatternScope | None, typer.Option(help="Part of the message that --event-pattern reads; default: body.")
    ] = None
    filter_json: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Any filter as JSON: {"kind": "function", …}.')
    ] = None

    def filter(self) -> Json | None:
        """Return the filter from the options; None matches everything. Raises BadParameter for options that conflict.

        >>> FilterOptions(tag=["apple"]).filter()
        {'kind': 'tags', 'tags': ['apple']}
        >>> FilterOptions(sql="a = 1", dialect="rocketmq").filter()
        {'kind': 'sql92', 'expression': 'a = 1', 'dialect': 'rocketmq'}
        >>> FilterOptions().filter() is None
        True
        """
        for option, is_given, belongs, is_there in (
            ("--dialect", self.dialect, "--sql or --event-pattern", self.sql is not None or self._has_pattern),
            ("--scope", self.scope, "--event-pattern", self._has_pattern),
            ("--all-tags", self.all_tags, "--tag", bool(self.tag)),
        ):
            if is_given and not is_there:
                raise typer.BadParameter(f"{option} requires {belongs}")
        described: list[Json] = []
        chosen: Json = {"dialect": self.dialect} if self.dialect else {}
        if self.tag:
            described.append({"kind": "tags", "tags": self.tag, **({"match": "all"} if self.all_tags else {})})
        if self.tag_expression is not None:
            described.append({"kind": "tag_expression", "expression": self.tag_expression})
        if self.routing_key:
            described.append({"kind": "routing_key", "patterns": self.routing_key})
        if self.sql is not None:
            described.append({"kind": "sql92", "expression": self.sql, **chosen})
        if self.event_pattern is not None:
            read: Json = {"scope": self.scope} if self.scope else {}
            pattern = _parse_pattern(self.event_pattern)
            described.append({"kind": "event_pattern", "pattern": pattern, **chosen, **read})
        if self.filter_json is not None:
            described.append(_parse_object("--filter", self.filter_json, '{"kind": "tags", "tags": ["apple"]}'))
        if len(described) > 1:
            raise typer.BadParameter(f"only one filter is allowed: give one of {FILTER_OPTIONS}")
        return described[0] if described else None

    @property
    def _has_pattern(self) -> bool:
        return self.event_pattern is not None


def filter_text(described: Any) -> str:
    """Return a filter in one line.

    >>> filter_text(None), filter_text({"kind": "tags", "tags": ["a", "b"]})
    ('everything', 'tags: a, b')
    >>> filter_text({"kind": "sql92", "expression": "a = 1", "dialect": "strict"})
    'sql92 (strict): a = 1'
    """
    if not isinstance(described, dict):
        return "everything"
    kind = described.get("kind", "?")
    if described.get("match") == "all":
        kind = f"{kind} (all of them)"
    if dialect := described.get("dialect"):
        kind = f"{kind} ({', '.join(filter(None, (dialect, described.get('scope'))))})"
    if "pattern" in described:
        return f"{kind}: {json.dumps(described['pattern'], ensure_ascii=False)}"
    for name in ("tags", "patterns", "expression", "function"):
        if name in described:
            condition = described[name]
            return f"{kind}: {', '.join(condition) if isinstance(condition, list) else condition}"
    return str(kind)


def warning_lines(answer: Json) -> list[Text]:
    """Return the warnings in *answer*, one per line. The API warns of valid filters whose meaning may surprise.

    >>> [line.plain for line in warning_lines({"warnings": ["a = b compares two properties"]})], warning_lines({})
    (['warning: a = b compares two properties'], [])
    """
    return [Text(f"warning: {visible_line(str(each))}", style="yellow") for each in answer.get("warnings") or ()]


def absent_function_lines(session: Session, answer: Json) -> list[Text]:
    """Return a warning if *answer* has a filter function that the local stack lacks, otherwise an empty list.

    For an API on AWS the list is empty.
    """
    described = answer.get("filter")
    function = described.get("function") if isinstance(described, dict) else None
    if function is None or is_aws(session.api.url):
        return []
    try:
        known = session.api.request("GET", "/stack").json["functions"]
    except (TagcastError, KeyError):
        return []
    name = str(function).rpartition(":function:")[2].partition(":")[0]
    if name in known:
        return []
    started = "Start it with: python -m local --functions FILE.py"
    warning = f"the local stack has no function {name}, so the filter gives no verdict. {started}"
    return warning_lines({"warnings": [warning]})


def _verdict(answer: Json) -> RenderableType:
    lines: list[RenderableType] = [Text.assemble("verdict: ", state_text(answer.get("verdict")))]
    if (explanation := answer.get("explanation")) is not None:
        lines.append(explanation_tree("explanation", explanation))
    return Group(*lines, *warning_lines(answer))


@filters.command("test")
@with_options
def try_filter(
    ctx: typer.Context,
    filter: FilterOptions,
    texts: TextAttributes,
    body: Annotated[str, typer.Argument(help="Body of the message; - reads standard input, @FILE reads a file.")] = "",
    message_tag: Annotated[
        list[str] | None,
        typer.Option("--message-tag", "-t", metavar="TAG", help="Tag of the message; may be repeated."),
    ] = None,
    message_routing_key: Annotated[
        str | None, typer.Option("--message-routing-key", "-r", metavar="KEY", help="Routing key of the message.")
    ] = None,
    property_pairs: PropertyPairs = None,
) -> None:
    """Test a filter on a message, and show the verdict with its reasons. Nothing is stored or sent.

    Give the filter as for `subscribe`. Give the message by its body, --message-tag, --message-routing-key and
    --property. The exit code is 0 for every verdict.
    """
    described = filter.filter()
    if described is None:
        raise typer.BadParameter(f"a filter is required: give one of {FILTER_OPTIONS}")
    message = message_of(
        body_bytes(body), texts, tags=message_tag, routing_key=message_routing_key, property_pairs=property_pairs
    )
    session_of(ctx).send("POST", "/filters/test", _verdict, {"filter": described, "message": message})
