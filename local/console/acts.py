"""What changes something: first what will happen is told, then it is done by a form of that page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web
from tagcast_client.models import Subscription

from local.console.desk import Desk, desk_of
from local.console.lanes import PENDING, acts_of, command_of, lane_page
from local.console.rendering import lane_path, word


@dataclass(frozen=True)
class Preview:
    """What an act will do, in sentences; *stop* says why it cannot be done.

    *fields* are sent with it to *action*, or else to the page that shows this. *command* does the same in a terminal.
    """

    title: str
    sentences: tuple[str, ...]
    verb: str
    back: str
    fields: Mapping[str, str] = field(default_factory=dict)
    asks_reason: bool = False
    stop: str | None = None
    action: str = ""
    command: str = ""


def lane_preview(subscription: Subscription, act: str) -> Preview:
    """Say what an act will do to a lane as it stands."""
    name, lane = subscription.name, subscription.lane
    assert lane is not None
    head, behind = lane.head, max(0, lane.backlog - 1)
    number = "1 delivery" if behind == 1 else f"{behind} deliveries"
    at_head = f"message {head.message_id}" if head else "nothing"
    told = {
        "retry": (
            f"Attempt {head.attempts + 1 if head else 1} of {at_head} is made now, whatever the schedule says.",
            f"If it succeeds, the {number} behind it follow; if it fails, it counts, and the schedule goes on from it.",
        ),
        "verify": (
            f"The endpoint of {name} is asked again whether it agrees: by OPTIONS, then by a POST with a token.",
            f"If it agrees, the {lane.backlog} that wait are pushed; if not, they go on waiting until their lives end.",
        ),
        "skip": (
            f"The delivery of {at_head} to {name} is cancelled for good; other subscriptions keep theirs.",
            f"The next of the {number} behind it becomes the head and is attempted, unless the lane sleeps.",
        ),
        "pause": (
            f"No attempt is made for {name} until somebody resumes it.",
            f"Its backlog of {lane.backlog} and whatever is published meanwhile waits, and expires when its life ends.",
        ),
        "resume": (
            f"The {lane.state} subscription makes attempts again.",
            f"It goes on with {at_head}; its backlog has {lane.backlog}." if head else "It owes nothing and is active.",
        ),
    }
    return Preview(
        f"{act.capitalize()} {name}",
        told[act],
        act.capitalize(),
        lane_path(subscription.topic, name),
        {"head": head.message_id if head else ""},
        asks_reason=act == "skip",
        stop=None if act in acts_of(subscription) else _refusal(subscription, act),
        command=command_of(act, subscription.topic, name),
    )


def _refusal(subscription: Subscription, act: str) -> str:
    """Say why an act would do nothing."""
    assert subscription.lane is not None
    if act == "retry" and subscription.lane.state == PENDING:
        return "The endpoint has not agreed to be pushed to yet: a retry does nothing. Verify it instead."
    return f"The lane is {word(subscription.lane.state)}: there is nothing to {act}."


async def preview(request: web.Request) -> web.Response:
    """Tell what an act will do to a lane."""
    desk, topic, name, act = _asked(request)
    subscription = await desk.api.get_subscription(topic, name)
    return desk.page("confirm.html", preview=lane_preview(subscription, act))


async def change(request: web.Request) -> web.Response:
    """Do it, if the head is still the one that was told of."""
    desk, topic, name, act = _asked(request)
    form = await request.post()
    if act == "skip":
        subscription = await desk.api.get_subscription(topic, name)
        told = lane_preview(subscription, act)
        if told.fields["head"] != form.get("head"):
            return desk.page("confirm.html", 409, preview=told, changed="The head has changed since. Look again:")
        await desk.api.skip(topic, name, str(form.get("reason", "")))
    elif act == "verify":
        subscription = await desk.api.verify_endpoint(topic, name)
        if subscription.state == PENDING:
            changed = f"It did not agree: {subscription.state_reason}. Change the endpoint, then ask again:"
            return desk.page("confirm.html", 409, preview=lane_preview(subscription, act), changed=changed)
    else:
        await {"retry": desk.api.retry, "pause": desk.api.pause, "resume": desk.api.resume}[act](topic, name)
    desk.forget()
    raise web.HTTPSeeOther(lane_page(topic, name, act))


async def preview_push(request: web.Request) -> web.Response:
    """Tell what a re-push of a topic will do."""
    desk, topic = desk_of(request), request.match_info["topic"]
    settings = await desk.api.get_topic(topic)
    sentences = (
        f"Every subscription of {settings.name} that is blocked under BACKOFF_RETRY attempts its head now.",
        "Those under EXPONENTIAL_DECAY_RETRY, paused or suspended ones are left as they are.",
    )
    return desk.page(
        "confirm.html",
        preview=Preview(f"Push {topic}", sentences, "Push", f"/topics/{topic}", command=f"tagcast push {topic}"),
    )


async def push(request: web.Request) -> web.Response:
    """Attempt now what a topic owes to blocked subscriptions."""
    desk, topic = desk_of(request), request.match_info["topic"]
    await desk.api.push(topic)
    raise web.HTTPSeeOther(f"/topics/{topic}")


def _asked(request: web.Request) -> tuple[Desk, str, str, str]:
    found = request.match_info
    return desk_of(request), found["topic"], found["subscription"], found["act"]


_ACT = "/topics/{topic}/subscriptions/{subscription}/{act:retry|verify|skip|pause|resume}"
ROUTES = (
    web.get(_ACT, preview),
    web.post(_ACT, change),
    web.get("/topics/{topic}/push", preview_push),
    web.post("/topics/{topic}/push", push),
)
