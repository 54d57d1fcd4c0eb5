"""The history of a topic: its messages of the last days, with the states of their deliveries."""

from __future__ import annotations

from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.instant import parse, rfc3339_or_none
from tagcast.model import EntryState
from tagcast.operating.history import HISTORY_S_MAX, HistoryFilter, read_history
from tagcast.operating.messages import MessageState
from tagcast.ports import World
from tagcast.registry.subscriptions import get_subscription
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import DELIVERY_STATES, Instant
from tagcast_aws.api.http.paging import PAGING, encode_cursor, encoded_size
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.limits import NAME, PAGE_BYTES_MAX
from tagcast_aws.api.messages import MessageAnswer, show_without_body

DAY_S = 86_400


class HistoryAnswer(TypedDict):
    """One page of a history, newest messages first. A page before the last may be short or empty.

    ``archived_until`` is the time at which the newest archived message was accepted; null: nothing is archived. The
    history shows younger messages only if they have pending deliveries.
    """

    messages: list[MessageAnswer]
    next_cursor: str | None
    archived_until: Instant | None


def answer_history(world: World, request: Request[None]) -> Answer:
    """Answer with a page of the messages since a given instant, by default of the last day."""
    faults: list[Fault] = []
    now, name = world.clock.now(), request.word("subscription", NAME, faults)
    since, state = _since(request, now, faults), request.choice("state", DELIVERY_STATES, faults)
    named = _property(request, faults)
    limit, cursor = request.page()
    if faults:
        raise InvalidRequestError(tuple(faults))
    wanted = HistoryFilter(
        since=since,
        tag=request.query.get("tag"),
        property=named,
        subscription=None if name is None else get_subscription(world, request.topic, name),
        state=_state(state),
    )
    found = read_history(
        world, request.topic, wanted, limit, cursor,
        size=lambda view: encoded_size(show_without_body(view)), size_max=PAGE_BYTES_MAX,
    )  # fmt: skip
    answer: HistoryAnswer = {
        "messages": [],
        "next_cursor": encode_cursor(found.cursor),
        "archived_until": rfc3339_or_none(found.archive_until),
    }
    for view in found.messages:
        counts = {each.value: view.counts[each] for each in EntryState if view.counts and view.counts.get(each)}
        answer["messages"].append({**show_without_body(view), "counts": counts})
    return Answer(200, dict(answer))


def _since(request: Request[None], now: int, faults: list[Fault]) -> int:
    text, earliest = request.query.get("since"), now - HISTORY_S_MAX * 1000
    if text is None:
        return now - DAY_S * 1000
    try:
        return max(parse(text), earliest)
    except ValueError:
        faults.append(Fault("must be an instant such as 2026-01-31T12:00:00Z", "/since", FaultCode.WRONG_FORMAT))
        return now


def _state(word: str | None) -> EntryState | MessageState | None:
    if word is None:
        return None
    return MessageState.UNMATCHED if word == MessageState.UNMATCHED else EntryState(word)


def _property(request: Request[None], faults: list[Fault]) -> tuple[str, str] | None:
    text = request.query.get("property")
    if text is None:
        return None
    name, is_given, value = text.partition("=")
    if not (name and is_given):
        faults.append(Fault("must be name=value", "/property", FaultCode.WRONG_FORMAT))
    return name, value


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/history",
        answer_history,
        "List the messages of the last day",
        {200: HistoryAnswer},
        query=(*PAGING, "since", "tag", "property", "subscription", "state"),
    ),
)
