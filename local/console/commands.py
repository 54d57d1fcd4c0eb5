"""Converts the request body of a form to the equivalent command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tagcast_cli.options import option_of
from tagcast_cli.visible import visible
from tagcast_client import AnyFilter
from tagcast_client.changing import GENERATE
from tagcast_client.operation import Json
from tagcast_client.setting import Setting
from tagcast_client.settings import FILTER_DEFAULTS

HIDDEN = "…"
"""The text in place of a secret or of a header's value, which no page shows."""
NO_OPTION = "No option resets this to its default. The form does; for the command, give the value."
PARTS = ("retry", "batch")
"""The settings with parts. Each part has an option of its own."""
_ENDPOINTS = {"url": "--url", "queue_url": "--sqs", "arn": "--sqs", "function": "--lambda"}


@dataclass(frozen=True)
class Command:
    """The command line that is equivalent to a form. *line* is empty if the form has changes, but no options for them.

    *hints* are pairs for the parts of the form without an option: a JSON pointer, and the reason.
    """

    line: str = ""
    hints: tuple[tuple[str, str], ...] = ()


def command_of(words: Sequence[str], body: Json, settings: Sequence[Setting]) -> Command:
    """Return the command line that begins with *words* and has the options for *body*.

    *body* is a new resource or a merge patch. The result's *hints* name the parts of *body* without an option.

    >>> from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS
    >>> command_of(["topic", "create", "orders"], {"retention_seconds": 600, "ordering": "key"}, TOPIC_SETTINGS).line
    'tagcast topic create orders --retention 600 --ordering key'
    >>> changes = {"retry": {"max_retries": 5, "interval_seconds": None}, "batch": None}
    >>> found = command_of(["subscription", "update", "orders", "crm"], changes, SUBSCRIPTION_SETTINGS)
    >>> found.line, [pointer for pointer, _ in found.hints]
    ('tagcast subscription update orders crm --max-retries 5 --without batch', ['/retry/interval_seconds'])
    """
    known = {each.name: each for each in settings}
    options: list[str] = []
    hints: list[tuple[str, str]] = []
    for name, value in body.items():
        if value is None:
            options += ["--without", option_of(known[name]).removeprefix("--")]
        elif name in PARTS:
            given = {part: each for part, each in value.items() if each is not None}
            options += [word for part, each in given.items() for word in (_option_of_part(part), text_of(each))]
            hints += [(f"/{name}/{part}", NO_OPTION) for part in value if part not in given]
        elif name in _OPTIONS:
            options += _OPTIONS[name](value)
        else:
            options += [option_of(known[name])] if value is True else [option_of(known[name]), text_of(value)]
    return Command("" if hints and not options else shlex.join(["tagcast", *words, *options]), tuple(hints))


def _option_of_part(name: str) -> str:
    words = name.replace("max_", "batch_") if name in ("max_messages", "max_bytes") else name.removesuffix("_seconds")
    return f"--{words.replace('_', '-')}"


def text_of(value: object) -> str:
    """Return a number or a text as a person writes it.

    >>> text_of(100.0), text_of(2.5), text_of(7), text_of("life")
    ('100', '2.5', '7', 'life')
    """
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _endpoint_options(endpoint: Mapping[str, str]) -> list[str]:
    address = [word for name, option in _ENDPOINTS.items() if name in endpoint for word in (option, endpoint[name])]
    return address or ["--pull"]


def filter_options(filter: AnyFilter | None) -> list[str]:
    """Return the command-line options of a filter: short options, or ``--filter`` with JSON if these do not suffice.

    >>> filter_options({"kind": "tags", "tags": ["a", "b"], "match": "all"})
    ['--tag', 'a', '--tag', 'b', '--all-tags']
    >>> filter_options({"kind": "sql92", "expression": "a = 1", "dialect": "strict"})
    ['--sql', 'a = 1']
    >>> filter_options({"kind": "function", "function": "rate"})
    ['--filter', '{"kind": "function", "function": "rate"}']
    """
    if filter is None:
        return []
    options = _short_options({**filter})
    return options if options and all(visible(each) == each for each in options) else ["--filter", json.dumps(filter)]


def _short_options(filter: Mapping[str, Any]) -> list[str]:
    """Return the short options of a filter, without its defaults. An empty list if short options cannot express it."""
    defaults = FILTER_DEFAULTS.get(str(filter.get("kind")), {})
    match {name: value for name, value in filter.items() if name not in defaults or value != defaults[name]}:
        case {"kind": "tags", "tags": [*tags], **more} if _are_texts(tags) and more in ({}, {"match": "all"}):
            return _repeat_option("--tag", tags) + ["--all-tags"] * len(more) if tags else []
        case {"kind": "routing_key", "patterns": [*patterns], **more} if _are_texts(patterns) and not more:
            return _repeat_option("--routing-key", patterns)
        case {"kind": "tag_expression", "expression": str(text), **more} if not more:
            return ["--tag-expression", text]
        case {"kind": "sql92", "expression": str(text), **more} if _are_chosen(more, "dialect"):
            return ["--sql", text, *_named_options(more)]
        case {"kind": "event_pattern", "pattern": dict(pattern), **more} if _are_chosen(more, "dialect", "scope"):
            return ["--event-pattern", json.dumps(pattern), *_named_options(more)]
    return []


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


def _are_chosen(more: Mapping[str, Any], *names: str) -> bool:
    return more.keys() <= {*names} and _are_texts(more.values())


def _repeat_option(option: str, values: Iterable[str]) -> list[str]:
    return [word for each in values for word in (option, each)]


def _named_options(more: Mapping[str, str]) -> list[str]:
    return [word for name, value in more.items() for word in (f"--{name}", value)]


def _header_options(headers: Mapping[str, str | None]) -> list[str]:
    pairs = (
        ("--without-header", name) if value is None else ("--header", f"{name}: {value and HIDDEN}")
        for name, value in headers.items()
    )
    return [word for pair in pairs for word in pair]


_OPTIONS: Mapping[str, Callable[[Any], list[str]]] = {
    "endpoint": _endpoint_options,
    "filter": filter_options,
    "headers": _header_options,
    "secret": lambda secret: ["--secret", secret if secret == GENERATE else HIDDEN],
}
"""The settings whose options depend on the value, each with the function that returns its options."""
