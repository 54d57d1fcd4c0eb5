"""Pages that create and update topics and subscriptions. The API validates the settings; nothing is replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from tagcast_client import InvalidError, PreconditionFailedError
from tagcast_client.models import Subscription
from tagcast_client.operation import path_of
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS

from local.console import forms
from local.console.desk import Desk, desk_of, form_fields
from local.console.filter_form import FilterForm
from local.console.forms import Said, UnreadableFieldError
from local.console.lanes import lane_page
from local.console.rendering import lane_path

SEND = "yes"
Sent = Callable[[], Awaitable[web.Response]]


async def topic(request: web.Request) -> web.Response:
    """Show the form of a new topic. When it is submitted, create the topic if its name is new."""
    desk, said = desk_of(request), await _said(request)
    name = said.get("name", "").strip()

    async def send() -> web.Response:
        await desk.api.create_topic(name, **forms.topic_settings(said))
        desk.forget()
        raise web.HTTPSeeOther(path_of("topics", name))

    values: dict[str, Any] = {"name": name, "is_new": True, "title": "New topic", "back": "/topics"}
    values["sections"] = forms.sections(TOPIC_SETTINGS)
    return await _form(desk, "topic_form.html", said, send, forms.topic_command("create", name, said), values)


async def topic_edit(request: web.Request) -> web.Response:
    """Show the settings of a topic. When the form is submitted, update those that differ."""
    desk, name, said = desk_of(request), request.match_info["topic"], await _said(request)
    present = await desk.api.get_topic(name)
    before = forms.texts_of(TOPIC_SETTINGS, present)
    said = {**before, **forms.uncheck_all(TOPIC_SETTINGS), **said} if said else before
    changed = {field: value for field, value in said.items() if before.get(field, value) != value}

    async def send() -> web.Response:
        changes = forms.values_of(TOPIC_SETTINGS, changed)
        if changes:
            await desk.api.update_topic(name, if_version=_version(said, present.version), **changes)
            desk.forget()
        raise web.HTTPSeeOther(path_of("topics", name))

    values: dict[str, Any] = {
        "name": name,
        "is_new": False,
        "title": f"Settings of {name}",
        "back": path_of("topics", name),
    }
    values |= {"version": present.version, "sections": forms.sections(TOPIC_SETTINGS)}
    command = forms.topic_command("update", name, changed) if changed.keys() & before.keys() else ""
    return await _form(desk, "topic_form.html", said, send, command, values)


async def subscription(request: web.Request) -> web.Response:
    """Show the form of a new subscription. When it is submitted, create the subscription if its name is new."""
    desk, topic, said = desk_of(request), request.match_info["topic"], await _said(request)
    name = said.get("name", "").strip()

    async def send() -> web.Response:
        settings = forms.subscription_settings(said)
        made = await desk.api.create_subscription(topic, name, settings.pop("endpoint"), **settings)
        return _done(desk, made, "made")

    values: dict[str, Any] = {"topic": topic, "name": name, "is_new": True, "title": f"New subscription of {topic}"}
    values |= {"back": path_of("topics", topic), "sections": forms.sections(SUBSCRIPTION_SETTINGS)}
    command = forms.subscription_command(topic, name, said)
    return await _form(desk, "subscription_form.html", said, send, command, values)


async def subscription_edit(request: web.Request) -> web.Response:
    """Show the settings of a subscription. When the form is submitted, update those that differ.

    Secrets stay unless the form names them.
    """
    desk, said = desk_of(request), await _said(request)
    topic, name = request.match_info["topic"], request.match_info["subscription"]
    present = await desk.api.get_subscription(topic, name)
    before = forms.subscription_said(present)
    said = {**before, **forms.uncheck_all(SUBSCRIPTION_SETTINGS), **said} if said else before

    async def send() -> web.Response:
        changes = forms.subscription_changes(before, said)
        if not changes:
            raise web.HTTPSeeOther(lane_path(topic, name))
        version = _version(said, present.version)
        return _done(desk, await desk.api.update_subscription(topic, name, if_version=version, **changes), "changed")

    shown = {key: value for key, value in said.items() if key in before or key in ("secret", "headers")}
    differs = any(before.get(key, "") != value for key, value in shown.items())
    command = forms.subscription_command(topic, name, shown, before) if differs else ""
    values: dict[str, Any] = {"topic": topic, "name": name, "is_new": False, "title": f"Settings of {name}"}
    values |= {"back": lane_path(topic, name), "version": present.version, "signatures": present.signatures}
    values["sections"] = forms.sections(SUBSCRIPTION_SETTINGS)
    return await _form(desk, "subscription_form.html", said, send, command, values)


async def _said(request: web.Request) -> dict[str, str]:
    """Return the submitted fields; empty if the page is only displayed."""
    if request.method != "POST":
        return {}
    return {name: value for name, value in (await form_fields(request)).items() if name != "token"}


def _version(said: Said, present: int) -> int:
    """Return the version that the user edited."""
    text = said.get("version", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else present


def _done(desk: Desk, made: Subscription, what: str) -> web.Response:
    """Redirect to the lane. A generated secret is displayed first, because it is shown only once."""
    desk.forget()
    if made.secret is not None:
        return desk.page("secret.html", subscription=made)
    raise web.HTTPSeeOther(lane_page(made.topic, made.name, what))


async def _form(
    desk: Desk, template: str, said: Said, send: Sent, command: str, values: dict[str, Any]
) -> web.Response:
    """Show a form with its command. When the user confirms, submit it to the API and show the API's faults."""
    faults: list[tuple[str, str]] = []
    status = 200
    if said.get("do") == SEND:
        try:
            return await send()
        except InvalidError as refused:
            faults = [(fault.pointer.removeprefix("#"), fault.detail) for fault in refused.faults] or [
                ("", refused.detail)
            ]
        except PreconditionFailedError as refused:
            faults = [("", f"{refused.detail}. Nothing was updated. Reload the page to see the current settings")]
        except UnreadableFieldError as fault:
            faults = [(fault.pointer, fault.detail)]
        status = 422
    return desk.page(
        template,
        status,
        said=said,
        faults=faults,
        command=command,
        protocols=forms.PROTOCOLS,
        strategies=forms.STRATEGIES,
        filter=FilterForm.of(said),
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
