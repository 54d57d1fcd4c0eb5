"""Messages and their receipts, with what became of them at each subscription, and why."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.instant import rfc3339
from tagcast.model import Draft, Entry, EntryState
from tagcast.operating.explaining import explain
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
from tagcast.setting import declared_json
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import AnyEntryState, Instant, one_of
from tagcast_aws.api.http.authorization import covers
from tagcast_aws.api.http.declared import answer_base
from tagcast_aws.api.http.paging import PAGING, encode_cursor, page
from tagcast_aws.api.http.requests import Request, required_name
from tagcast_aws.api.http.routing import Answer, Route, encoded_size
from tagcast_aws.api.limits import PAGE_BYTES_MAX

SECTION_DIGITS_MAX = 5
ONLY: Mapping[str, Collection[EntryState]] = {"failing": FAILING} | {each.value: (each,) for each in EntryState}
"""Which entries of a message may be asked for alone."""


class EntryAnswer(TypedDict):
    """One entry of a state map."""

    state: AnyEntryState
    attempts: int
    last_attempt_at: NotRequired[Instant]
    last_outcome: NotRequired[str]
    filter_version: NotRequired[int]
    added_at: NotRequired[Instant]


if TYPE_CHECKING:

    class _Shown(TypedDict):
        pass
else:
    _Shown = answer_base(Draft)


class MessageAnswer(_Shown):
    """A message or its receipt, with its state map; its body is text, base64, or null once it is gone.

    One that matched more than a thousand is shown with some of its entries, and ``next_cursor`` while there are more.
    Those that fail stand first. ``counts`` are of all its entries, by their states: the first page has them. Lists have
    ``body_bytes`` instead of bodies, unless those were asked for, and no counts.
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
    """One page of retained messages, oldest first."""

    messages: list[MessageAnswer]
    next_cursor: str | None


class AttemptAnswer(TypedDict):
    """One attempt: its number, when it ended, how many milliseconds it took, and what came of it.

    ``response`` is what the receiver said: its beginning, with control characters made visible, without secrets.
    """

    attempt: int
    ended_at: Instant
    took_ms: int
    outcome: str
    status: NotRequired[int]
    response: NotRequired[str]


class AttemptedAnswer(TypedDict):
    """One delivery with the last of its attempts."""

    subscription: str
    state: AnyEntryState
    attempts: int
    history: list[AttemptAnswer]


class AttemptsAnswer(TypedDict):
    """One page of the deliveries of a message that are owed after an attempt, or failed, by their subscriptions."""

    deliveries: list[AttemptedAnswer]
    next_cursor: str | None


def message(value: MessageView) -> MessageAnswer:
    """Return the message or its receipt, with the state map."""
    answer = _receipt(value)
    if value.body is None:
        answer["body"] = None
    elif value.message.draft.is_text:
        answer["body"] = value.body.decode()
    else:
        answer["body_base64"] = base64.b64encode(value.body).decode()
    return answer


def message_without_body(value: MessageView) -> MessageAnswer:
    """Return the message as a list shows it: how large its body is, instead of the body."""
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


def _section(cursor: str | None) -> int:
    """Return which entries of a wide message a cursor asks for."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > SECTION_DIGITS_MAX:
        raise InvalidRequestError((Fault("is not a cursor of this message", "/cursor", FaultCode.WRONG_FORMAT),))
    return int(cursor)


def _entry(value: Entry) -> EntryAnswer:
    answer: EntryAnswer = {"state": value.state.value, "attempts": value.attempts}
    if value.last_attempt_at is not None:
        answer["last_attempt_at"] = rfc3339(value.last_attempt_at)
    if value.last_outcome is not None:
        answer["last_outcome"] = value.last_outcome
    if value.filter_version is not None:
        answer["filter_version"] = value.filter_version
    if value.added_at is not None:
        answer["added_at"] = rfc3339(value.added_at)
    return answer


def retained(world: World, request: Request[None]) -> Answer:
    """Answer with a page of the retained messages, with their bodies only when asked for."""
    limit, cursor = request.page()
    show = message if request.flag("bodies") else message_without_body
    found = list_retained(
        world, request.topic, limit, cursor, size=lambda view: encoded_size(show(view)), size_max=PAGE_BYTES_MAX
    )
    shown = [show(item) for item in found.items]
    return Answer(200, page("messages", shown, encode_cursor(found.cursor)))


def one(world: World, request: Request[None]) -> Answer:
    """Answer with a message or its receipt."""
    return _message(world, request, request.topic)


def find(world: World, request: Request[None]) -> Answer:
    """Answer with a message or its receipt, whichever of the topics that the caller may read has it."""
    rights = request.rights

    def is_open(topic: str) -> bool:
        return rights is None or covers(rights.topics, topic)

    return _message(world, request, find_message(world, request.path["message_id"], is_open))


def _message(world: World, request: Request[None], topic: str) -> Answer:
    faults: list[Fault] = []
    section, only = _section(request.page()[1]), request.choice("only", tuple(ONLY), faults)
    if faults:
        raise InvalidRequestError(tuple(faults))
    found = message_view(world, topic, request.path["message_id"], section, ONLY[only] if only else ())
    answer = message(found)
    if found.counts is not None:
        answer["counts"] = {state.value: found.counts[state] for state in EntryState if found.counts.get(state)}
    if found.next_section is not None:
        answer["next_cursor"] = encode_cursor(str(found.next_section)) or ""
    return Answer(200, answer)


def attempts(world: World, request: Request[None]) -> Answer:
    """Answer with the last attempts of those deliveries that are owed, or failed."""
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


def why(world: World, request: Request[None]) -> Answer:
    """Answer why a subscription did or did not receive a message."""
    subscription = required_name(request, "subscription")
    return Answer(200, dict(explain(world, request.topic, request.path["message_id"], subscription)))


_ALL = "/topics/{topic}/messages"
_ONE = "/topics/{topic}/messages/{message_id}"

ROUTES = (
    Route("GET", _ALL, retained, "List the retained messages", {200: MessagesAnswer}, query=(*PAGING, "bodies")),
    Route("GET", _ONE, one, "Get a message or its receipt", {200: MessageAnswer}, query=("cursor", "only")),
    Route(
        "GET",
        "/messages/{message_id}",
        find,
        "Find a message by its id in all topics",
        {200: MessageAnswer},
        query=("cursor", "only"),
        names_no_topic=True,
    ),
    Route(
        "GET",
        _ONE + "/attempts",
        attempts,
        "List the last attempts of a message's deliveries",
        {200: AttemptsAnswer},
        query=PAGING,
    ),
    Route(
        "GET",
        _ONE + "/explain",
        why,
        "Explain why a subscription did or did not receive a message",
        {200: dict[str, Any]},
        query=("subscription",),
        required=("subscription",),
    ),
)
