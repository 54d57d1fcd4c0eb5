"""Settings in the API's form, and merge patches (RFC 7396) that update a resource to such settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tagcast_client.filters import normal_form
from tagcast_client.instants import instant
from tagcast_client.models import Subscription, Topic
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS, AnyFilter

GENERATE = "generate"
"""The value with which the service generates a secret."""
LONGEST = {"max_interval_seconds": 512}
RETRY = {"strategy": "INDEPENDENT_RETRY", "max_retries": 176, **LONGEST}
RETRY_IN_ORDER = {"strategy": "BACKOFF_RETRY", "max_retries": "life", **LONGEST}
"""The default retries of an ordered subscription with pushes."""
_WHOLE = ("endpoint", "filter", "retry")
_BOTH = ("ordered", "retry")
_UNSIGNED = ("sqs", "lambda")
_WRITE_ONLY = ("secret", "headers", "client_certificate", "verification")
_TOPIC_DEFAULTS = {each.name: each.default for each in TOPIC_SETTINGS}
_DEFAULTS = {each.name: False if each.type == "boolean" else each.default for each in SUBSCRIPTION_SETTINGS}


def settings_of(kind: type[Any], settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return *settings* and *more* in the API's form: a URL becomes an endpoint, an instant becomes text.

    *kind* is the TypedDict of the settings. Raises TypeError for a name that *kind* lacks, and ValueError for an
    instant without a zone.

    >>> from tagcast_client.settings import Certificate
    >>> settings_of(Certificate, {"max": 60})
    Traceback (most recent call last):
        ...
    TypeError: 'max' is not a setting: allowed are certificate, private_key
    """
    check_names(kind, settings)
    found = with_endpoint({**settings, **more})
    if found.get("start_from") is not None:
        found["start_from"] = instant(found["start_from"])
    return found


def check_names(kind: type[Any], given: Mapping[str, Any], what: str = "a setting") -> None:
    """Raise TypeError if *given* has a name that the TypedDict *kind* lacks. The error says that it is not *what*."""
    known = kind.__annotations__
    if others := sorted(given.keys() - known.keys()):
        raise TypeError(f"{', '.join(map(repr, others))} is not {what}: allowed are {', '.join(sorted(known))}")


def with_endpoint(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a URL endpoint converted to the API's object.

    >>> with_endpoint({"name": "a", "endpoint": "https://a.test/"})["endpoint"]
    {'protocol': 'https', 'url': 'https://a.test/'}
    """
    endpoint = settings.get("endpoint")
    if not isinstance(endpoint, str):
        return dict(settings)
    return {**settings, "endpoint": {"protocol": endpoint.partition(":")[0].lower(), "url": endpoint}}


def in_place_of(present: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that replaces the object *present* by *wanted*.

    Raises ValueError for a null in an inner object of *wanted*, because a null in a merge patch removes its name.

    >>> in_place_of({"kind": "tags", "tags": ["a"]}, {"kind": "sql92", "expression": "b = 1"})
    {'tags': None, 'kind': 'sql92', 'expression': 'b = 1'}
    >>> in_place_of({"pattern": {"a": [1]}}, {"pattern": {"b": [2]}})
    {'pattern': {'a': None, 'b': [2]}}
    """
    before = present if isinstance(present, Mapping) else {}
    found: dict[str, Any] = {name: None for name in before if name not in wanted}
    for name, value in wanted.items():
        if isinstance(value, Mapping) and (nulls := [key for key, each in value.items() if each is None]):
            raise ValueError(f"{nulls[0]!r} in {name!r} must not be null; [null] matches the value null")
        found[name] = in_place_of(before.get(name), value) if isinstance(value, Mapping) else value
    return found


def needs_present(changes: Mapping[str, Any]) -> bool:
    """Return whether *changes* replace an object as a whole. If so, the patch depends on the present object."""
    return bool(_replaced_objects(changes))


def _replaced_objects(changes: Mapping[str, Any]) -> list[str]:
    """Return the objects that *changes* replace as a whole. Retry settings without a strategy are merged."""
    given = [name for name in _WHOLE if isinstance(changes.get(name), Mapping)]
    return [name for name in given if name != "retry" or "strategy" in changes[name]]


def patch_of(present: Subscription, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that applies *changes* to *present*.

    A filter and an endpoint are replaced as a whole. Retry settings are replaced if the strategy changes, else merged.
    """
    patch = dict(changes)
    for name in _replaced_objects(changes):
        if name != "retry" or changes[name]["strategy"] != present.retry["strategy"]:
            patch[name] = in_place_of(getattr(present, name), changes[name])
    return patch


def topic_patch(present: Topic, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that updates *present* to the *wanted* settings; empty if no setting differs."""
    return {
        name: value
        for name, value in wanted.items()
        if getattr(present, name) != (_TOPIC_DEFAULTS[name] if value is None else value)
    }


def subscription_patch(present: Subscription, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that updates *present* to the *wanted* settings; empty if no setting differs.

    The start of a group cannot change, so *start_from* is ignored. A secret is set only if the subscription has none;
    otherwise it must be rotated. No secret is set for a queue or a function, because pushes to them are not signed.
    Headers are write-only, so they are always set. If *wanted* has no ``ordered``, the wanted strategy decides the
    order.
    """
    differs = {name: value for name, value in wanted.items() if not _has(present, name, value)}
    differs.pop("start_from", None)
    secret, endpoint = wanted.get("secret"), wanted.get("endpoint", present.endpoint)
    if ("v1" in present.signatures) is (secret is not None) or (secret and endpoint.get("protocol") in _UNSIGNED):
        differs.pop("secret", None)
    if "strategy" in (wanted.get("retry") or {}):
        if wanted.get("ordered") is None:
            differs.pop("ordered", None)
        elif not differs.keys().isdisjoint(_BOTH):  # One alone would undo the other, and the API could refuse neither.
            differs |= {name: wanted[name] for name in _BOTH}
    default = RETRY_IN_ORDER if wanted.get("ordered", present.ordered) else RETRY
    if "retry" in differs and wanted["retry"] is None and present.retry == default:
        del differs["retry"]
    if "endpoint" not in differs and not (differs.get("verification") == "none" and present.state == "unverified"):
        differs.pop("verification", None)
    return patch_of(present, differs)


def _has(present: Subscription, name: str, value: Any) -> bool:
    if name in _WRITE_ONLY:
        return False
    known = getattr(present, name)
    if value is None:
        return bool(known == _DEFAULTS[name])
    if name == "filter":
        return _comparable(known) == _comparable(value)
    if name == "batch" and known is not None:
        known = {"max_messages": known.max_messages, "max_bytes": known.max_bytes}
    if isinstance(known, Mapping) and isinstance(value, Mapping):
        named = {key: known.get(key) for key in value}
        return named == value and (name != "endpoint" or known.keys() == value.keys())
    return bool(known == value)


def _comparable(filter: AnyFilter | None) -> str:
    """Return a filter as JSON. Whole numbers have no fraction (1.0 becomes 1), as in the API's answers.

    Tags and patterns are sorted. Their order has no meaning, and a set has another order in each process.
    """
    found = normal_form(filter) or {}
    for name in ("tags", "patterns"):
        if isinstance(items := found.get(name), list):
            found[name] = sorted(items, key=repr)
    if found.get("kind") == "tag_expression":
        found["expression"] = sorted(found["expression"].split(" || "))
    text = json.dumps(found)
    whole = json.loads(text, parse_float=lambda found: int(x) if (x := float(found)).is_integer() else x)
    return json.dumps(whole, sort_keys=True)
