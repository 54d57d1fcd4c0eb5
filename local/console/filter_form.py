"""Converts a filter of any kind to the fields of a form, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tagcast_cli.content import parse_json
from tagcast_client import AnyFilter, Filter

KINDS = {
    "everything": "all messages (leave the text empty)",
    "tags": "tags, one per line or separated by commas",
    "tag_expression": "tags joined by ||",
    "routing_key": "patterns, one per line; * is one word, # any number of words",
    "sql92": "an expression over properties, e.g. price > 100",
    "event_pattern": 'an EventBridge or SNS pattern, e.g. {"price": [{"numeric": [">", 100]}]}',
    "function": "the name of a Lambda function of the subscriber",
    "json": "the filter as JSON of the API",
}
"""The filter kinds, and the meaning of each kind's text."""
DIALECTS = ("strict", "rocketmq", "eventbridge", "sns")
SCOPES = ("body", "properties", "envelope")
_OF_PATTERNS = ("eventbridge", "sns")
_TEXT = {"tag_expression": "expression", "sql92": "expression", "function": "function"}
_LIST = {"tags": "tags", "routing_key": "patterns"}
_FIELDS = {kind: {"kind", name} for kind, name in (_TEXT | _LIST).items()} | {
    "sql92": {"kind", "expression", "dialect"}
}
"""The properties of each filter kind that have a form field. A filter with other properties is edited as JSON."""


class UnreadableFilterError(Exception):
    """The text of the form is not a JSON object, which filters of this kind need."""


@dataclass(frozen=True)
class FilterForm:
    """The fields of a filter's form. :data:`KINDS` says what *text* means for each *kind*."""

    kind: str = "everything"
    text: str = ""
    dialect: str = "strict"
    scope: str = "body"

    @classmethod
    def of(cls, form_fields: Mapping[str, str]) -> FilterForm:
        """Return the filter fields among the fields of a submitted form. An empty field gets its default."""
        return cls(**{each.name: form_fields[each.name] for each in fields(cls) if form_fields.get(each.name)})


def words(text: str) -> tuple[str, ...]:
    r"""Split a text at commas and line ends. Empty parts are left out.

    >>> words("a, b\n\nc d ")
    ('a', 'b', 'c d')
    """
    return tuple(word for part in text.splitlines() for each in part.split(",") if (word := each.strip()))


def form_of(described: Mapping[str, Any] | None) -> FilterForm:
    r"""Return the form fields for a filter of the API; None is the filter that matches all messages.

    >>> form_of({"kind": "tags", "tags": ["a", "b"]})
    FilterForm(kind='tags', text='a\nb', dialect='strict', scope='body')
    """
    if described is None:
        return FilterForm()
    kind = str(described.get("kind"))
    if set(described) <= _FIELDS.get(kind, set()):
        if kind in _LIST:
            items = list(map(str, described.get(_LIST[kind], ())))
            text = "\n".join(items)
            if list(words(text)) == items:
                return FilterForm(kind, text)
        elif kind in _TEXT and isinstance(described.get(_TEXT[kind]), str):
            return FilterForm(kind, described[_TEXT[kind]], str(described.get("dialect", "strict")))
    if kind == "event_pattern" and set(described) <= {"kind", "pattern", "dialect", "scope"}:
        text = json.dumps(described.get("pattern"), indent=2, ensure_ascii=False)
        return FilterForm(kind, text, str(described.get("dialect")), str(described.get("scope")))
    return FilterForm("json", json.dumps(described, indent=2, ensure_ascii=False))


def filter_of(form: FilterForm) -> AnyFilter | None:
    """Return the filter that the form fields describe; None matches all messages. The API checks whether it is valid.

    Raises UnreadableFilterError.

    >>> filter_of(FilterForm("sql92", "price > 100"))
    {'kind': 'sql92', 'expression': 'price > 100', 'dialect': 'strict'}
    >>> filter_of(FilterForm()) is None
    True
    """
    return Filter.from_json(_json_of(form))


def _json_of(form: FilterForm) -> dict[str, Any] | None:
    match form.kind:
        case "everything":
            return None
        case "tags" | "routing_key":
            return {"kind": form.kind, _LIST[form.kind]: list(words(form.text))}
        case "sql92":
            return {"kind": "sql92", "expression": form.text.strip(), "dialect": form.dialect}
        case "tag_expression" | "function":
            return {"kind": form.kind, _TEXT[form.kind]: form.text.strip()}
    read = _object(form.text)
    if form.kind != "event_pattern":
        return read
    dialect = form.dialect if form.dialect in _OF_PATTERNS else _OF_PATTERNS[0]
    return {"kind": form.kind, "pattern": read, "dialect": dialect, "scope": form.scope}


def _object(text: str) -> dict[str, Any]:
    try:
        read = parse_json(text)
    except (ValueError, RecursionError) as fault:
        raise UnreadableFilterError(f"The text is not JSON: {fault}") from None
    if not isinstance(read, dict):
        raise UnreadableFilterError('The text is not a JSON object. Expected e.g. {"kind": "tags", "tags": ["a"]}')
    return read
