"""Forms of topics and subscriptions: the settings for the API, and the equivalent command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tagcast_cli.endpoints import endpoint_of
from tagcast_cli.instant import seconds_of
from tagcast_cli.options import option_of
from tagcast_cli.push_options import LIFE
from tagcast_client import AnyFilter
from tagcast_client.models import Subscription
from tagcast_client.operation import Json, drop_none
from tagcast_client.setting import Setting
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

from local.console.filter_form import FilterForm, UnreadableFilterError, filter_of, form_of

Said = Mapping[str, str]
YES = "yes"
STRATEGIES = {
    "INDEPENDENT_RETRY": "independent: each message is retried by itself, 1, 2, 4 … s apart",
    "EXPONENTIAL_DECAY_RETRY": "exponential: the first message is retried, 1, 2, 4 … s apart; all others wait",
    "BACKOFF_RETRY": "in order: a few retries at one interval, or retries until expiry",
}
PROTOCOLS = {"url": "HTTP or HTTPS: URL", "sqs": "SQS: queue URL or ARN", "lambda": "Lambda: name or ARN",
             "pull": "none: a consumer group pulls"}  # fmt: skip
RETRY = ("strategy", "max_retries", "interval_seconds", "max_interval_seconds")
_NUMBERS = {
    "max_retries": "/retry/max_retries",
    "interval_seconds": "/retry/interval_seconds",
    "max_interval_seconds": "/retry/max_interval_seconds",
    "batch_messages": "/batch/max_messages",
    "batch_bytes": "/batch/max_bytes",
}


def _offered(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the settings with their own form field: numbers, words and texts in answers."""
    return tuple(each for each in settings if each.type in _READERS and not each.is_write_only)


def sections(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Return the settings with their own form field, grouped by the form's heading."""
    found: dict[str, list[Setting]] = {}
    for each in _offered(settings):
        found.setdefault(str(each.extra.get("section", "")), []).append(each)
    return found


@dataclass(frozen=True)
class UnreadableFieldError(Exception):
    """A field has an invalid value; *pointer* is the field's JSON pointer, as in the API."""

    pointer: str
    detail: str


def texts_of(settings: Sequence[Setting], of: object) -> dict[str, str]:
    """Return the settings of a topic or a subscription as texts for the form."""
    return {each.name: _text(getattr(of, each.name, None)) for each in _offered(settings)}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return YES if value else ""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def uncheck_all(settings: Sequence[Setting]) -> dict[str, str]:
    """Return all checkboxes as unchecked, because a browser sends only checked ones."""
    return {each.name: "" for each in settings if each.type == "boolean"}


def values_of(settings: Sequence[Setting], said: Said) -> Json:
    """Return the values of the fields; an empty one is null. Raises UnreadableFieldError.

    >>> values_of(TOPIC_SETTINGS, {"retention_seconds": "12h", "ordering": "key", "events_topic": ""})
    {'retention_seconds': 43200, 'ordering': 'key', 'events_topic': None}
    """
    found: Json = {}
    for each in _offered(settings):
        if each.name in said:
            text = said[each.name].strip()
            try:
                found[each.name] = _reader(each)(text) if text else None
            except ValueError as fault:
                raise UnreadableFieldError(f"/{each.name}", str(fault)) from None
    return found


def _reader(setting: Setting) -> Callable[[str], object]:
    return seconds_of if setting.name.endswith("_seconds") else _READERS[setting.type]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text!r} is not a whole number, e.g. 10")
    return int(text)


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number, e.g. 2.5") from None


_READERS: Mapping[str, Callable[[str], object]] = {
    "integer": _whole, "number": _rate, "string": str, "boolean": lambda text: text == YES,
}  # fmt: skip


def topic_settings(said: Said) -> Json:
    """Return the settings of a new topic from the form. Raises UnreadableFieldError."""
    return _present(values_of(TOPIC_SETTINGS, said))


def _present(values: Json) -> Json:
    return {name: value for name, value in values.items() if value not in (None, {}, False)}


def topic_command(verb: str, name: str, said: Said) -> str:
    """Return the command that creates or updates a topic with these fields.

    >>> topic_command("create", "orders", {"retention_seconds": "12h", "ordering": "key"})
    'tagcast topic create orders --retention 12h --ordering key'
    """
    return _command(["topic", verb, name or "NAME"], _options(TOPIC_SETTINGS, said, is_update=verb == "update"))


def _options(settings: Sequence[Setting], said: Said, *, is_update: bool) -> list[str]:
    """Return the command-line options for these fields."""
    words: list[str] = []
    for each in _offered(settings):
        text, option = said.get(each.name, "").strip(), option_of(each)
        if text:
            words += [option] if each.type == "boolean" else [option, text]
        elif is_update and each.name in said:
            words += ["--without", option.removeprefix("--")]
    return words


def subscription_said(of: Subscription) -> dict[str, str]:
    """Return a subscription as form fields, without secrets."""
    endpoint: Json = {**of.endpoint}
    retry: Json = {**of.retry}
    protocol = endpoint.pop("protocol")
    return {
        "protocol": "url" if protocol in ("http", "https") else protocol,
        "target": next(iter(endpoint.values()), ""),
        **asdict(form_of(of.filter)),
        "strategy": str(retry.get("strategy", "")),
        **{name: str(retry.get(name, "")) for name in ("max_retries", "interval_seconds", "max_interval_seconds")},
        "batch_messages": "" if of.batch is None else str(of.batch.max_messages),
        "batch_bytes": "" if of.batch is None else str(of.batch.max_bytes),
        **texts_of(SUBSCRIPTION_SETTINGS, of),
    }


def subscription_settings(said: Said) -> Json:
    """Return the settings of a new subscription from the form. Raises UnreadableFieldError.

    >>> made = subscription_settings({"protocol": "url", "target": "http://a/", "kind": "tags", "text": "b"})
    >>> made["endpoint"], made["filter"]
    ({'protocol': 'http', 'url': 'http://a/'}, {'kind': 'tags', 'tags': ['b']})
    """
    settings: Json = {"endpoint": _endpoint(said)}
    if (filter := _filter(said)) is not None:
        settings["filter"] = filter
    parts: Json = values_of(_fitting(said), said) | {"retry": _retry(said)}
    if not _is_group(said):
        parts |= {"batch": _batch(said), "secret": said.get("secret", "").strip() or None, "headers": _headers(said)}
    return settings | _present(parts)


def _is_group(said: Said) -> bool:
    return said.get("protocol") == "pull"


def _fitting(said: Said) -> list[Setting]:
    """Return the settings that a subscription with this endpoint has."""
    only = "groups" if _is_group(said) else "pushes"
    return [each for each in SUBSCRIPTION_SETTINGS if each.extra.get("only", only) == only]


def subscription_changes(before: Said, said: Said) -> Json:
    """Return the merge patch from the fields *before* to the submitted fields *said*.

    >>> before = {"protocol": "url", "target": "https://a.test/", "strategy": "BACKOFF_RETRY", "interval_seconds": "9"}
    >>> subscription_changes(before, {**before, "strategy": "EXPONENTIAL_DECAY_RETRY", "interval_seconds": ""})
    {'retry': {'strategy': 'EXPONENTIAL_DECAY_RETRY', 'interval_seconds': None}}
    """
    changes: Json = {}
    if _differ(before, said, "protocol", "target"):
        changes["endpoint"] = {**{name: None for name in _endpoint(before) if name != "protocol"}, **_endpoint(said)}
    if _differ(before, said, *RETRY):
        changes["retry"] = _retry_changes(before, said)
    if _differ(before, said, "batch_messages", "batch_bytes"):
        changes["batch"] = _batch(said) or None
    wanted = values_of(SUBSCRIPTION_SETTINGS, said)
    changes |= {name: value for name, value in wanted.items() if _differ(before, said, name)}
    if secret := said.get("secret", "").strip():
        changes["secret"] = secret
    if headers := _headers(said):
        changes["headers"] = {name: value or None for name, value in headers.items()}
    return changes


def _retry_changes(before: Said, said: Said) -> Json:
    """Return the changed retry settings. Fields that the new strategy does not have become null."""
    wanted, gone = _retry(said), _not_of_strategy(said)
    differs = [name for name in RETRY if _differ(before, said, name)]
    return {name: wanted.get(name) for name in differs if name in wanted or name == gone or before.get(name)}


def subscription_command(topic: str, name: str, said: Said, before: Said | None = None) -> str:
    """Return the command that creates a subscription, or updates it from the fields *before*.

    >>> subscription_command("orders", "crm", {"protocol": "url", "target": "https://a.test/", "kind": "tags",
    ...     "text": "paid, eu", "timeout_seconds": "5"})
    'tagcast subscribe orders crm --url https://a.test/ --tag paid --tag eu --timeout 5'
    """
    new = {key: value for key, value in said.items() if before is None or before.get(key, "") != value}
    words: list[str] = []
    if "target" in new or "protocol" in new:
        option = {"sqs": "--sqs", "lambda": "--lambda"}.get(said.get("protocol", ""), "--url")
        words += ["--pull"] if _is_group(said) else [option, said.get("target", "")]
    if before is None:
        words += _filter_words(said)
    options = {
        "strategy": "--strategy", "max_retries": "--max-retries", "interval_seconds": "--interval",
        "max_interval_seconds": "--max-interval", "batch_messages": "--batch-messages", "batch_bytes": "--batch-bytes",
    }  # fmt: skip
    words += _given(new, options)
    words += _options(_fitting(said), new, is_update=before is not None)
    if said.get("secret", "").strip():
        words += ["--secret", "generate" if said["secret"].strip() == "generate" else "…"]
    try:
        headers = _headers(said)
    except UnreadableFieldError:
        headers = {}
    words += [word for each in headers for word in ("--header", f"{each}: …")]
    verb = ["subscribe"] if before is None else ["subscription", "update"]
    return _command([*verb, topic, name or "NAME"], words)


def _given(said: Said, options: Mapping[str, str]) -> list[str]:
    return [
        word
        for field, option in options.items()
        if said.get(field, "").strip()
        for word in (option, said[field].strip())
    ]


def _command(words: Sequence[str], options: Sequence[str]) -> str:
    return shlex.join(["tagcast", *words, *options])


def _differ(before: Said, said: Said, *names: str) -> bool:
    return any(before.get(name, "").strip() != said.get(name, "").strip() for name in names)


def _number(said: Said, name: str) -> int | None:
    text = said.get(name, "").strip()
    try:
        return _whole(text) if text else None
    except ValueError as fault:
        raise UnreadableFieldError(_NUMBERS[name], str(fault)) from None


def _endpoint(said: Said) -> Json:
    target = said.get("target", "").strip()
    match said.get("protocol", "url"):
        case "pull":
            return {"protocol": "pull"}
        case "sqs":
            return endpoint_of(None, target, None)
        case "lambda":
            return endpoint_of(None, None, target)
    return endpoint_of(target, None, None)


def _filter(said: Said) -> AnyFilter | None:
    try:
        return filter_of(FilterForm.of(said))
    except UnreadableFilterError as fault:
        raise UnreadableFieldError("/filter", str(fault)) from None


def _filter_words(said: Said) -> list[str]:
    """Return the command-line options for the filter."""
    filter: Any
    try:
        filter = _filter(said)
    except UnreadableFieldError:
        return ["--filter", "…"]
    match filter:
        case None:
            return []
        case {"kind": "tags", "tags": tags}:
            return [word for each in tags for word in ("--tag", each)]
        case {"kind": "routing_key", "patterns": patterns}:
            return [word for each in patterns for word in ("--routing-key", each)]
        case {"kind": "tag_expression", "expression": text}:
            return ["--tag-expression", text]
        case {"kind": "event_pattern", "pattern": pattern, "dialect": dialect, "scope": scope}:
            return ["--event-pattern", json.dumps(pattern), "--dialect", dialect, "--scope", scope]
        case {"kind": "sql92", "expression": text}:
            return ["--sql", text, *(["--dialect", said["dialect"]] if said.get("dialect") == "rocketmq" else [])]
    return ["--filter", said.get("text", "") if said.get("kind") == "json" else f"{filter}".replace("'", '"')]


def _retry(said: Said) -> Json:
    values: Json = {name: _number(said, name) for name in ("interval_seconds", "max_interval_seconds")}
    values["max_retries"] = LIFE if _is_for_life(said) else _number(said, "max_retries")
    values.pop(_not_of_strategy(said), None)
    return drop_none(strategy=said.get("strategy") or None, **values)


def _is_for_life(said: Said) -> bool:
    return said.get("max_retries", "").strip().lower() == LIFE


def _not_of_strategy(said: Said) -> str:
    """Return the form field of the other retry strategy, which has no meaning here."""
    match said.get("strategy"):
        case "BACKOFF_RETRY":
            return "" if _is_for_life(said) else "max_interval_seconds"
        case "EXPONENTIAL_DECAY_RETRY" | "INDEPENDENT_RETRY":
            return "interval_seconds"
    return ""


def _batch(said: Said) -> Json:
    return drop_none(max_messages=_number(said, "batch_messages"), max_bytes=_number(said, "batch_bytes"))


def _headers(said: Said) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in said.get("headers", "").splitlines():
        if line.strip():
            name, colon, value = (part.strip() for part in line.partition(":"))
            if not colon or not name:
                raise UnreadableFieldError("/headers", "Expected NAME: VALUE on each line, e.g. x-tenant: a")
            found[name] = value
    return found
