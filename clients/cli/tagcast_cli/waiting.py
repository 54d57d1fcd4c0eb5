"""Why a delivery waits: the message before it, the next attempt, and the commands that help."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from rich.text import Text
from tagcast_client import TagcastError
from tagcast_client.operation import Json, path_of

from tagcast_cli.instant import readable_instant
from tagcast_cli.push_options import protocol_of
from tagcast_cli.screen import outcome_text
from tagcast_cli.session import Session
from tagcast_cli.visible import visible_line

SHOWN_MAX = 3
"""The maximum number of subscriptions to explain, because each needs two requests."""
LISTED_MAX = 100
WAITING = ("blocked", "pending")
DELETED = "its subscription was deleted; the delivery is cancelled, or ends when it expires"


def print_waiting(session: Session, topic: str, message_id: str, entries: Mapping[str, Json]) -> None:
    """Print why deliveries of a message wait, blocked ones first, for at most `SHOWN_MAX` subscriptions.

    *entries* are the deliveries of the message, by subscription.
    """
    waiting = [name for state in WAITING for name, entry in entries.items() if entry.get("state") == state]
    lines = [line for name in waiting[:SHOWN_MAX] for line in _delivery_lines(session, topic, message_id, name)]
    if len(waiting) > SHOWN_MAX:
        lines.append(Text(f"{len(waiting) - SHOWN_MAX:,} more wait: tagcast lane {topic} NAME says why.", style="dim"))
    session.print_lines(lines)


def published_lines(session: Session, topic: str, message_id: str) -> list[Text]:
    """Return lines about a new message: which subscriptions delay it and why, then the command to follow the message.

    Only the first :data:`LISTED_MAX` subscriptions of the topic are checked. If the caller may only publish, the result
    is just the command.
    """
    follow = Text(f"Follow it with: tagcast message {topic} {message_id}", style="dim")
    try:
        shown = session.api.request("GET", path_of("topics", topic, "messages", message_id)).json
        path = path_of("topics", topic, "subscriptions")
        listed = session.api.request("GET", path, query={"limit": LISTED_MAX}).json
        entries = shown.get("subscribers") or {}
        matched = [each for each in listed.get("subscriptions") or () if each.get("name") in entries]
        held = [each for each in matched if _delaying_state(each) is not None]
        lines = [line for each in held[:SHOWN_MAX] for line in _lines(session, message_id, each)]
    except TagcastError:
        return [follow]
    if len(held) > SHOWN_MAX:
        lines.append(Text(f"{len(held) - SHOWN_MAX:,} more wait: tagcast subscription list {topic}", style="dim"))
    return [*lines, follow]


def is_awake(state: str | None) -> bool:
    """Return whether a lane in *state* makes attempts. If such a lane has no planned attempt, one is in progress.

    >>> is_awake("blocked"), is_awake("paused")
    (True, False)
    """
    return state in ("blocked", "lost_contact", "retrying")


def next_attempt_words(state: str | None, at: object) -> str | None:
    """Return words for the next attempt of a lane in *state*. *at* is the time of this attempt, or None.

    Return None if the time alone describes the attempt, or if the lane makes no attempts.

    >>> next_attempt_words("blocked", None), next_attempt_words("unverified", "2026-05-02T12:00:00.000Z")
    ('in progress', 'after verification')
    >>> next_attempt_words("paused", None) is None
    True
    """
    if state == "unverified":
        return "after verification"
    return "in progress" if at is None and is_awake(state) else None


def next_attempt(lane: Json, delivery: Json) -> str:
    """Return as text when *delivery* is attempted next. *delivery* is usually the head of *lane*."""
    at = delivery.get("next_attempt_at")
    return next_attempt_words(lane.get("state"), at) or readable_instant(at)


def _delivery_lines(session: Session, topic: str, message_id: str, name: str) -> Iterable[Text]:
    try:
        delivery = session.api.explain(topic, message_id, name).get("delivery") or {}
        if delivery.get("lane") == "removed":  # By now another subscription may have this name.
            return [Text(visible_line(f"{name}: {DELETED}"), style="yellow")]
        found = session.api.request("GET", path_of("topics", topic, "subscriptions", name)).json
        return _lines(session, message_id, found)
    except TagcastError:  # The subscription was deleted, or this token may not see it.
        return ()


def _delaying_state(subscription: Json) -> str | None:
    """Return the state that delays a subscription's messages; None if nothing delays them."""
    state = subscription.get("state") or (subscription.get("lane") or {}).get("state")
    return None if state in (None, "active") else str(state)


def _lines(session: Session, message_id: str, subscription: Json) -> list[Text]:
    topic, name = str(subscription.get("topic")), str(subscription.get("name"))
    head: Json = {}
    if is_awake(_delaying_state(subscription)):
        path = path_of("topics", topic, "subscriptions", name, "backlog")
        head = next(iter(session.api.request("GET", path, query={"limit": 1}).json.get("deliveries") or ()), {})
    why, commands = reason(subscription, head, message_id)
    helps = _commands_text(commands, topic, name)
    return [Text(visible_line(f"{name}: {why}"), style="yellow"), Text(visible_line(f"  {helps}"))]


def _commands_text(commands: Mapping[str, str], topic: str, name: str) -> str:
    place = f"{shlex.quote(topic)} {shlex.quote(name)}"
    return "; ".join(f"{what}: {command.format(place)}" for what, command in commands.items())


def next_step(subscription: Json, topic: str, name: str) -> Text | None:
    """Return the commands that help a delayed subscription. Return None if nothing delays it.

    *subscription* is in the API's form. It may also be a lane from a list of lanes.

    >>> print(next_step({"lane": {"state": "paused"}}, "fruit", "shop"))
    End the pause: tagcast resume fruit shop
    >>> next_step({"lane": {"state": "active"}}, "fruit", "shop") is None
    True
    """
    if _delaying_state(subscription) is None:
        return None
    head = subscription.get("head") or (subscription.get("lane") or {}).get("head") or {}
    _, commands = reason(subscription, head, str(head.get("message_id", "")))
    return Text(visible_line(_commands_text(commands, topic, name)))


def reason(subscription: Json, head: Json, message_id: str) -> tuple[str, Mapping[str, str]]:
    """Return why *message_id* waits at *subscription*, and the commands that help, by their description.

    *subscription* is in the API's form. *head* is the first delivery of its backlog; an empty *head* means an empty
    backlog.

    >>> why, helps = reason({"lane": {"state": "paused"}}, {}, "2")
    >>> why, list(helps)
    ('waits while the subscription is paused', ['End the pause'])
    >>> blocked = {"lane": {"state": "blocked"}}
    >>> reason(blocked, {"message_id": "1", "attempts": 3, "last_outcome": "http 500"}, "2")[0]
    'waits behind message 1, which failed (http 500, attempt 3); its next attempt: in progress; it expires: —'
    >>> reason(blocked, {"message_id": "2", "attempts": 1, "last_outcome": "http 500"}, "2")[0]
    'failed (http 500, attempt 1); its next attempt: in progress; it expires: —'
    >>> reason({"lane": {"state": "retrying"}}, {"message_id": "1"}, "2")[0]
    'waits for its own next attempt, and for no other message'
    >>> changed = {"lane": {"state": "retrying"}, "retry": {"strategy": "BACKOFF_RETRY"}}
    >>> reason(changed, {"message_id": "1"}, "2")[0]
    'waits behind message 1, which was not attempted yet; its next attempt: in progress; it expires: —'
    """
    first = head.get("message_id", "")
    skip = f"tagcast skip {{}} --message {first or 'ID'} --reason TEXT"
    match _delaying_state(subscription):
        case "unverified":
            answered = subscription.get("state_reason")
            return f"waits until its endpoint is verified; its response: {answered}", {"Verify it": "tagcast verify {}"}
        case "paused":
            return "waits while the subscription is paused", {"End the pause": "tagcast resume {}"}
        case "suspended":
            return "waits: its endpoint answered 410 Gone, so attempts are suspended", {"Resume": "tagcast resume {}"}
        case None if protocol_of(subscription.get("endpoint")) == "pull":
            return "waits until a consumer pulls it", {"Pull": "tagcast consume {}", "Members": "tagcast group show {}"}
        case None:
            return "its attempt is in progress", {"Look again": "tagcast lane {}"}
        case "retrying" if _is_independent(subscription):
            helps = {"Retry all now": "tagcast retry {}"}
            if first != message_id:
                helps["See all that wait"] = "tagcast lane {}"
                return "waits for its own next attempt, and for no other message", helps
            helps["Skip it"] = skip
            return _behind(subscription.get("lane") or {}, head, message_id), helps
    helps = {"Retry now": "tagcast retry {}", "Skip it" if first == message_id else "Skip that one": skip}
    return _behind(subscription.get("lane") or {}, head, message_id), helps


def _is_independent(subscription: Json) -> bool:
    """Return whether no message waits for another. A lane may still be `retrying` after its strategy changed."""
    retry = subscription.get("retry")
    return retry is None or bool(retry["strategy"] == "INDEPENDENT_RETRY")


def _behind(lane: Json, head: Json, message_id: str) -> str:
    outcome = outcome_text(head.get("last_outcome"))
    failed = f"failed ({outcome}, attempt {head.get('attempts')})" if outcome else "was not attempted yet"
    if head.get("message_id") != message_id:
        failed = f"waits behind message {head.get('message_id') or '—'}, which {failed}"
    next_at, expires_at = next_attempt(lane, head), readable_instant(head.get("expires_at"))
    return f"{failed}; its next attempt: {next_at}; it expires: {expires_at}"
