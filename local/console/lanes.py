"""The page of a lane: its head, its backlog, and its next attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from tagcast.ids import accepted_at_of
from tagcast_client import NotFoundError
from tagcast_client.decoding import decode
from tagcast_client.models import Attempt, Delivery, Subscription

from local.console.desk import Desk, desk_of
from local.console.rendering import lane_path
from local.console.schedule import NextAttempts, Timeline, plan_attempts, policy_of

BACKLOG_SHOWN = 50
DONE = {
    "retry": "The head is attempted now.",
    "verify": "The endpoint is verified. Its backlog is pushed now.",
    "skip": "The head is skipped.",
    "pause": "The subscription is paused.",
    "resume": "The subscription is resumed.",
    "saved": "The filter is updated.",
    "promoted": "The shadow is now the active filter.",
    "ended": "The shadow is deleted.",
    "made": "The subscription is created.",
    "changed": "The subscription is updated.",
}
PENDING = "unverified"
ACTS = {
    "blocked": ("retry", "skip", "pause"),
    "lost_contact": ("retry", "skip", "pause"),
    "retrying": ("retry", "skip", "pause"),
    "active": ("pause",),
    PENDING: ("verify", "skip", "pause"),
}
ASLEEP = ("resume", "skip")


async def lane(request: web.Request) -> web.Response:
    """Show a lane."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    cursor = request.query.get("backlog")
    subscription, backlog = await asyncio.gather(
        desk.api.get_subscription(topic, name),
        desk.api.list_backlog(topic, name, limit=BACKLOG_SHOWN).page(cursor),
    )
    members = await desk.api.list_members(topic, name) if subscription.endpoint["protocol"] == "pull" else None
    head = backlog.items[0] if backlog.items and cursor is None else None
    history = [] if head is None else await _history(desk, topic, name, head.message_id)
    return desk.page(
        "lane.html",
        subscription=subscription,
        lane=subscription.lane,
        acts=acts_of(subscription),
        members=members,
        backlog=backlog,
        is_first_page=cursor is None,
        head=head,
        history=history,
        time=None if head is None else timeline(desk, subscription, head, history),
        done=DONE.get(request.query.get("done", "")),
        done_at=instant_of(request.query.get("at", "")),
    )


def instant_of(said: str) -> datetime:
    """Return the time of an action, in seconds, from the query of a page's address; by default now.

    >>> instant_of("1790000000").year
    2026
    """
    return datetime.fromtimestamp(int(said), UTC) if said.isascii() and said.isdigit() and len(said) < 11 else _now()


def _now() -> datetime:
    return datetime.now(UTC)


async def _history(desk: Desk, topic: str, name: str, message_id: str) -> list[Attempt]:
    """Return the remembered attempts of the head, or no attempts if the head is gone."""
    try:
        return history_in(await desk.api.explain(topic, message_id, name))
    except NotFoundError:
        return []


def history_in(why: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts in an explanation, oldest first."""
    return [decode(Attempt, each) for each in (why.get("delivery") or {}).get("history", ())]


def acts_of(subscription: Subscription) -> tuple[str, ...]:
    """Return the actions that apply to a lane in its state."""
    lane = subscription.lane
    if lane is None:
        return ()
    acts = ACTS.get(lane.state, ASLEEP)
    if subscription.state == PENDING and "verify" not in acts:
        acts = ("verify", *acts)
    return acts if lane.backlog else tuple(act for act in acts if act not in ("skip", "retry"))


def command_of(act: str, topic: str, name: str, message_id: str = "") -> str:
    """Return the command equivalent to an action; a skip names the message.

    >>> command_of("pause", "orders", "billing", "7"), command_of("skip", "orders", "billing", "7")
    ('tagcast pause orders billing', "tagcast skip orders billing --message 7 --reason '…'")
    """
    return f"tagcast {act} {topic} {name}" + (f" --message {message_id} --reason '…'" if act == "skip" else "")


def timeline(desk: Desk, subscription: Subscription, head: Delivery, history: list[Attempt]) -> dict[str, Any]:
    """Return the head's timeline: acceptance, remembered attempts, planned attempts, and expiry."""
    now = _now()
    accepted_at = datetime.fromtimestamp(accepted_at_of(head.message_id) / 1000, UTC)
    line = Timeline(accepted_at, head.expires_at)
    plan = NextAttempts((), spent=False)
    if head.next_attempt_at is not None and subscription.state != PENDING:
        policy = policy_of(subscription.retry)
        plan = plan_attempts(policy, head.attempts, head.next_attempt_at, head.expires_at, desk.time_scale)
    tried = [each.ended_at for each in history] or [each for each in (head.last_attempt_at,) if each is not None]
    return {
        "accepted_at": accepted_at,
        "line": line,
        "now": line.at(now),
        "tried": [line.at(each) for each in tried],
        "planned": [line.at(each) for each in plan.attempts],
        "plan": plan,
    }


def lane_page(topic: str, name: str, done: str) -> str:
    """Return the address of a lane's page with a note about a finished action."""
    return f"{lane_path(topic, name)}?done={done}&at={_now().timestamp():.0f}"


ROUTES = (web.get("/topics/{topic}/subscriptions/{subscription}", lane),)
