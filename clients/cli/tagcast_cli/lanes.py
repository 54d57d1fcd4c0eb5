"""`tagcast lane`, `pause`, `resume`, `retry`, `skip`, `lanes`: lanes of subscriptions; `hosts`: circuits of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json, path_of

from tagcast_cli import completion
from tagcast_cli.api_client import pages
from tagcast_cli.instant import readable_instant
from tagcast_cli.options import with_options
from tagcast_cli.screen import copyable, fields_table, outcome_text, rows_table, state_text
from tagcast_cli.session import (
    Cursor,
    EveryPage,
    Limit,
    Listing,
    Page,
    Session,
    SubscriptionName,
    TopicName,
    session_of,
)
from tagcast_cli.subscriptions import pending_note, subscription_fields
from tagcast_cli.waiting import next_attempt, next_step


def lane_fields(answer: Json) -> RenderableType:
    """Return a lane as a table of fields. *answer* is the lane, or a subscription with a lane."""
    lane = answer.get("lane", answer)
    shown = {name: value for name, value in lane.items() if name != "head"}
    if head := lane.get("head"):
        shown["head"] = head.get("message_id")
        shown["head_attempts"] = head.get("attempts")
        shown["next attempt at"] = next_attempt(lane, head)
    return fields_table(shown)


def _row(lane: Json, delivery: Json) -> list[Any]:
    head = lane.get("head") or {}
    has_own = lane.get("state") == "retrying" or delivery.get("message_id") == head.get("message_id")
    return [
        delivery.get("message_id"),
        state_text(delivery.get("state")),
        delivery.get("attempts"),
        next_attempt(lane, delivery) if has_own else "—",
        readable_instant(delivery.get("expires_at")),
        outcome_text(delivery.get("last_outcome")),
    ]


HEADINGS = ("message", "state", "attempts", "next attempt", "expires", "last outcome")


def lane(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> None:
    """Show the lane of a subscription: its state, its head and its backlog in order.

    With --json: {"subscription": …, "backlog": …}, both as in the API.
    """
    session = session_of(ctx)
    path = path_of("topics", topic, "subscriptions", subscription)
    described = session.api.request("GET", path).json
    backlog = session.api.request("GET", path + "/backlog", query={"limit": limit, "cursor": cursor}).json
    if session.as_json:
        session.print_json({"subscription": described, "backlog": backlog})
        return
    session.out.print(subscription_fields(described))
    session.out.print(Text("lane", style="bold underline"))
    session.out.print(lane_fields(described))
    if (note := pending_note(described)) is not None:
        session.print_lines([note])
    deliveries = backlog.get("deliveries", [])
    if deliveries:
        session.out.print(rows_table(map(partial(_row, described.get("lane", {})), deliveries), *HEADINGS))
    else:
        session.out.print("The backlog is empty.")
    session.print_next_options(backlog)
    if note is None and (step := next_step(described, topic, subscription)) is not None:
        session.out.print(step, soft_wrap=True)


PAGE, FREQUENT = 100, 3


def _urgent_row(lane: Json) -> list[Any]:
    head = lane.get("head") or {}
    return [
        state_text(lane.get("state")),
        lane.get("topic"),
        lane.get("subscription"),
        head.get("message_id"),
        head.get("attempts"),
        next_attempt(lane, head),
        readable_instant(head.get("expires_at")),
        outcome_text(head.get("last_outcome")),
    ]


LISTING = Listing(
    key="lanes",
    headings=("state", "topic", "subscription", *(name for name in HEADINGS if name != "state")),
    row=_urgent_row,
    empty="All lanes are active. Nothing is waiting.",
)


class ListedState(StrEnum):
    """The states in lists of lanes."""

    BLOCKED = "blocked"
    LOST_CONTACT = "lost_contact"
    RETRYING = "retrying"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Selection:
    """The lanes that match every given value. A value of None matches all lanes."""

    topic: Annotated[
        str | None, typer.Option("--topic", help="Only lanes of this topic.", autocompletion=completion.topics)
    ] = None
    state: Annotated[ListedState | None, typer.Option("--state", help="Only lanes in this state.")] = None
    host: Annotated[str | None, typer.Option("--host", help="Only lanes whose endpoint is at this host.")] = None
    outcome: Annotated[
        str | None, typer.Option("--outcome", help="Only lanes with this last outcome of the head, e.g. 'http 503'.")
    ] = None
    text: Annotated[str | None, typer.Option("--text", help="Only lanes with this text in TOPIC / SUBSCRIPTION.")] = (
        None
    )

    @property
    def asked(self) -> dict[str, str]:
        """The values that are not None, as arguments of an API request.

        >>> Selection(host="http://a/").asked
        {'host': 'http://a'}
        """
        found = {name: str(value) for name, value in asdict(self).items() if value is not None}
        return found | {"host": found["host"].rstrip("/")} if "host" in found else found

    def takes(self, lane: Json) -> bool:
        """Return whether a lane of the list is selected, by the same rule as in the API.

        >>> Selection(text="CRM").takes({"topic": "orders", "subscription": "crm"})
        True
        """
        asked = self.asked
        text = asked.pop("text", "").lower()
        found = {**lane, "outcome": (lane.get("head") or {}).get("last_outcome")}
        names = f"{lane.get('topic')} / {lane.get('subscription')}".lower()
        return text in names and all(found.get(name) == value for name, value in asked.items())


class Common(StrEnum):
    """An attribute by which lanes are grouped."""

    HOST = "host"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    STATE = "state"
    OUTCOME = "outcome"

    def of(self, lane: Json) -> str:
        """Return the lane's value of this attribute, as text."""
        if self is Common.OUTCOME:
            return outcome_text((lane.get("head") or {}).get("last_outcome")) or "no attempt yet"
        return str(lane.get(self.value) or "pulled by its members")


SHOWN_OF_GROUPS = (Common.SUBSCRIPTION, Common.STATE, Common.OUTCOME)


def group_lanes(lanes: Iterable[Json], by: Common) -> list[dict[str, Any]]:
    """Return one group for each value of the attribute *by*, the largest group first.

    A group has its numbers of lanes and topics, and the most frequent values of other attributes.

    >>> [group["lanes"] for group in group_lanes([{"topic": "a"}, {"topic": "b"}, {"topic": "a"}], Common.TOPIC)]
    [2, 1]
    """
    groups: dict[str, list[Json]] = {}
    for lane in lanes:
        groups.setdefault(by.of(lane), []).append(lane)

    def frequent(lanes: list[Json], of: Common) -> dict[str, int]:
        return dict(Counter(map(of.of, lanes)).most_common(FREQUENT))

    return [
        {
            by.value: name,
            "lanes": len(found),
            "topics": len({each["topic"] for each in found}),
            **{f"{of.value}s": frequent(found, of) for of in SHOWN_OF_GROUPS if of is not by},
        }
        for name, found in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    ]


lanes = typer.Typer(invoke_without_command=True)
"""`tagcast lanes` lists lanes; its subcommands act on many lanes."""


@lanes.callback()
@with_options
def list_lanes(
    ctx: typer.Context,
    limit: Limit = 20,
    cursor: Cursor = None,
    every: EveryPage = False,
    by: Annotated[Common | None, typer.Option(help="Count all lanes by this attribute.")] = None,
    *,
    selection: Selection,
) -> None:
    """List the lanes that are not active, by their next attempt; paused and suspended lanes by their first expiry.

    With --by and --json: {"groups": [...]}. The commands below act on many lanes; write their options after the
    command.
    """
    if ctx.invoked_subcommand is not None:
        if selection.asked or every or by is not None or cursor is not None:
            raise typer.BadParameter(f"give the options after {ctx.invoked_subcommand}", param_hint="lanes")
        return
    session = session_of(ctx)
    if by is None and not selection.asked:
        _say_what_helps(session, session.show_list("/lanes", LISTING, Page(limit, cursor, every)))
        return
    found = [lane for answer in pages(session.api, "/lanes", PAGE) for lane in answer.json["lanes"]]
    found = list(filter(selection.takes, found))
    groups = None if by is None else group_lanes(found, by)
    if session.as_json:
        session.print_json({"lanes": found} if groups is None else {"groups": groups})
    elif not found:
        session.out.print("No lanes match." if selection.asked else LISTING.empty)
    elif groups is None:
        session.out.print(rows_table(map(_urgent_row, found), *LISTING.headings))
        _say_what_helps(session, found)
    else:
        # A cell with several values shows how many lanes have each value.
        rows = [[_told(value, is_state=of in ("state", "states")) for of, value in group.items()] for group in groups]
        session.out.print(rows_table(rows, *groups[0]))


def _say_what_helps(session: Session, lanes: Iterable[Json]) -> None:
    """For each state of these lanes, print the commands that help."""
    for state in dict.fromkeys(str(lane.get("state")) for lane in lanes):
        if (step := next_step({"state": state}, "TOPIC", "SUBSCRIPTION")) is not None:
            session.out.print(state_text(state) + Text(": ") + step)


def _told(value: Any, *, is_state: bool) -> str:
    many = {str(value): 1} if not isinstance(value, dict) else value
    words = {name.replace("_", " ") if is_state else name: count for name, count in many.items()}
    return ", ".join(f"{word} ({count})" if len(words) > 1 else word for word, count in words.items())


def _command(
    ctx: typer.Context,
    topic: str,
    subscription: str,
    verb: str,
    done: Callable[[Json], str],
    body: Json | None = None,
) -> None:
    path = path_of("topics", topic, "subscriptions", subscription, verb)
    session_of(ctx).send("POST", path, lambda shown: Group(Text(done(shown)), lane_fields(shown)), body)


def pause(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Pause a subscription. Its deliveries wait until `resume`, and still expire."""
    _command(ctx, topic, subscription, "pause", lambda lane: f"{subscription} on {topic} is {lane.get('state')}.")


def resume(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Resume a paused subscription, or one suspended by 410 Gone."""
    _command(ctx, topic, subscription, "resume", lambda lane: f"{subscription} on {topic} is resumed.")


def retry(
    ctx: typer.Context,
    topic: TopicName,
    subscription: Annotated[
        str | None, typer.Argument(help="Name of the subscription; default: all that are blocked under BACKOFF_RETRY.")
    ] = None,
) -> None:
    """Retry the head of the lane now, ahead of its schedule; under INDEPENDENT_RETRY all waiting deliveries."""
    if subscription is None:
        session_of(ctx).send("POST", path_of("topics", topic, "retry"), partial(_retried_lanes, topic))
        return

    def done(lane: Json) -> str:
        if lane.get("state") == "active":
            return f"{subscription} on {topic} has no pending deliveries: nothing was retried."
        what = "everything that waits" if lane.get("state") == "retrying" else "the head"
        return f"{subscription} on {topic}: retrying {what} now."

    _command(ctx, topic, subscription, "retry", done)


def _retried_lanes(topic: str, answer: Json) -> RenderableType:
    lanes = answer.get("lanes", [])
    if not lanes:
        none = "Nothing to retry: no subscription is blocked under BACKOFF_RETRY."
        others = f"Under other strategies: tagcast lanes retry --topic {topic}"
        return copyable(f"{none}\n{others}")
    return rows_table(([name] for name in lanes), "subscription", title="Retrying now:")


def skip(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    reason: Annotated[str, typer.Option(help="Reason; recorded with the delivery.")],
    message: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only this message: the head, or any waiting message under INDEPENDENT_RETRY."),
    ] = None,
) -> None:
    """Cancel the head of the lane, or with --message any waiting message under INDEPENDENT_RETRY."""
    _command(
        ctx,
        topic,
        subscription,
        "skip",
        lambda lane: f"{subscription} on {topic}: {message or 'the head'} was skipped.",
        {"reason": reason} if message is None else {"reason": reason, "message_id": message},
    )


def next_probe(probe_at: str | None, now: datetime) -> str:
    """Return as text when a host is probed next. If *probe_at* is over, the next attempt is the probe.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> next_probe("2026-05-01T11:59:59.000Z", noon), next_probe("2026-05-01T12:00:05.000Z", noon)
    ('at the next attempt', '12:00:05 UTC (in 5 s)')
    """
    if probe_at is not None and datetime.fromisoformat(probe_at) <= now:
        return "at the next attempt"
    return readable_instant(probe_at, now)


def _host_row(host: Json) -> list[Any]:
    return [
        state_text(host.get("circuit")),
        host.get("host"),
        readable_instant(host.get("last_failed_at")),
        readable_instant(host.get("opened_at")),
        next_probe(host.get("next_probe_at"), datetime.now(UTC)),
    ]


HOSTS = Listing(
    key="hosts",
    headings=("circuit", "host", "last failed", "opened", "next probe"),
    row=_host_row,
    empty="All hosts responded in the last hour.",
)


def hosts(ctx: typer.Context, limit: Limit = 20, cursor: Cursor = None, every: EveryPage = False) -> None:
    """List the hosts that did not respond in the last hour. An open circuit allows one probe at a time."""
    session_of(ctx).show_list("/hosts", HOSTS, Page(limit, cursor, every))
