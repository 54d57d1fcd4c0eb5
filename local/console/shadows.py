"""The page of a shadow: how it differs from the active filter, with samples. It can be promoted or deleted."""

from __future__ import annotations

from aiohttp import web
from tagcast_cli.screen import count_noun
from tagcast_client.models import Shadow

from local.console.acts import Preview
from local.console.cached_list import none_if_missing
from local.console.desk import desk_of, form_fields
from local.console.forms import read_field, whole_number
from local.console.lanes import lane_page
from local.console.rendering import lane_path

WAYS = {"only_active": "only the active filter matches", "only_shadow": "only the shadow matches"}


async def shadow(request: web.Request) -> web.Response:
    """Show how a subscription's shadow compares with its active filter. The page also says if there is no shadow."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    subscription = await desk.api.get_subscription(topic, name)
    found = await none_if_missing(desk.api.get_shadow(topic, name))
    samples = {way: [each for each in found.samples if each.way == way] for way in WAYS} if found else {}
    return desk.page("shadow.html", subscription=subscription, shadow=found, ways=WAYS, samples=samples)


def promotion(topic: str, name: str, found: Shadow) -> Preview:
    """Return the preview of making the shadow *found* the active filter."""
    counts = found.counts
    return Preview(
        f"Promote the shadow of {name}",
        (
            f"From the next publish on, {name} gets messages that match the shadow. The shadow is deleted.",
            f"Of {counts.evaluated} messages so far, {counts.only_active} match only the active filter "
            f"and {counts.only_shadow} match only the shadow.",
            "Messages accepted earlier keep their subscribers.",
        ),
        "Promote",
        lane_path(topic, name, "shadow"),
        {"shadow_version": str(found.shadow_version)},
        command=f"tagcast shadow promote {topic} {name} --shadow-version {found.shadow_version}",
    )


async def preview(request: web.Request) -> web.Response:
    """Show the preview of making the shadow the active filter."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    found = await desk.api.get_shadow(topic, name)
    return desk.page("confirm.html", preview=promotion(topic, name, found))


async def promote(request: web.Request) -> web.Response:
    """Make the shadow the active filter, if it still has the previewed version."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    version = read_field(await form_fields(request), "shadow_version", whole_number) or 0
    await desk.api.promote_shadow(topic, name, shadow_version=version)
    raise web.HTTPSeeOther(lane_page(topic, name, "promoted"))


async def preview_end(request: web.Request) -> web.Response:
    """Show the preview of deleting the shadow."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    found = await desk.api.get_shadow(topic, name)
    sentences = (
        f"The shadow of {name} is deleted, with its results of {count_noun(found.counts.evaluated, 'message')}.",
        "The active filter and all deliveries stay as they are.",
    )
    back, command = lane_path(topic, name, "shadow"), f"tagcast shadow delete {topic} {name}"
    preview = Preview(f"Delete the shadow of {name}", sentences, "Delete", back, command=command)
    return desk.page("confirm.html", preview=preview)


async def end(request: web.Request) -> web.Response:
    """Delete the shadow. The active filter does not change."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    await desk.api.delete_shadow(topic, name)
    raise web.HTTPSeeOther(lane_page(topic, name, "ended"))


_SHADOW = "/topics/{topic}/subscriptions/{subscription}/shadow"
ROUTES = (
    web.get(_SHADOW, shadow),
    web.get(_SHADOW + "/promote", preview),
    web.post(_SHADOW + "/promote", promote),
    web.get(_SHADOW + "/end", preview_end),
    web.post(_SHADOW + "/end", end),
)
