"""The filter workbench: edit a filter and test it on recent messages. Then save it, or start it as a shadow."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

from aiohttp import web
from tagcast.errors import FilterEvaluationError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.kinds import compile_filter
from tagcast.model import Draft
from tagcast_client import AnyFilter, InvalidError, NewMessage, PreconditionFailedError
from tagcast_client.models import Message, Subscription

from local.console.acts import Preview
from local.console.cached_list import together
from local.console.commands import filter_options
from local.console.desk import Desk, desk_of, form_fields
from local.console.filter_form import FilterForm, UnreadableFilterError, filter_of, form_of
from local.console.forms import UnreadableFieldError, read_field, whole_number
from local.console.lanes import lane_page
from local.console.rendering import as_json, lane_path
from local.console.topics import new_message
from local.console.verdicts import VerdictLine, lines

RECENT_SHOWN, RECENT_READ = 6, 100
TEST_MESSAGE = ("body", "tags", "routing_key", "properties")
"""The form fields of the test message."""


@dataclass(frozen=True)
class Verdict:
    """The result of a filter for *message*, with an explanation. *message* is None for the message in the form."""

    message: Message | None
    verdict: str
    tree: list[VerdictLine]


@dataclass(frozen=True)
class Bench:
    """The fields of the workbench: the topic, the subscription and its version, and the filter's *form*.

    *subscription* and *version* are empty if no subscription is named. *fields* has all fields of the page, including
    those of the test message.
    """

    topic: str
    subscription: str
    version: str
    form: FilterForm
    fields: Mapping[str, str]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Bench:
        """Return the workbench with the fields of a form or of a URL's query."""
        topic, subscription = (fields.get(name, "").strip() for name in ("topic", "subscription"))
        return cls(topic, subscription, fields.get("version", ""), FilterForm.of(fields), fields)


async def workbench(request: web.Request) -> web.Response:
    """Show the workbench. The query may name a subscription, to load its filter, and a message, to test filters on."""
    desk, query = desk_of(request), dict(request.query)
    bench = Bench.of(query)
    if bench.topic and (message_id := query.get("message", "").strip()):
        bench = Bench.of({**query, **_fields(await desk.api.get_message(bench.topic, message_id))})
    if bench.topic and bench.subscription:
        subscription = await desk.api.get_subscription(bench.topic, bench.subscription)
        form = form_of(subscription.filter)
        bench = Bench(bench.topic, bench.subscription, str(subscription.version), form, bench.fields)
    return await _page(desk, bench)


def _fields(message: Message) -> dict[str, str]:
    pairs = "\n".join(f"{name}={value}" for name, value in message.properties.items())
    text = "" if message.body is None else message.body.decode(errors="replace")
    return {
        "tags": ", ".join(message.tags),
        "routing_key": message.routing_key or "",
        "properties": pairs,
        "body": text,
    }


async def show_verdicts(request: web.Request) -> web.Response:
    """Show the workbench again with the results of the submitted filter."""
    return await _page(desk_of(request), await _bench(request))


async def _bench(request: web.Request) -> Bench:
    return Bench.of(await form_fields(request))


async def _page(desk: Desk, bench: Bench, refusal: str = "") -> web.Response:
    recent = await _recent(desk, bench.topic) if bench.topic else []
    verdicts, faults = await _verdicts(desk, bench, recent[:RECENT_SHOWN])
    return desk.page(
        "workbench.html",
        412 if refusal else 200,
        refusal=refusal,
        bench=bench,
        topic_names=await desk.topic_names(),
        verdicts=verdicts,
        looked_at=len(recent),
        retained=max(len(recent), (await desk.api.get_topic(bench.topic)).retained_messages or 0) if bench.topic else 0,
        change=await _change(desk, bench, recent) if bench.subscription and not faults else None,
        faults=faults,
        warnings=() if faults else compile_filter(filter_of(bench.form)).warnings,
        fields=bench.fields,
    )


@dataclass(frozen=True)
class FilterChange:
    """The effect of a new filter on recent messages; *messages* is their number.

    *both* is the number of messages that match both filters. Only the new filter matches the messages in *more*. Only
    the active filter matches the messages in *fewer*.
    """

    messages: int
    both: int
    more: list[Message]
    fewer: list[Message]


async def _change(desk: Desk, bench: Bench, recent: list[Message]) -> FilterChange | None:
    """Compare the subscription's filter with the form's filter on *recent*; None if one of them is a function."""
    subscription = await desk.api.get_subscription(bench.topic, bench.subscription)
    candidate = filter_of(bench.form)
    if _reads_body(subscription.filter) or _reads_body(candidate):
        recent = await _with_bodies(desk, bench.topic, recent[:RECENT_SHOWN])
    return compare_filters(subscription.filter, candidate, recent)


def compare_filters(
    active: AnyFilter | None, candidate: AnyFilter | None, messages: list[Message]
) -> FilterChange | None:
    """Return how *candidate* differs from the *active* filter on *messages*; None if a filter is a function."""
    if any(each is not None and each.get("kind") == "function" for each in (active, candidate)):
        return None
    before, after = compile_filter(active), compile_filter(candidate)
    verdicts = [(each, takes(before, each), takes(after, each)) for each in messages]
    return FilterChange(
        len(messages),
        sum(was and would for _, was, would in verdicts),
        [each for each, was, would in verdicts if would and not was],
        [each for each, was, would in verdicts if was and not would],
    )


def takes(filter: CompiledFilter, message: Message) -> bool:
    """Return whether a filter matches a message. A filter that fails on the message does not match."""
    try:
        return filter.evaluate(_draft(message)) is True
    except FilterEvaluationError:
        return False


def _draft(message: Message) -> Draft:
    content, properties = message.body or b"", message.properties
    return Draft(content, tags=message.tags, routing_key=message.routing_key, properties=properties)


async def _verdicts(desk: Desk, bench: Bench, recent: list[Message]) -> tuple[list[Verdict], list[str]]:
    """Return the filter's verdicts on the form's message and on recent messages, or the filter's errors."""
    try:
        candidate = filter_of(bench.form)
        invented = await _test_filter(desk, candidate, None, new_message(bench.fields))
        if _reads_body(candidate):
            recent = await _with_bodies(desk, bench.topic, recent)
        found = await together(
            lambda each: _test_filter(desk, candidate, each, NewMessage.like(each, each.body or "")), recent
        )
    except (UnreadableFilterError, UnreadableFieldError) as fault:
        return [], [str(fault)]
    except InvalidError as refused:
        return [], [f"{fault.pointer}  {fault.detail}".strip() for fault in refused.faults] or [str(refused)]
    return [invented, *found], []


async def _recent(desk: Desk, topic: str) -> list[Message]:
    page = await desk.api.list_messages(topic, limit=RECENT_READ).page()
    return list(reversed({each.message_id: each for each in page.items}.values()))


def _reads_body(described: AnyFilter | None) -> bool:
    """Return whether a filter reads bodies, which lists of messages omit."""
    return compile_filter(described).reads_body


async def _with_bodies(desk: Desk, topic: str, messages: list[Message]) -> list[Message]:
    return await together(partial(desk.api.get_message, topic), [each.message_id for each in messages])


async def _test_filter(desk: Desk, candidate: AnyFilter | None, message: Message | None, sent: NewMessage) -> Verdict:
    result = await desk.api.test_filter(sent, filter=candidate)
    return Verdict(message, result.verdict, lines(result.explanation))


async def shadow(request: web.Request) -> web.Response:
    """Start the filter as a shadow. This has no preview, because a shadow delivers nothing."""
    desk, bench = desk_of(request), await _bench(request)
    try:
        await desk.api.set_shadow(bench.topic, bench.subscription, filter_of(bench.form))
    except (UnreadableFilterError, InvalidError):
        return await _page(desk, bench)
    raise web.HTTPSeeOther(lane_path(bench.topic, bench.subscription, "shadow"))


async def save(request: web.Request) -> web.Response:
    """Show the preview of an update. If the user has confirmed the preview, update the subscription's filter.

    If the subscription changed since the workbench loaded it, nothing is updated.
    """
    desk, bench = desk_of(request), await _bench(request)
    try:
        candidate = filter_of(bench.form)
        await desk.api.test_filter(NewMessage(""), filter=candidate)
    except (UnreadableFilterError, InvalidError):
        return await _page(desk, bench)
    subscription = await desk.api.get_subscription(bench.topic, bench.subscription)
    if bench.fields.get("confirmed") != "yes":
        return desk.page("confirm.html", preview=_preview(bench, subscription, candidate))
    edited = read_field(bench.fields, "version", whole_number) or 0
    try:
        await desk.api.update_filter(bench.topic, bench.subscription, candidate, if_version=edited)
    except PreconditionFailedError as refused:
        refusal = f"{refused.detail}. Nothing was updated. The result compares your filter with the current one."
        return await _page(desk, replace(bench, version=str(subscription.version)), refusal)
    raise web.HTTPSeeOther(lane_page(bench.topic, bench.subscription, "saved"))


def _preview(bench: Bench, subscription: Subscription, candidate: AnyFilter | None) -> Preview:
    return Preview(
        f"Update the filter of {bench.subscription}",
        (
            f"From the next publish on, {bench.subscription} gets messages that match: {as_json(candidate)}",
            "Messages accepted earlier keep their subscribers.",
            f"The update needs version {bench.version} of the subscription. Current version: {subscription.version}.",
            "Other settings do not change.",
        ),
        "Update",
        "/workbench",
        {
            **{"topic": bench.topic, "subscription": bench.subscription, "version": bench.version},
            **asdict(bench.form),
            **{name: bench.fields.get(name, "") for name in (*TEST_MESSAGE, "message")},
            "confirmed": "yes",
        },
        action="/workbench/save",
        returns=True,
        command=shlex.join(["tagcast", "filter", "set", bench.topic, bench.subscription, *filter_options(candidate)]),
    )


ROUTES = (
    web.get("/workbench", workbench),
    web.post("/workbench", show_verdicts),
    web.post("/workbench/shadow", shadow),
    web.post("/workbench/save", save),
)
