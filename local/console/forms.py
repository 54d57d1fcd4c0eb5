"""Converts submitted forms of topics and subscriptions to request bodies: a new resource, or a merge patch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tagcast_cli.instant import seconds_of
from tagcast_cli.push_options import LIFE, endpoint_of
from tagcast_client import AlreadyExistsError, AnyFilter, PreconditionFailedError, ProblemError, TagcastError
from tagcast_client.models import Subscription
from tagcast_client.operation import Json, drop_none
from tagcast_client.setting import Setting
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

from local.console.commands import text_of
from local.console.filter_form import FilterForm, UnreadableFilterError, filter_of

Fields = Mapping[str, str]
YES = "yes"
STRATEGIES = {
    "INDEPENDENT_RETRY": "independent: each message is retried by itself, 1, 2, 4 … s apart",
    "EXPONENTIAL_DECAY_RETRY": "exponential: the first message is retried, 1, 2, 4 … s apart; all others wait",
    "BACKOFF_RETRY": "in order: a few retries at one interval, or retries until expiry",
}
PROTOCOLS = {"url": "HTTP or HTTPS: URL", "sqs": "SQS: queue URL or ARN", "lambda": "Lambda: name or ARN",
             "pull": "none: a consumer group pulls"}  # fmt: skip


@dataclass(frozen=True)
class UnreadableFieldError(ValueError):
    """A field of a form has an invalid value. *pointer* names the setting as the API does, by JSON pointer."""

    pointer: str
    detail: str

    def __str__(self) -> str:
        """Return the detail of the fault."""
        return self.detail


def faults_of(refused: TagcastError | UnreadableFieldError) -> list[tuple[str, str]]:
    """Return the faults of a refused form, as pairs of JSON pointer and detail.

    The pointer is empty if no field is named.
    """
    match refused:
        case UnreadableFieldError():
            return [(refused.pointer, refused.detail)]
        case AlreadyExistsError():
            return [("", f"{refused.detail}. Choose another name")]
        case PreconditionFailedError():
            return [("", f"{refused.detail}. Nothing was updated. Open the form again to see the current settings")]
        case ProblemError():
            faults = [(fault.pointer.removeprefix("#"), fault.detail) for fault in refused.faults]
            return faults or [("", refused.detail or refused.title)]
    return [("", str(refused))]


def read_field(fields: Fields, name: str, read: Callable[[str], Any], pointer: str = "") -> Any:
    """Return field *name*, parsed by *read*; None if empty. A ValueError of *read* becomes UnreadableFieldError."""
    text = fields.get(name, "").strip()
    try:
        return read(text) if text else None
    except ValueError as fault:
        raise UnreadableFieldError(pointer or f"/{name}", str(fault)) from None


def named_lines(text: str, sign: str) -> dict[str, str]:
    r"""Return the values by name from lines NAME *sign* VALUE, such as ``price=12``. Raises ValueError.

    >>> named_lines("price=12\r\nnote=a=b\n\n", "=")
    {'price': '12', 'note': 'a=b'}
    >>> named_lines("price", "=")
    Traceback (most recent call last):
        ...
    ValueError: Expected NAME=VALUE on each line. Line 1 has no =
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, given, value = (part.strip() for part in line.partition(sign))
        if not line.strip():
            continue
        if not name or not given:  # The line is not quoted: it may be a header with a password.
            raise ValueError(f"Expected NAME{sign}VALUE on each line. Line {number} has no {sign if name else 'name'}")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = value
    return found


def whole_number(text: str) -> int:
    """Return the whole number in *text*, which has at most nine digits. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text[:32]!r} is not a whole number, e.g. 10")
    return int(text)


def _retries(text: str) -> int | str:
    return LIFE if text.lower() == LIFE else whole_number(text)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number, e.g. 2.5")
    return value


_READERS: Mapping[str, Callable[[str], object]] = {
    "integer": whole_number, "number": _rate, "string": str, "boolean": lambda text: text == YES or None,
}  # fmt: skip
_PARTS: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    "retry": {
        "strategy": str,
        "max_retries": _retries,
        "interval_seconds": seconds_of,
        "max_interval_seconds": seconds_of,
    },
    "batch": {"max_messages": whole_number, "max_bytes": whole_number},
}
"""The settings with a field for each of their parts."""


def _plain(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the settings with their own form field: numbers, texts and booleans that are not write-only."""
    return tuple(each for each in settings if each.type in _READERS and not each.is_write_only)


def sections(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Return the settings that have a form field of their own, by the heading above the field."""
    found: dict[str, list[Setting]] = {}
    for each in _plain(settings):
        found.setdefault(str(each.extra.get("section", "")), []).append(each)
    return found


def texts_of(settings: Sequence[Setting], resource: object) -> dict[str, str]:
    """Return the texts of the form fields of *settings*, by name. *resource* is the topic or the subscription."""
    return {each.name: _text(getattr(resource, each.name, None)) for each in _plain(settings)}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return YES if value else ""
    return "" if value is None else text_of(value)


def uncheck_all(settings: Sequence[Setting]) -> dict[str, str]:
    """Return the empty text, which means unchecked, for each checkbox. Browsers send no field for an unchecked box."""
    return {each.name: "" for each in settings if each.type == "boolean"}


def values_of(settings: Sequence[Setting], fields: Fields) -> Json:
    """Return the values of the settings with a field in *fields*, by name. The value of an empty field is None.

    Raises UnreadableFieldError.

    >>> values_of(TOPIC_SETTINGS, {"retention_seconds": "12h", "ordering": "key", "events_topic": ""})
    {'retention_seconds': 43200, 'ordering': 'key', 'events_topic': None}
    """
    return {each.name: read_field(fields, each.name, _reader(each)) for each in _plain(settings) if each.name in fields}


def _reader(setting: Setting) -> Callable[[str], object]:
    return seconds_of if setting.name.endswith("_seconds") else _READERS[setting.type]


def topic_changes(before: Fields, fields: Fields) -> Json:
    """Return the merge patch that changes a topic from the fields *before* to *fields*. Raises UnreadableFieldError."""
    return _differing(values_of(TOPIC_SETTINGS, before), values_of(TOPIC_SETTINGS, fields))


def _differing(before: Json, wanted: Json) -> Json:
    return {name: value for name, value in wanted.items() if before.get(name) != value}


def subscription_fields(resource: Subscription) -> dict[str, str]:
    """Return a subscription as form fields, without its filter and its secrets."""
    endpoint: Json = {**resource.endpoint}
    protocol = endpoint.pop("protocol")
    batch: Json = {} if resource.batch is None else {name: getattr(resource.batch, name) for name in _PARTS["batch"]}
    parts: Json = {name: None for part in _PARTS.values() for name in part} | {**resource.retry, **batch}
    return {
        "protocol": "url" if protocol in ("http", "https") else protocol,
        "target": next(iter(endpoint.values()), ""),
        **{name: _text(value) for name, value in parts.items()},
        **texts_of(SUBSCRIPTION_SETTINGS, resource),
    }


def new_subscription(fields: Fields) -> Json:
    """Return the request body of a new subscription from the fields *fields*. Raises UnreadableFieldError.

    Settings that do not apply to this kind of endpoint are left out.

    >>> new_subscription({"protocol": "url", "target": "http://a/", "kind": "tags", "text": "b"})
    {'endpoint': {'protocol': 'http', 'url': 'http://a/'}, 'filter': {'kind': 'tags', 'tags': ['b']}}
    """
    values = {**_subscription_values(fields), "filter": _filter(fields)}
    values |= {part: drop_none(**(values[part] or {})) or None for part in _PARTS}
    only = "groups" if values["endpoint"]["protocol"] == "pull" else "pushes"
    fitting = (each.name for each in SUBSCRIPTION_SETTINGS if each.extra.get("only", only) == only)
    return {name: values[name] for name in fitting if values.get(name) is not None}


def subscription_changes(before: Fields, fields: Fields) -> Json:
    """Return the merge patch that changes a subscription from the fields *before* to *fields*.

    Raises UnreadableFieldError.

    If the strategy changes, the patch has all submitted retry settings, because they replace the old ones.

    >>> before = {"protocol": "url", "target": "https://a.test/", "strategy": "INDEPENDENT_RETRY", "max_retries": "5"}
    >>> subscription_changes(before, {**before, "max_retries": ""})
    {'retry': {'max_retries': None}}
    >>> subscription_changes(before, {**before, "strategy": "BACKOFF_RETRY"})
    {'retry': {'strategy': 'BACKOFF_RETRY', 'max_retries': 5}}
    """
    present, wanted = _subscription_values(before), _subscription_values(fields)
    changes = _differing(present, wanted)
    for part in _PARTS:
        if changes.get(part):
            changes[part] = _differing(present[part] or {}, wanted[part])
    if "strategy" in (changes.get("retry") or {}):
        changes["retry"] = drop_none(**wanted["retry"])
    if "headers" in changes:
        changes["headers"] = {name: value or None for name, value in changes["headers"].items()}
    return changes


def _subscription_values(fields: Fields) -> Json:
    """Return all settings in the fields, except the filter. An empty field is None."""
    parts: Json = {
        part: {name: read_field(fields, name, read, f"/{part}/{name}") for name, read in readers.items()}
        for part, readers in _PARTS.items()
    }
    parts["retry"].pop(_not_of_strategy(parts["retry"]), None)
    return {
        "endpoint": _endpoint(fields),
        **{part: None if set(values.values()) == {None} else values for part, values in parts.items()},
        **values_of(SUBSCRIPTION_SETTINGS, fields),
        "secret": read_field(fields, "secret", str),
        "headers": read_field(fields, "headers", lambda text: named_lines(text, ":")),
    }


def _not_of_strategy(retry: Json) -> str:
    """Return the name of the interval that the strategy in *retry* does not have, or an empty text."""
    if retry["strategy"] != "BACKOFF_RETRY":
        return "interval_seconds"
    return "" if retry["max_retries"] == LIFE else "max_interval_seconds"


def _endpoint(fields: Fields) -> Json:
    target = fields.get("target", "").strip()
    match fields.get("protocol", "url"):
        case "pull":
            return endpoint_of(None, None, None, is_pulled=True)
        case "sqs":
            return endpoint_of(None, target, None)
        case "lambda":
            return endpoint_of(None, None, target)
    return endpoint_of(target, None, None)


def _filter(fields: Fields) -> AnyFilter | None:
    try:
        return filter_of(FilterForm.of(fields))
    except UnreadableFilterError as fault:
        raise UnreadableFieldError("/filter", str(fault)) from None
