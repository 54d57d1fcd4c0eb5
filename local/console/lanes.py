"""The page of a lane: its head, its backlog, and its next attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from tagcast.ids import accepted_at_of
from tagcast.model import RetryPolicy, Strategy
from tagcast.pushing.retry_delay import BACKOFF_INTERVAL_S_RANGE, delay_s
from tagcast.subscription_settings import DECAY_INTERVAL_S_MAX, RETRIES_FOR_LIFE
from tagcast_cli.push_options import LIFE
from tagcast_client.decoding import decode
from tagcast_client.models import Attempt, Delivery, Subscription

from local.console.cached_list import none_if_missing
from local.console.desk import Desk, desk_of
from local.console.rendering import lane_path

PLANNED_SHOWN = 60
MEAN_S = sum(BACKOFF_INTERVAL_S_RANGE) / 2
STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600)
TICKS_MAX = 5
"""At most 5 ticks fit on a phone, each with a time of day."""


@dataclass(frozen=True)
class NextAttempts:
    """The times of the next attempts, if each attempt fails.

    *spent* is True if the retries end before the message expires. *more* is True if attempts follow the listed ones.
    """

    attempts: tuple[datetime, ...]
    spent: bool
    more: bool = False


def policy_of(retry: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy with the settings *retry*, as the API returns them."""
    return RetryPolicy(
        Strategy(retry["strategy"]),
        RETRIES_FOR_LIFE if retry["max_retries"] == LIFE else int(retry["max_retries"]),
        retry.get("interval_seconds"),
        int(retry.get("max_interval_seconds", DECAY_INTERVAL_S_MAX)),
    )


def plan_attempts(
    policy: RetryPolicy, attempts: int, first: datetime, expires_at: datetime, time_scale: float = 1.0
) -> NextAttempts:
    """Return the attempts from *first* on, if each fails immediately. *attempts* is the number of earlier attempts.

    The stack makes waits *time_scale* times shorter.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> plan = plan_attempts(RetryPolicy(Strategy.BACKOFF_RETRY, 3, 15), 2, noon, noon + timedelta(hours=1))
    >>> [each.second for each in plan.attempts], plan.spent
    ([0, 15], True)
    """
    instants: list[datetime] = []
    at = first
    while at < expires_at and len(instants) < PLANNED_SHOWN:
        instants.append(at)
        wait_s = delay_s(policy, attempts + len(instants), MEAN_S)
        if wait_s is None:
            return NextAttempts(tuple(instants), spent=True)
        at += timedelta(seconds=wait_s / time_scale)
    return NextAttempts(tuple(instants), spent=False, more=at < expires_at)


@dataclass(frozen=True)
class Tick:
    """A tick of a timeline: its position in percent, and the time of day (UTC) as its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """A linear timeline from *begins* to *ends*, for a page."""

    begins: datetime
    ends: datetime

    def at(self, instant: datetime) -> float:
        """Return the position of *instant* in percent. Before the timeline it is 0, after the timeline 100.

        >>> from datetime import UTC
        >>> noon, hour = datetime(2026, 5, 1, 12, tzinfo=UTC), timedelta(hours=1)
        >>> line = Timeline(noon, noon + 4 * hour)
        >>> [line.at(noon + n * hour) for n in (-1, 0, 1, 4, 9)]
        [0.0, 0.0, 25.0, 100.0, 100.0]
        """
        whole = self.ends - self.begins
        part = (instant - self.begins) / whole if whole > timedelta() else 1.0
        return round(100 * min(1.0, max(0.0, part)), 2)

    @property
    def ticks(self) -> list[Tick]:
        """A few ticks at round times of day.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 5, 1, 12, 10, tzinfo=UTC)
        >>> [(tick.at, tick.label) for tick in Timeline(noon, noon + timedelta(hours=20)).ticks]
        [(19.17, '16:00'), (39.17, '20:00'), (59.17, '00:00'), (79.17, '04:00'), (99.17, '08:00')]
        """
        whole_s = (self.ends - self.begins).total_seconds()
        step_s = next((step for step in STEPS_S if whole_s / step <= TICKS_MAX), STEPS_S[-1])
        shape = "%H:%M" if step_s >= 60 else "%H:%M:%S"
        first_s = (int(self.begins.timestamp()) // step_s + 1) * step_s
        instants = [datetime.fromtimestamp(first_s + n * step_s, UTC) for n in range(TICKS_MAX + 1)]
        return [Tick(self.at(each), each.strftime(shape)) for each in instants if each < self.ends]


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
UNVERIFIED = "unverified"
ACTS = {
    "blocked": ("retry", "skip", "pause"),
    "lost_contact": ("retry", "skip", "pause"),
    "retrying": ("retry", "skip", "pause"),
    "active": ("pause",),
    UNVERIFIED: ("verify", "skip", "pause"),
}
ASLEEP = ("resume", "skip")


async def lane(request: web.Request) -> web.Response:
    """Show the page of a lane."""
    desk, topic, name = desk_of(request), request.match_info["topic"], request.match_info["subscription"]
    cursor = request.query.get("backlog")
    subscription, backlog = await asyncio.gather(
        desk.api.get_subscription(topic, name),
        desk.api.list_backlog(topic, name, limit=BACKLOG_SHOWN).page(cursor),
    )
    members = await desk.api.list_members(topic, name) if subscription.endpoint["protocol"] == "pull" else None
    head = backlog.items[0] if backlog.items and cursor is None else None
    why = None if head is None else await none_if_missing(desk.api.explain(topic, head.message_id, name))
    history = history_in(why or {})
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


def instant_of(text: str) -> datetime:
    """Return the instant *text*, in seconds since 1970. If *text* is not such a number, return now.

    >>> instant_of("1790000000").year
    2026
    """
    is_number = text.isascii() and text.isdigit() and len(text) < 11
    return datetime.fromtimestamp(int(text), UTC) if is_number else datetime.now(UTC)


def history_in(why: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts of a delivery, oldest first. *why* is the API's explanation of this delivery."""
    return [decode(Attempt, each) for each in (why.get("delivery") or {}).get("history", ())]


def acts_of(subscription: Subscription) -> tuple[str, ...]:
    """Return the actions that apply to a lane in its state."""
    lane = subscription.lane
    if lane is None:
        return ()
    acts = ACTS.get(lane.state, ASLEEP)
    if subscription.state == UNVERIFIED and "verify" not in acts:
        acts = ("verify", *acts)
    return acts if lane.backlog else tuple(act for act in acts if act not in ("skip", "retry"))


def command_of(act: str, topic: str, name: str, message_id: str = "") -> str:
    """Return the command line equivalent to an action on a lane. For a skip, *message_id* is the message to skip.

    >>> command_of("pause", "orders", "billing", "7"), command_of("skip", "orders", "billing", "7")
    ('tagcast pause orders billing', "tagcast skip orders billing --message 7 --reason '…'")
    """
    return f"tagcast {act} {topic} {name}" + (f" --message {message_id} --reason '…'" if act == "skip" else "")


def timeline(desk: Desk, subscription: Subscription, head: Delivery, history: list[Attempt]) -> dict[str, Any]:
    """Return the template variables of the head's timeline: acceptance, earlier and planned attempts, and expiry."""
    now = datetime.now(UTC)
    accepted_at = datetime.fromtimestamp(accepted_at_of(head.message_id) / 1000, UTC)
    line = Timeline(accepted_at, head.expires_at)
    plan = NextAttempts((), spent=False)
    if head.next_attempt_at is not None and subscription.state != UNVERIFIED:
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
    """Return the address of a lane's page that reports the finished action *done*."""
    return f"{lane_path(topic, name)}?done={done}&at={datetime.now(UTC).timestamp():.0f}"


ROUTES = (web.get("/topics/{topic}/subscriptions/{subscription}", lane),)
