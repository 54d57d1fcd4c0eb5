"""`tagcast lane`, `pause`, `resume`, `retry`, `skip`, `lanes`: lanes of subscriptions; `hosts`: circuits of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.operation import Json, path_of

from tagcast_cli import completion
from tagcast_cli.api_client import pages
from tagcast_cli.instant import readable_instant
from tagcast_cli.options import with_options
from tagcast_cli.screen import Column, Rows, copyable, fields_table, items_table, outcome_text, state_text
from tagcast_cli.session import Cursor, Limit, Listing, Session, ShortPage, SubscriptionName, TopicName, session_of
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


def _backlog_table(lane: Json, deliveries: Iterable[Json]) -> RenderableType:
    head_id = (lane.get("head") or {}).get("message_id")

    def next_words(delivery: Json) -> str:
        has_own = lane.get("state") == "retrying" or delivery.get("message_id") == head_id
        return next_attempt(lane, delivery) if has_own else "—"

    columns: Mapping[str, Column] = {
        "message": "message_id",
        "state": "state",
        "attempts": "attempts",
        "next attempt": next_words,
        "expires": "expires_at",
        "last outcome": "last_outcome",
    }
    return items_table(deliveries, columns)


def lane(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> None:
    """Show the lane of a subscription: its state, its head and its backlog in order.

    With --json the output is {"subscription": …, "backlog": …}. Both parts have the API's form.
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
    none = "The backlog is empty."
    session.out.print(_backlog_table(described.get("lane", {}), deliveries) if deliveries else none)
    session.print_next_options(backlog)
    if note is None and (step := next_step(described, topic, subscription)) is not None:
        session.out.print(step, soft_wrap=True)


PAGE, FREQUENT = 100, 3


LISTING = Listing(
    key="lanes",
    columns={
        "state": "state",
        "topic": "topic",
        "subscription": "subscription",
        "message": "head.message_id",
        "attempts": "head.attempts",
        "next attempt": lambda lane: next_attempt(lane, lane.get("head") or {}),
        "expires": "head.expires_at",
        "last outcome": "head.last_outcome",
    },
    empty="All lanes are active. Nothing is waiting.",
)


ListedState = Literal["blocked", "lost_contact", "retrying", "paused", "suspended", "unverified"]
Attribute = Literal["host", "topic", "subscription", "state", "outcome"]
"""An attribute by which lanes are grouped."""


@dataclass(frozen=True)
class Selection:
    """The lanes that match every given value. A value of None matches all lanes."""

    topic: Annotated[str | None, typer.Option(help="Only lanes of this topic.", autocompletion=completion.topics)] = (
        None
    )
    state: Annotated[ListedState | None, typer.Option(help="Only lanes in this state.")] = None
    host: Annotated[str | None, typer.Option(help="Only lanes whose endpoint is at this host.")] = None
    outcome: Annotated[
        str | None, typer.Option(help="Only lanes with this last outcome of the head, e.g. 'http 503'.")
    ] = None
    text: Annotated[str | None, typer.Option(help="Only lanes with this text in TOPIC / SUBSCRIPTION.")] = None

    @property
    def parameters(self) -> dict[str, str]:
        """The values that are not None, as arguments of an API request.

        >>> Selection(host="http://a/").parameters
        {'host': 'http://a'}
        """
        found = {name: str(value) for name, value in asdict(self).items() if value is not None}
        return found | {"host": found["host"].rstrip("/")} if "host" in found else found

    def takes(self, lane: Json) -> bool:
        """Return whether a lane of the list is selected, by the same rule as in the API.

        >>> Selection(text="CRM").takes({"topic": "orders", "subscription": "crm"})
        True
        """
        parameters = self.parameters
        text = parameters.pop("text", "").lower()
        found = {**lane, "outcome": (lane.get("head") or {}).get("last_outcome")}
        names = f"{lane.get('topic')} / {lane.get('subscription')}".lower()
        return text in names and all(found.get(name) == value for name, value in parameters.items())


def _attribute(lane: Json, name: str) -> str:
    if name == "outcome":
        return outcome_text((lane.get("head") or {}).get("last_outcome")) or "no attempt yet"
    return str(lane.get(name) or "pulled by its members")


def group_lanes(lanes: Iterable[Json], by: Attribute) -> list[Json]:
    """Return one group for each value of the attribute *by*, the largest group first.

    A group has the number of its lanes, the number of their topics, and the most frequent values of other attributes.

    >>> [group["lanes"] for group in group_lanes([{"topic": "a"}, {"topic": "b"}, {"topic": "a"}], "topic")]
    [2, 1]
    """
    groups: dict[str, list[Json]] = {}
    for lane in lanes:
        groups.setdefault(_attribute(lane, by), []).append(lane)

    def frequent(lanes: list[Json], name: str) -> dict[str, int]:
        return dict(Counter(_attribute(lane, name) for lane in lanes).most_common(FREQUENT))

    return [
        {
            by: name,
            "lanes": len(found),
            "topics": len({each["topic"] for each in found}),
            **{f"{other}s": frequent(found, other) for other in ("subscription", "state", "outcome") if other != by},
        }
        for name, found in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    ]


lanes = typer.Typer(invoke_without_command=True)
"""`tagcast lanes` lists lanes; its subcommands act on many lanes."""


@lanes.callback()
@with_options
def list_lanes(
    ctx: typer.Context,
    page: ShortPage,
    by: Annotated[Attribute | None, typer.Option(help="Count all lanes by this attribute.")] = None,
    *,
    selection: Selection,
) -> None:
    """List the lanes that are not active, sorted by their next attempt.

    Paused and suspended lanes are sorted by their first expiry. With --by and --json the output is {"groups": [...]}.
    The commands below act on many lanes; write their options after the command.
    """
    if ctx.invoked_subcommand is not None:
        if selection.parameters or page.every or by is not None or page.cursor is not None:
            raise typer.BadParameter(f"give the options after {ctx.invoked_subcommand}", param_hint="lanes")
        return
    session = session_of(ctx)
    if by is None and not selection.parameters:
        _say_what_helps(session, session.show_list("/lanes", LISTING, page))
        return
    found = [lane for answer in pages(session.api, "/lanes", PAGE) for lane in answer.json["lanes"]]
    found = list(filter(selection.takes, found))
    groups = None if by is None else group_lanes(found, by)
    if session.as_json:
        session.print_json({"lanes": found} if groups is None else {"groups": groups})
    elif not found:
        session.out.print("No lanes match." if selection.parameters else LISTING.empty)
    elif groups is None:
        session.out.print(items_table(found, LISTING.columns))
        _say_what_helps(session, found)
    else:
        # A cell with several values shows how many lanes have each value.
        rows = [[_cell(value, is_state=key in ("state", "states")) for key, value in group.items()] for group in groups]
        session.out.print(Rows(rows, list(groups[0])))


def _say_what_helps(session: Session, lanes: Iterable[Json]) -> None:
    """For each state of these lanes, print the commands that help."""
    for state in dict.fromkeys(str(lane.get("state")) for lane in lanes):
        if (step := next_step({"state": state}, "TOPIC", "SUBSCRIPTION")) is not None:
            session.out.print(state_text(state) + Text(": ") + step)


def _cell(value: Any, *, is_state: bool) -> str:
    many = {str(value): 1} if not isinstance(value, dict) else value
    words = {name.replace("_", " ") if is_state else name: count for name, count in many.items()}
    return ", ".join(f"{word} ({count})" if len(words) > 1 else word for word, count in words.items())


def _command(
    ctx: typer.Context,
    topic: str,
    subscription: str,
    verb: str,
    describe: Callable[[Json], str],
    body: Json | None = None,
) -> None:
    path = path_of("topics", topic, "subscriptions", subscription, verb)
    session_of(ctx).send("POST", path, lambda shown: Group(Text(describe(shown)), lane_fields(shown)), body)


def pause(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Pause a subscription. Its deliveries wait until `resume`, and still expire."""
    _command(ctx, topic, subscription, "pause", lambda lane: f"{subscription} on {topic} is {lane.get('state')}.")


def resume(ctx: typer.Context, topic: TopicName, subscription: SubscriptionName) -> None:
    """Resume a subscription that is paused, or suspended because its endpoint answered 410 Gone."""
    _command(ctx, topic, subscription, "resume", lambda lane: f"{subscription} on {topic} is resumed.")


def retry(
    ctx: typer.Context,
    topic: TopicName,
    subscription: Annotated[
        str | None, typer.Argument(help="Name of the subscription; default: all that are blocked under BACKOFF_RETRY.")
    ] = None,
) -> None:
    """Retry the head of the lane now, ahead of its schedule. Under INDEPENDENT_RETRY, retry all waiting deliveries."""
    if subscription is None:
        session_of(ctx).send("POST", path_of("topics", topic, "retry"), partial(_retried_lanes, topic))
        return

    def describe(lane: Json) -> str:
        if lane.get("state") == "active":
            return f"{subscription} on {topic} has no pending deliveries: nothing was retried."
        what = "everything that waits" if lane.get("state") == "retrying" else "the head"
        return f"{subscription} on {topic}: retrying {what} now."

    _command(ctx, topic, subscription, "retry", describe)


def _retried_lanes(topic: str, answer: Json) -> RenderableType:
    lanes = answer.get("lanes", [])
    if not lanes:
        none = "Nothing to retry: no subscription is blocked under BACKOFF_RETRY."
        others = f"Under other strategies: tagcast lanes retry --topic {topic}"
        return copyable(f"{none}\n{others}")
    return Rows(([name] for name in lanes), ["subscription"], "Retrying now:")


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
    """Cancel the delivery at the lane's head. With --message under INDEPENDENT_RETRY, cancel any waiting delivery."""
    _command(
        ctx,
        topic,
        subscription,
        "skip",
        lambda lane: f"{subscription} on {topic}: {message or 'the head'} was skipped.",
        {"reason": reason} if message is None else {"reason": reason, "message_id": message},
    )


def next_probe(probe_at: str | None, now: datetime) -> str:
    """Return as text when a host is probed next. *probe_at* is the earliest time of the probe.

    If this time has passed, the next attempt is the probe. A *probe_at* of None becomes a dash.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> next_probe("2026-05-01T11:59:59.000Z", noon), next_probe("2026-05-01T12:00:05.000Z", noon)
    ('at the next attempt', '12:00:05 UTC (in 5 s)')
    """
    if probe_at is not None and datetime.fromisoformat(probe_at) <= now:
        return "at the next attempt"
    return readable_instant(probe_at, now)


HOSTS = Listing(
    key="hosts",
    columns={
        "circuit": "circuit",
        "host": "host",
        "last failed": "last_failed_at",
        "opened": "opened_at",
        "next probe": lambda host: next_probe(host.get("next_probe_at"), datetime.now(UTC)),
    },
    empty="All hosts responded in the last hour.",
)


@with_options
def hosts(ctx: typer.Context, page: ShortPage) -> None:
    """List the hosts that did not respond in the last hour. An open circuit allows one push at a time, as a probe."""
    session_of(ctx).show_list("/hosts", HOSTS, page)
