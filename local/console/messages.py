"""The page of a message: its deliveries, and why a subscription did or did not receive it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from tagcast_client.models import Entry, Message

from local.console.cached_list import none_if_missing, part_of
from local.console.desk import Desk, desk_of
from local.console.lanes import history_in
from local.console.rendering import state_words
from local.console.topics import TEXT_ATTRIBUTES
from local.console.verdicts import lines

SUBSCRIPTIONS_SHOWN = 100
BODY_SHOWN = 20_000
STATES = ("discarded", "expired", "blocked", "pending", "cancelled", "filtered", "delivered")
"""The states of a delivery, the most interesting first."""
NOT_FOR_IT = "not for it"


@dataclass(frozen=True)
class DeliveryRow:
    """A message's delivery to one subscription. If the subscription's filter did not match, *entry* is None.

    *after_s* is the time from acceptance to the last attempt; None without an attempt. *lane* is the state of a lane
    that is not active; empty for an active lane.
    """

    name: str
    entry: Entry | None
    after_s: float | None
    lane: str = ""

    @property
    def state(self) -> str:
        """The state of the delivery, or `NOT_FOR_IT` without an entry. Deliveries are counted by this state."""
        return NOT_FOR_IT if self.entry is None else self.entry.state

    @property
    def word(self) -> str:
        """The state that the page shows. For a delivery in a backlog this is the state of the lane."""
        return self.lane if self.lane and self.state == "blocked" else self.state


def delivery_rows(message: Message, names: list[str], lanes: Mapping[str, str] | None = None) -> list[DeliveryRow]:
    """Return the deliveries of *message*, failures first, then the subscriptions in *names* that have no delivery.

    *lanes* maps subscriptions to the states of lanes that are not active. If only a part of a wide message's state map
    was read, the result has no subscriptions without a delivery.
    """
    states = lanes or {}
    found = [
        DeliveryRow(name, entry, _after_s(message, entry), states.get(name, ""))
        for name, entry in message.subscribers.items()
    ]
    found.sort(key=lambda row: (_rank(row.state), row.name))
    others = [] if message.next_cursor else [name for name in names if name not in message.subscribers]
    return found + [DeliveryRow(name, None, None) for name in others]


def _rank(state: str) -> int:
    return STATES.index(state) if state in STATES else len(STATES)


def _after_s(message: Message, entry: Entry) -> float | None:
    return None if entry.last_attempt_at is None else (entry.last_attempt_at - message.accepted_at).total_seconds()


async def message(request: web.Request) -> web.Response:
    """Show a message or its receipt. With ``?why=NAME`` in the query, explain its delivery to this subscription."""
    desk, topic, message_id = desk_of(request), request.match_info["topic"], request.match_info["message_id"]
    query = request.query
    name, state, cursor = (query.get(field, "").strip() for field in ("why", "state", "behind"))
    found, names, lanes = await asyncio.gather(
        _message(desk, topic, message_id, state, cursor), _names(desk, topic), desk.lanes.look_if_possible()
    )
    why = await none_if_missing(desk.api.explain(topic, message_id, name)) if name else None
    all_rows = delivery_rows(found, names, {lane.subscription: lane.state for lane in lanes if lane.topic == topic})
    others = sum(row.entry is None for row in all_rows)
    counts = {**found.counts, **({NOT_FOR_IT: others} if others else {})}
    page = query.get("page", "")
    parameters = {key: value for key, value in (("why", name), ("state", state), ("behind", cursor)) if value}
    shown = {key: value for key, value in (("state", state), ("behind", cursor), ("page", page)) if value}
    return desk.page(
        "message.html",
        texts=TEXT_ATTRIBUTES,
        message=found,
        counts=sorted(counts.items(), key=lambda each: _rank(each[0])),
        state=state,
        part=part_of([row for row in all_rows if state in ("", row.state)], page, SUBSCRIPTIONS_SHOWN),
        shown=shown,
        page_query=lambda number: urlencode({**parameters, "page": number}),
        behind=urlencode({**parameters, "behind": found.next_cursor}) if found.next_cursor else "",
        longest_s=max((row.after_s or 0.0 for row in all_rows), default=0.0),
        body=body_text(found),
        body_shown=BODY_SHOWN,
        name=name,
        why=why,
        answer=answer_of(why) if why else "",
        lane_state=next((row.word for row in all_rows if row.name == name), ""),
        history=history_in(why) if why else [],
        tree=lines(why["filter"]["explanation"]) if why and why.get("filter") else [],
    )


async def _message(desk: Desk, topic: str, message_id: str, state: str, cursor: str) -> Message:
    """Return a message with the displayed entries, the counts of all entries, and a cursor for further entries.

    For a wide message the displayed entries are the first page and the failing entries, or entries in one *state*.
    """
    found = await desk.api.get_message(topic, message_id)
    if found.next_cursor is None or state == NOT_FOR_IT:
        return found
    if state or cursor:
        only: Any = state or None
        part = await desk.api.get_message(topic, message_id, only=only, cursor=cursor or None)
        return replace(found, subscribers=part.subscribers, next_cursor=part.next_cursor)
    failing = await desk.api.get_message(topic, message_id, only="failing")
    return replace(found, subscribers={**failing.subscribers, **found.subscribers})


def answer_of(why: Mapping[str, Any]) -> str:
    """Return the reason in *why*, the API's explanation of a delivery, with the lane's state if the delivery waits.

    >>> answer_of({"reason": "its filter matched; the delivery is blocked (http 500)",
    ...     "delivery": {"state": "blocked", "lane": "lost_contact"}})
    'its filter matched; the delivery waits, because its lane lost contact (http 500)'
    """
    reason, delivery = str(why["reason"]), why.get("delivery") or {}
    lane = str(delivery.get("lane", ""))
    if delivery.get("state") != "blocked" or lane in ("", "blocked"):
        return reason
    return reason.replace("the delivery is blocked", f"the delivery waits, because its lane {state_words(lane)}")


async def _names(desk: Desk, topic: str) -> list[str]:
    page = await none_if_missing(desk.api.list_subscriptions(topic, limit=SUBSCRIPTIONS_SHOWN).page())
    return [each.name for each in page.items] if page else []


def body_text(message: Message) -> str | None:
    """Return the body of a message as text; None if it is deleted. A binary body is shown in hexadecimal, shortened."""
    if message.body is None:
        return None
    try:
        return message.text()
    except UnicodeDecodeError:
        return message.body[: BODY_SHOWN // 3].hex(" ", -4)


ROUTES = (web.get("/topics/{topic}/messages/{message_id:[0-9]{20}}", message),)
