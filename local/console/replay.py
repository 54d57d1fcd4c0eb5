"""Replays one message to one subscription. If the body is no longer stored, it is read from the archive."""

from __future__ import annotations

import asyncio
import uuid

from aiohttp import web
from tagcast_cli.content import as_published
from tagcast_cli.job_run import JobError
from tagcast_client import Accepted, ArchivedMessage, NewMessage
from tagcast_client.models import Message, Subscription
from tagcast_client.operation import idempotency

from local.console.acts import Preview
from local.console.desk import Desk, desk_of, form_fields
from local.console.forms import read_field
from local.console.rendering import message_path, state_words, word


async def preview(request: web.Request) -> web.Response:
    """Show the preview of a replay. If the message cannot be replayed, the preview says why."""
    desk, topic, message_id, name = _parse_request(request)
    found, subscription = await asyncio.gather(
        desk.api.get_message(topic, message_id), desk.api.get_subscription(topic, name)
    )
    message, source = await _content(desk, found)
    back = f"{message_path(topic, message_id)}?why={name}"
    title = f"Replay {message_id} to {name}"
    if message is None:
        return desk.page("confirm.html", preview=Preview(title, (), "Replay", back, stop=source))
    verdict = (await desk.api.test_filter(NewMessage.like(message, message.body), filter=subscription.filter)).verdict
    stop = None if verdict == "matched" else f"The filter of {name} does not match this message now."
    sentences = (
        f"A copy is published to {name} only, as a new message with its own id and retention.",
        source,
        _last_time(found, name),
        f"Each push names {message_id} as the original. Other subscriptions do not get it.",
        _waits(subscription),
    )
    return desk.page(
        "confirm.html",
        preview=Preview(
            title,
            tuple(filter(None, sentences)),
            "Replay",
            back,
            {"to": name, "once": str(uuid.uuid4())},
            stop=stop,
        ),
    )


def _last_time(found: Message, name: str) -> str:
    entry = found.subscribers.get(name)
    if entry is None:
        return f"{name} had no delivery of this message before."
    outcome = f" ({entry.last_outcome})" if entry.last_outcome else ""
    return f"Earlier delivery to {name}: {word(entry.state)}{outcome}."


def _waits(subscription: Subscription) -> str:
    lane = subscription.lane
    if lane is None or lane.state == "active":
        return ""
    return f"The lane {state_words(lane.state)} with a backlog of {lane.backlog}. The new message waits behind it."


async def _content(desk: Desk, found: Message) -> tuple[NewMessage | None, str]:
    """Return the message as published, and the source of its body. Without a body, return None and the reason."""
    if found.body is not None:
        return NewMessage.like(found, as_published(found.body)), "The body is still retained."
    try:
        archived = await asyncio.to_thread(desk.jobs.runner.message, found.topic, found.message_id)
    except JobError as fault:
        return None, f"The body is deleted, and the archive is not readable here: {fault}."
    if archived is None:
        return None, "The body is deleted, and the archive does not have it (yet)."
    return archived, "The body comes from the archive."


async def send(request: web.Request) -> web.Response:
    """Replay the message, and redirect to the new message. Submitting the same form again replays nothing."""
    desk, topic, message_id, _ = _parse_request(request)
    fields = await form_fields(request)
    name, once = fields.get("to", ""), read_field(fields, "once", idempotency)
    message, source = await _content(desk, await desk.api.get_message(topic, message_id))
    if message is None:
        preview = Preview("Replay", (), "Replay", message_path(topic, message_id), stop=source)
        return desk.page("confirm.html", 409, preview=preview)
    archived = [ArchivedMessage(message_id, message)]
    [result] = await desk.api.replay(topic, name, archived, idempotency_key=once)
    if not isinstance(result, Accepted):
        detail = str(result.error.get("detail", result.error))
        return desk.page("fault.html", 422, title="Replay refused", detail=detail, faults=())
    raise web.HTTPSeeOther(f"{message_path(topic, result.message_id)}?why={name}")


def _parse_request(request: web.Request) -> tuple[Desk, str, str, str]:
    found = request.match_info
    return desk_of(request), found["topic"], found["message_id"], request.query.get("to", "").strip()


_AGAIN = "/topics/{topic}/messages/{message_id:[0-9]{20}}/again"
ROUTES = (web.get(_AGAIN, preview), web.post(_AGAIN, send))
