"""How a subscription looks: a field a line, or a line of a list."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from tagcast_client.operation import Json

from local.cli.filters import filter_text
from local.cli.screen import fields_table, state_text
from local.cli.session import Listing


def _protocol(endpoint: Any) -> Any:
    return endpoint.get("protocol") if isinstance(endpoint, dict) else None


def _endpoint_text(endpoint: Any) -> str:
    if not isinstance(endpoint, dict):
        return "—"
    address = next((endpoint[name] for name in ("url", "queue_url", "arn", "function") if endpoint.get(name)), "")
    return str(address) if endpoint.get("url") else f"{endpoint.get('protocol')} {address}"


def _retry_text(retry: Any) -> str:
    if not isinstance(retry, dict):
        return "—"
    bounds = ", ".join(
        f"{retry[name]}{unit}"
        for name, unit in (
            ("max_retries", " retries"),
            ("interval_seconds", " s apart"),
            ("max_interval_seconds", " s at most"),
        )
        if retry.get(name) is not None
    )
    return f"{retry.get('strategy', '—')} ({bounds})" if bounds else str(retry.get("strategy", "—"))


def _batch_text(batch: Json) -> str:
    return f"{batch.get('max_messages')} messages, {batch.get('max_bytes')} bytes"


_OF_PUSHES = ("timeout_seconds", "content_format")
"""What means nothing for a group, to which nothing is pushed."""


def subscription_fields(answer: Json) -> Table:
    """One subscription, a field a line; its lane is shown by `tagcast lane`. Of a group only what a group uses."""
    shown, retry = dict(answer), answer.get("retry")
    is_group = _protocol(answer.get("endpoint")) == "pull"
    if is_group and isinstance(retry, dict):
        shown["retry"] = {"strategy": "pulled again", "max_retries": retry.get("max_retries")}
    readable = {"endpoint": _endpoint_text, "filter": filter_text, "retry": _retry_text, "batch": _batch_text}
    for name in readable.keys() & shown.keys():
        shown[name] = readable[name](shown[name])
    return fields_table(shown, leave_out=("lane", *(_OF_PUSHES if is_group else ())))


def _backlog_text(lane: Json) -> str | None:
    if "backlog" not in lane:
        return None
    return f"more than {lane['backlog']}" if lane.get("backlog_has_more") else str(lane["backlog"])


def _row(subscription: Json) -> list[Any]:
    lane = subscription.get("lane") or {}
    return [
        subscription.get("name"),
        filter_text(subscription.get("filter")),
        _endpoint_text(subscription.get("endpoint")),
        _retry_text(subscription.get("retry")),
        state_text(lane.get("state")),
        _backlog_text(lane),
    ]


LISTING = Listing(
    key="subscriptions",
    headings=("subscription", "filter", "endpoint", "retry", "lane", "backlog"),
    row=_row,
    empty="No subscriptions yet. Make one: tagcast subscribe TOPIC NAME --url http://…",
)
