"""Pages that create and update topics and subscriptions. A form for a new resource never changes an existing one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web
from tagcast_client import TagcastError
from tagcast_client.models import Subscription
from tagcast_client.operation import Json, drop_none, path_of
from tagcast_client.setting import Setting
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

from local.console import forms
from local.console.commands import Command, command_of
from local.console.desk import Desk, desk_of, form_fields
from local.console.filter_form import FilterForm
from local.console.forms import Fields, UnreadableFieldError, faults_of
from local.console.lanes import lane_page
from local.console.rendering import lane_path

SEND = "yes"


@dataclass(frozen=True)
class Form:
    """One form with the fields *fields*. *read* converts them to a request body, and *send* sends this body to the API.

    The equivalent command line begins with *words*. *settings* are the possible settings of the resource.
    """

    template: str
    fields: Fields
    read: Callable[[], Json]
    send: Callable[[Json], Awaitable[web.Response]]
    words: Sequence[str]
    settings: Sequence[Setting]


async def topic(request: web.Request) -> web.Response:
    """Show the form for a new topic. If the form was submitted, create the topic, or show why this is refused."""
    desk, fields = desk_of(request), await _submitted_fields(request)
    name = fields.get("name", "").strip()

    async def send(settings: Json) -> web.Response:
        await desk.api.create_topic(name, **settings)
        desk.forget()
        raise web.HTTPSeeOther(path_of("topics", name))

    def read() -> Json:
        return drop_none(**forms.values_of(TOPIC_SETTINGS, fields))

    words = ["topic", "create", name or "NAME"]
    form = Form("topic_form.html", fields, read, send, words, TOPIC_SETTINGS)
    return await _page(desk, form, name=name, is_new=True, title="New topic", back="/topics")


async def topic_edit(request: web.Request) -> web.Response:
    """Show the form with a topic's settings. If the form was submitted, update the settings that differ."""
    desk, name, fields = desk_of(request), request.match_info["topic"], await _submitted_fields(request)
    present = await desk.api.get_topic(name)
    before = forms.texts_of(TOPIC_SETTINGS, present)
    fields = {**before, **forms.uncheck_all(TOPIC_SETTINGS), **fields} if fields else before

    async def send(changes: Json) -> web.Response:
        if changes:
            await desk.api.update_topic(name, if_version=_version(fields, present.version), **changes)
            desk.forget()
        raise web.HTTPSeeOther(path_of("topics", name))

    words = ["topic", "update", name]
    form = Form("topic_form.html", fields, partial(forms.topic_changes, before, fields), send, words, TOPIC_SETTINGS)
    values = {"title": f"Settings of {name}", "back": path_of("topics", name)}
    return await _page(desk, form, name=name, is_new=False, version=present.version, **values)


async def subscription(request: web.Request) -> web.Response:
    """Show the form for a new subscription. If the form was submitted, create it, or show why this is refused."""
    desk, topic, fields = desk_of(request), request.match_info["topic"], await _submitted_fields(request)
    name = fields.get("name", "").strip()

    async def send(settings: Json) -> web.Response:
        return _finish(desk, await desk.api.create_subscription(topic, name, **settings), "made")

    words, read = ["subscribe", topic, name or "NAME"], partial(forms.new_subscription, fields)
    form = Form("subscription_form.html", fields, read, send, words, SUBSCRIPTION_SETTINGS)
    values = {"title": f"New subscription of {topic}", "back": path_of("topics", topic)}
    return await _page(desk, form, topic=topic, name=name, is_new=True, **values)


async def subscription_edit(request: web.Request) -> web.Response:
    """Show the form with a subscription's settings. If the form was submitted, update the settings that differ.

    The form never shows the secret and the headers. If these fields stay empty, they do not change.
    """
    desk, fields = desk_of(request), await _submitted_fields(request)
    topic, name = request.match_info["topic"], request.match_info["subscription"]
    present = await desk.api.get_subscription(topic, name)
    before = forms.subscription_fields(present)
    fields = {**before, **forms.uncheck_all(SUBSCRIPTION_SETTINGS), **fields} if fields else before

    async def send(changes: Json) -> web.Response:
        if not changes:
            raise web.HTTPSeeOther(lane_path(topic, name))
        version = _version(fields, present.version)
        return _finish(desk, await desk.api.update_subscription(topic, name, if_version=version, **changes), "changed")

    words, read = ["subscription", "update", topic, name], partial(forms.subscription_changes, before, fields)
    form = Form("subscription_form.html", fields, read, send, words, SUBSCRIPTION_SETTINGS)
    values = {"title": f"Settings of {name}", "back": lane_path(topic, name), "signatures": present.signatures}
    return await _page(desk, form, topic=topic, name=name, is_new=False, version=present.version, **values)


async def _submitted_fields(request: web.Request) -> dict[str, str]:
    """Return the submitted fields; empty if the page is only displayed."""
    if request.method != "POST":
        return {}
    return {name: value for name, value in (await form_fields(request)).items() if name != "token"}


def _version(fields: Fields, present: int) -> int:
    text = fields.get("version", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else present


def _finish(desk: Desk, made: Subscription, what: str) -> web.Response:
    """Redirect to the lane. A generated secret is displayed first, because it is shown only once."""
    desk.forget()
    if made.secret is not None:
        return desk.page("secret.html", subscription=made)
    raise web.HTTPSeeOther(lane_page(made.topic, made.name, what))


async def _page(desk: Desk, form: Form, **values: Any) -> web.Response:
    """Show a form with its command. When the user confirms, send its body. Show the faults that the API finds."""
    is_sent, status = form.fields.get("do") == SEND, 200
    faults: list[tuple[str, str]] = []
    command = Command()
    try:
        body = form.read()
        if body or values["is_new"]:
            command = command_of(form.words, body, form.settings)
        if is_sent:
            status = 422
            return await form.send(body)
    except UnreadableFieldError as fault:
        command, status = Command(hints=((fault.pointer, fault.detail),)), 422 if is_sent else 200
        faults = faults_of(fault) if is_sent else []
    except TagcastError as refused:
        faults = faults_of(refused)
    return desk.page(
        form.template,
        status,
        fields=form.fields,
        faults=faults,
        command=command,
        sections=forms.sections(form.settings),
        protocols=forms.PROTOCOLS,
        strategies=forms.STRATEGIES,
        filter=FilterForm.of(form.fields),
        **{"version": "", "signatures": (), **values},
    )


_EDIT = "/topics/{topic}/subscriptions/{subscription}/edit"
ROUTES = (
    web.get("/new-topic", topic),
    web.post("/new-topic", topic),
    web.get("/topics/{topic}/edit", topic_edit),
    web.post("/topics/{topic}/edit", topic_edit),
    web.get("/topics/{topic}/subscribe", subscription),
    web.post("/topics/{topic}/subscribe", subscription),
    web.get(_EDIT, subscription_edit),
    web.post(_EDIT, subscription_edit),
)
