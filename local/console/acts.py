"""Actions on lanes and topics. Each action is previewed on a page with a form that executes the action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web
from tagcast_cli.screen import count_noun
from tagcast_client import ConflictError
from tagcast_client.models import Subscription

from local.console.desk import Desk, desk_of
from local.console.lanes import UNVERIFIED, acts_of, command_of, lane_page
from local.console.rendering import lane_path, state_words, word


@dataclass(frozen=True)
class Preview:
    """The effect of an action, in sentences. *stop* is the reason why the action is impossible; None if it is possible.

    A form sends *fields* to the address *action*; an empty *action* is the address of the preview. The form's button
    shows *verb*, and its cancel link leads to *back*. If *returns* is True, a cancel button sends the fields to *back*
    instead. If *asks_reason* is True, the form asks for a reason. *command* is the equivalent command line; empty if
    there is none.
    """

    title: str
    sentences: tuple[str, ...]
    verb: str
    back: str
    fields: Mapping[str, str] = field(default_factory=dict)
    asks_reason: bool = False
    stop: str | None = None
    action: str = ""
    returns: bool = False
    command: str = ""


def lane_preview(subscription: Subscription, act: str) -> Preview:
    """Return the preview of the action *act* on the lane of *subscription*."""
    name, lane = subscription.name, subscription.lane
    assert lane is not None
    head, behind = lane.head, max(0, lane.backlog - 1)
    number, follow = count_noun(behind, "delivery", "deliveries"), "follows" if behind == 1 else "follow"
    at_head = f"message {head.message_id}" if head else "nothing"
    waits_alone = lane.state == "retrying"
    sentences = {
        "retry": (
            f"Attempt {head.attempts + 1 if head else 1} of {at_head} starts now, regardless of the retry schedule.",
            f"If it succeeds, the {number} behind it {follow}. If it fails, it counts, and the schedule continues.",
        )
        if not waits_alone
        else (
            f"{count_noun(lane.backlog, 'delivery', 'deliveries').capitalize()} of {name} will be attempted now.",
            "This ignores the retry schedules. An attempt that fails counts, and its schedule continues.",
        ),
        "verify": (
            f"The verification of the endpoint of {name} is sent again: OPTIONS, then POST with a token.",
            f"If the endpoint confirms, its backlog of {lane.backlog} is pushed. If not, it waits until it expires.",
        ),
        "skip": (
            f"The delivery of {at_head} to {name} is cancelled permanently. Other subscriptions keep their deliveries.",
            f"The next of the {number} behind it becomes the head. A paused or suspended lane waits."
            if not waits_alone
            else f"The other {number} of {name} are not changed.",
        ),
        "pause": (
            f"No attempts are made for {name} until you resume it.",
            f"Its backlog of {lane.backlog} and new messages wait. They still expire when their retention ends.",
        ),
        "resume": (
            f"The {word(lane.state)} subscription makes attempts again.",
            f"It continues with {at_head}. Its backlog is {lane.backlog}."
            if head
            else "It has no backlog and becomes active.",
        ),
    }
    return Preview(
        f"{act.capitalize()} {name}",
        sentences[act],
        act.capitalize(),
        lane_path(subscription.topic, name),
        {"head": head.message_id if head else ""},
        asks_reason=act == "skip",
        stop=None if act in acts_of(subscription) else _refusal(subscription, act),
        command=command_of(act, subscription.topic, name, head.message_id if head else ""),
    )


def _refusal(subscription: Subscription, act: str) -> str:
    assert subscription.lane is not None
    if act == "retry" and subscription.lane.state == UNVERIFIED:
        return "Unverified: the endpoint has not confirmed yet. A retry has no effect. Verify the endpoint instead."
    return f"The lane {state_words(subscription.lane.state)}: nothing to {act}."


async def preview(request: web.Request) -> web.Response:
    """Show the preview of an action on a lane."""
    desk, topic, name, act = _parse_request(request)
    subscription = await desk.api.get_subscription(topic, name)
    return desk.page("confirm.html", preview=lane_preview(subscription, act))


async def change(request: web.Request) -> web.Response:
    """Execute an action on a lane. A skip cancels only the delivery of the previewed message."""
    desk, topic, name, act = _parse_request(request)
    form = await request.post()
    if act == "skip":
        reason, head = str(form.get("reason", "")), str(form.get("head", "")) or None
        try:
            await desk.api.skip(topic, name, reason, message_id=head)
        except ConflictError:
            new_preview = lane_preview(await desk.api.get_subscription(topic, name), act)
            changed = "The head has changed. Review it again:"
            return desk.page("confirm.html", 409, preview=new_preview, changed=changed, reason=reason)
    elif act == "verify":
        subscription = await desk.api.verify_endpoint(topic, name)
        if subscription.state == UNVERIFIED:
            changed = f"The endpoint did not confirm: {subscription.state_reason}. Update it, then verify again:"
            return desk.page("confirm.html", 409, preview=lane_preview(subscription, act), changed=changed)
    else:
        await {"retry": desk.api.retry, "pause": desk.api.pause, "resume": desk.api.resume}[act](topic, name)
    desk.forget()
    raise web.HTTPSeeOther(lane_page(topic, name, act))


async def preview_topic_retry(request: web.Request) -> web.Response:
    """Show the preview of retrying all blocked subscriptions of a topic."""
    desk, topic = desk_of(request), request.match_info["topic"]
    settings = await desk.api.get_topic(topic)
    sentences = (
        f"Each blocked subscription of {settings.name} with BACKOFF_RETRY attempts its head now.",
        "Subscriptions with another strategy do not change, nor do paused or suspended subscriptions.",
    )
    return desk.page(
        "confirm.html",
        preview=Preview(
            f"Retry {topic} now", sentences, "Retry now", f"/topics/{topic}", command=f"tagcast retry {topic}"
        ),
    )


async def retry_topic(request: web.Request) -> web.Response:
    """Retry all blocked subscriptions of a topic now."""
    desk, topic = desk_of(request), request.match_info["topic"]
    await desk.api.retry_topic(topic)
    desk.forget()
    raise web.HTTPSeeOther(f"/topics/{topic}")


def _parse_request(request: web.Request) -> tuple[Desk, str, str, str]:
    found = request.match_info
    return desk_of(request), found["topic"], found["subscription"], found["act"]


_ACT = "/topics/{topic}/subscriptions/{subscription}/{act:retry|verify|skip|pause|resume}"
ROUTES = (
    web.get(_ACT, preview),
    web.post(_ACT, change),
    web.get("/topics/{topic}/retry", preview_topic_retry),
    web.post("/topics/{topic}/retry", retry_topic),
)
