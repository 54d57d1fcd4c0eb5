"""Messages and their receipts: the deliveries to each subscription, explanations, and the history of a topic."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from functools import partial
from typing import Annotated, Any, NotRequired, cast

from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.instant import parse, rfc3339, rfc3339_or_none
from tagcast.model import Entry, EntryState
from tagcast.operating.explaining import explain
from tagcast.operating.history import HISTORY_S_MAX, HistoryFilter, read_history
from tagcast.operating.messages import (
    FAILING,
    MessageState,
    MessageView,
    attempt_json,
    find_message,
    list_attempts,
    list_retained,
    message_view,
)
from tagcast.ports import World
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.codec import dense
from tagcast.setting import declared_json
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import DELIVERY_STATES, AnyEntryState, Instant, one_of
from tagcast_aws.api.http.authorization import may_act_on
from tagcast_aws.api.http.paging import PAGING, encode_cursor, encoded_size, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.http.webhooks import ShownAttributes
from tagcast_aws.api.limits import ENTRY_NAME, NAME, PAGE_BYTES_MAX

ONLY: Mapping[str, Collection[EntryState]] = {"failing": FAILING} | {each.value: (each,) for each in EntryState}
"""The values of the query parameter *only*, each with the states of the deliveries that it selects."""


class EntryAnswer(TypedDict):
    """The delivery of a message to one subscription. ``filter_version`` is the version of the filter that matched.

    Only a late entry has ``added_at``, the time at which it was added for a new group.
    """

    state: AnyEntryState
    attempts: int
    last_attempt_at: NotRequired[Instant]
    last_outcome: NotRequired[str]
    filter_version: NotRequired[int]
    added_at: NotRequired[Instant]


class MessageAnswer(ShownAttributes):
    """A message or its receipt, with its deliveries. The body is text, base64, or null after its deletion.

    A message with more than 1,000 subscriptions shows one page of deliveries, failing deliveries first. ``next_cursor``
    leads to the next page. The first page has ``counts`` of all deliveries by state. In a list, a message has
    ``body_bytes`` instead of its body. The list of retained messages has bodies on request, and no counts.
    ``filter_errors`` are the first subscriptions whose filters failed on the message, ``filter_error_count`` their
    number.
    """

    body: NotRequired[str | None]
    body_base64: NotRequired[str]
    body_bytes: NotRequired[int]

    message_id: str
    topic: str
    state: Annotated[str, one_of(MessageState)]
    accepted_at: Instant
    expires_at: Instant
    subscribers: dict[str, EntryAnswer]
    traceparent: NotRequired[str]
    tracestate: NotRequired[str]
    replay_of: NotRequired[str]
    filter_errors: NotRequired[list[str]]
    filter_error_count: NotRequired[int]
    counts: NotRequired[dict[str, int]]
    next_cursor: NotRequired[str]


class MessagesAnswer(TypedDict):
    """One page of retained messages, oldest first. ``next_cursor`` is null on the last page."""

    messages: list[MessageAnswer]
    next_cursor: str | None


class AttemptAnswer(TypedDict):
    """One attempt: its number, its end, its duration in milliseconds, and its outcome.

    ``response`` is the beginning of the receiver's response, without secrets. Unprintable characters are escaped.
    """

    attempt: int
    ended_at: Instant
    took_ms: int
    outcome: str
    status: NotRequired[int]
    response: NotRequired[str]


class AttemptedAnswer(TypedDict):
    """One delivery. ``attempts`` is the number of its attempts, and ``history`` has the last of them."""

    subscription: str
    state: AnyEntryState
    attempts: int
    history: list[AttemptAnswer]


class AttemptsAnswer(TypedDict):
    """One page of a message's attempted deliveries that are pending or failed, sorted by subscription.

    ``next_cursor`` is null on the last page.
    """

    deliveries: list[AttemptedAnswer]
    next_cursor: str | None


def show_message(value: MessageView) -> MessageAnswer:
    """Return the answer with a message or its receipt, and its deliveries."""
    answer = _receipt(value)
    if value.body is None:
        answer["body"] = None
    elif value.message.draft.is_text:
        answer["body"] = value.body.decode()
    else:
        answer["body_base64"] = base64.b64encode(value.body).decode()
    return answer


def show_without_body(value: MessageView) -> MessageAnswer:
    """Return a message as lists show it, with the size of its body instead of the body."""
    answer = _receipt(value)
    if value.body is not None:
        answer["body_bytes"] = len(value.body)
    return answer


def _receipt(value: MessageView) -> MessageAnswer:
    sent = value.message
    answer: MessageAnswer = {
        "message_id": sent.message_id,
        "topic": sent.topic,
        "state": value.state,
        "accepted_at": rfc3339(sent.accepted_at),
        "expires_at": rfc3339(sent.expires_at),
        **declared_json(sent.draft),  # type: ignore[typeddict-item]
        "subscribers": {name: _entry(entry) for name, entry in value.subscribers.items()},
    }
    answer["traceparent"] = sent.trace.parent
    if sent.trace.state:
        answer["tracestate"] = sent.trace.state
    if sent.replay_of is not None:
        answer["replay_of"] = sent.replay_of
    if value.filter_error_count:
        answer["filter_errors"] = list(value.filter_errors)
        answer["filter_error_count"] = value.filter_error_count
    return answer


def _entry(value: Entry) -> EntryAnswer:
    answer = {
        "state": value.state.value,
        "attempts": value.attempts,
        "last_attempt_at": rfc3339_or_none(value.last_attempt_at),
        "last_outcome": value.last_outcome,
        "filter_version": value.filter_version,
        "added_at": rfc3339_or_none(value.added_at),
    }
    return cast("EntryAnswer", dense(answer))


def answer_retained(world: World, request: Request[None]) -> Answer:
    """List the retained messages."""
    limit, cursor = request.page("[0-9]{20}(#[0-9]{5})?")
    show = show_message if request.flag("bodies") else show_without_body
    found = list_retained(
        world, request.topic, limit, cursor, size=lambda view: encoded_size(show(view)), size_max=PAGE_BYTES_MAX
    )
    shown = [show(item) for item in found.items]
    return Answer(200, page("messages", shown, encode_cursor(found.cursor)))


def answer_message(world: World, request: Request[None]) -> Answer:
    """Get a message or its receipt."""
    return _message(world, request, request.topic)


def find(world: World, request: Request[None]) -> Answer:
    """Find a message by its id in all topics."""
    topic = find_message(world, request.path["message_id"], partial(may_act_on, request.rights))
    return _message(world, request, topic)


def _message(world: World, request: Request[None], topic: str) -> Answer:
    faults: list[Fault] = []
    (_, section), only = request.page("[0-9]{1,5}"), request.choice("only", tuple(ONLY), faults)
    if faults:
        raise InvalidRequestError(tuple(faults))
    found = message_view(world, topic, request.path["message_id"], int(section or 0), ONLY[only] if only else ())
    answer = show_message(found)
    if found.counts is not None:
        answer["counts"] = {state.value: found.counts[state] for state in EntryState if found.counts.get(state)}
    if found.next_section is not None:
        answer["next_cursor"] = encode_cursor(str(found.next_section)) or ""
    return Answer(200, answer)


def answer_attempts(world: World, request: Request[None]) -> Answer:
    """List the last attempts of a message's deliveries."""
    limit, cursor = request.page()
    found = list_attempts(world, request.topic, request.path["message_id"], limit, cursor)
    shown = [
        {
            "subscription": name,
            "state": entry.state.value,
            "attempts": entry.attempts,
            "history": [attempt_json(past) for past in entry.history],
        }
        for name, entry in found.items
    ]
    return Answer(200, page("deliveries", shown, encode_cursor(found.cursor)))


def answer_explanation(world: World, request: Request[None]) -> Answer:
    """Explain why a subscription did or did not receive a message."""
    faults: list[Fault] = []
    subscription = request.word("subscription", ENTRY_NAME, faults)
    if subscription is None:
        faults.append(Fault("names a subscription or an entry", "/subscription", FaultCode.REQUIRED))
    if subscription is None or faults:
        raise InvalidRequestError(tuple(faults))
    return Answer(200, dict(explain(world, request.topic, request.path["message_id"], subscription)))


DAY_S = 86_400


class HistoryAnswer(TypedDict):
    """One page of a history, newest messages first. A page before the last may be short or empty.

    ``archived_until`` is the time at which the newest archived message was accepted. It is null if the archive has no
    file of the last three days. The history shows a message accepted later only if it has a pending delivery.
    """

    messages: list[MessageAnswer]
    next_cursor: str | None
    archived_until: Instant | None


def answer_history(world: World, request: Request[None]) -> Answer:
    """List the messages of the last day, or since a given time."""
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


_ALL = "/topics/{topic}/messages"
_ONE = f"{_ALL}/{{message_id}}"
_HISTORY = "/topics/{topic}/history"
_SHOWN, _EXPLAINED = {200: MessageAnswer}, {200: dict[str, Any]}
_SECTION, _NAME = ("cursor", "only"), ("subscription",)
_WANTED = (*PAGING, "since", "tag", "property", "subscription", "state")

ROUTES = (
    Route("list_messages", "messages", "GET", _ALL, answer_retained, {200: MessagesAnswer}, query=(*PAGING, "bodies")),
    Route("get_message", "messages", "GET", _ONE, answer_message, _SHOWN, query=_SECTION),
    Route(
        "find_message", "messages", "GET", "/messages/{message_id}", find, _SHOWN, query=_SECTION, names_no_topic=True
    ),
    Route("list_attempts", "messages", "GET", f"{_ONE}/attempts", answer_attempts, {200: AttemptsAnswer}, query=PAGING),
    Route("explain", "messages", "GET", f"{_ONE}/explain", answer_explanation, _EXPLAINED, query=_NAME, required=_NAME),
    Route("read_history", "messages", "GET", _HISTORY, answer_history, {200: HistoryAnswer}, query=_WANTED),
)
