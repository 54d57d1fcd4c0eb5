"""`tagcast publish`, `messages`, `message`, `explain`: messages and their deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from tagcast_client.batches import parts
from tagcast_client.operation import Json, drop_none, idempotency, part_key, path_of

from tagcast_cli import completion
from tagcast_cli.content import PropertyPairs, TextAttributes, body_bytes, message_of, warn_of_commas
from tagcast_cli.instant import duration, readable_instant
from tagcast_cli.options import with_options
from tagcast_cli.screen import Column, fault_lines, fields_table, items_table, state_text
from tagcast_cli.session import Cursor, EveryPage, Listing, Page, Session, TopicName, session_of
from tagcast_cli.tree import explanation_tree
from tagcast_cli.waiting import LISTED_MAX, print_waiting, published_lines

ATTEMPTED_MAX = 100
EXPLAINED_MAX = 20
ID_DIGITS = 20
COPIES_MAX = 1_000_000


def _read_key(text: str) -> str:
    try:
        return idempotency(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None


@with_options
def publish(
    ctx: typer.Context,
    topic: TopicName,
    texts: TextAttributes,
    body: Annotated[
        str | None,
        typer.Argument(help="Body; - or no argument reads standard input, @FILE reads a file.", show_default=False),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", "-t", callback=warn_of_commas, metavar="TAG", help="Tag of the message; may be repeated."
        ),
    ] = None,
    routing_key: Annotated[
        str | None, typer.Option("--routing-key", "-r", help="Routing key: words separated by dots, e.g. order.new.eu.")
    ] = None,
    property_pairs: PropertyPairs = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            parser=_read_key,
            metavar="TEXT",
            help="Idempotency key: while the message lives, the same key publishes once.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=COPIES_MAX, metavar="N", help="Publish N copies, in batches of up to 100.")
    ] = None,
) -> None:
    """Publish a message to a topic."""
    message = message_of(body_bytes(body), texts, tags=tag, routing_key=routing_key, property_pairs=property_pairs)
    session = session_of(ctx)
    if count is not None:
        _publish_copies(session, topic, message, count, idempotency_key)
        return
    headers = {"idempotency-key": idempotency_key} if idempotency_key else None
    answer = session.api.request("POST", path_of("topics", topic, "messages"), message, headers=headers)
    session.show(answer, fields_table)
    _say_what_next(session, topic, answer.json)


def _say_what_next(session: Session, topic: str, answer: Json) -> None:
    if session.as_json:
        return
    none = Text("No subscription matched; only a topic with keep: life keeps the body.", style="yellow")
    is_matched = answer.get("matched") != 0
    session.print_lines(published_lines(session, topic, str(answer.get("message_id"))) if is_matched else [none])


def _publish_copies(session: Session, topic: str, message: Json, count: int, key: str | None) -> None:
    results: list[Json] = []
    path = path_of("topics", topic, "messages", "batch")
    try:
        for place, part in parts([message] * count):
            headers = {"idempotency-key": part_key(key, place)} if key else None
            answer = session.api.request("POST", path, {"messages": part}, headers=headers)
            results += session.read_answer(answer).get("results", [])
    finally:  # Also after a failed batch.
        if not session.as_json and results:
            session.out.print(_copies_summary(results))
    accepted = [each for each in results if "error" not in each]
    if accepted:
        _say_what_next(session, topic, accepted[-1])
    if len(accepted) < len(results):
        raise typer.Exit(1)


def _copies_summary(results: list[Json]) -> RenderableType:
    lines: list[RenderableType] = []
    refused = [each["error"] for each in results if "error" in each]
    if accepted := [each for each in results if "error" not in each]:
        first, last = accepted[0]["message_id"], accepted[-1]["message_id"]
        spread = Counter(outcome.get("matched") for outcome in accepted)
        matched = ", ".join(f"{number} × {subscribers}" for subscribers, number in spread.items())
        lines.append(fields_table({"accepted": len(accepted), "first": first, "last": last, "matched": matched}))
    if refused:
        lines.append(Text(f"{len(refused)} refused; the first:", style="bold red"))
        lines.append(fault_lines(refused[0], int(refused[0].get("status") or 422)))
    return Group(*lines)


def _states_text(message: Json) -> str:
    states = Counter(entry.get("state") for entry in (message.get("subscribers") or {}).values())
    return ", ".join(f"{number} {state}" for state, number in states.items())


NOTHING_RETAINED = """No messages: no delivery of {topic} is in a backlog.
Messages in the queue of a group are not listed: tagcast lane counts them.
To see another message, give its id: tagcast message {topic} ID
The archive keeps the outcomes of all messages: tagcast report and tagcast audit, or tagcast console."""
LISTING = Listing(
    key="messages",
    columns={
        "message": "message_id",
        "state": "state",
        "accepted": "accepted_at",
        "expires": "expires_at",
        "tags": "tags",
        "subscribers": _states_text,
    },
    empty=NOTHING_RETAINED,
)


@with_options
def list_messages(ctx: typer.Context, topic: TopicName, page: Page) -> None:
    """List a topic's messages with pending deliveries, oldest first. `message` shows any message by its id."""
    listing = replace(LISTING, empty=NOTHING_RETAINED.format(topic=topic))
    session_of(ctx).show_list(path_of("topics", topic, "messages"), listing, page)


HISTORY = Listing(
    key="messages",
    columns={
        "message": "message_id",
        "accepted": "accepted_at",
        "tags": "tags",
        "deliveries": lambda message: counts_text(message.get("counts") or {}),
    },
    empty="No messages.",
)


@with_options
def history(
    ctx: typer.Context,
    topic: TopicName,
    since: Annotated[
        int, duration(help="Only messages accepted within this time, at most 3d; default: 1d.", longest_s=3 * 86_400)
    ] = 86_400,
    tag: Annotated[str | None, typer.Option(help="Only messages with this tag.")] = None,
    property: Annotated[str | None, typer.Option(help="Only messages with this property, NAME=VALUE.")] = None,
    subscription: Annotated[str | None, typer.Option(help="Only messages for this subscription.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only messages with a delivery in this state, such as delivered or discarded.")
    ] = None,
    *,
    page: Page,
) -> None:
    """List the recent messages of a topic, newest first, including delivered messages."""
    session, began = session_of(ctx), datetime.now(UTC) - timedelta(seconds=since)
    query = drop_none(since=began.isoformat(), tag=tag, property=property, subscription=subscription, state=state)
    answers = session.read(path_of("topics", topic, "history"), page, query)
    if session.as_json:
        return
    items = [item for answer in answers for item in answer.get(HISTORY.key, [])]
    if items:
        session.out.print(items_table(items, HISTORY.columns))
    else:
        session.out.print(HISTORY.empty if not answers[-1].get("next_cursor") else "No messages on this page.")
    until = answers[0].get("archived_until")
    reached = f"Archived until {readable_instant(until)}." if until else "Nothing is archived yet."
    session.out.print(Text(f"{reached} Newer messages are listed only while they are pending.", style="dim"))
    session.print_next_options(answers[-1], "--all")


ROWS_SHOWN = 50
"""`tagcast message` shows at most 50 deliveries that do not fail, except with --all, --cursor or --only."""
FAILING = ("blocked", "discarded", "expired")


def counts_text(counts: Json) -> Text:
    """Return the number of deliveries by state, failing deliveries first.

    >>> counts_text({"delivered": 4850, "blocked": 100, "pending": 50}).plain
    '5,000: 100 blocked, 50 pending, 4,850 delivered'
    >>> counts_text({}).plain
    'none matched'
    """
    if not counts:
        return Text("none matched")
    states = [state for state in dict.fromkeys((*FAILING, "pending", *counts)) if state in counts]
    parts = [Text.assemble(f"{counts[state]:,} ", state_text(state)) for state in states]
    return Text.assemble(f"{sum(counts.values()):,}: ", Text(", ").join(parts))


def _first_few(entries: Json) -> Json:
    """Return the failing deliveries, and at most :data:`ROWS_SHOWN` other deliveries."""
    others = [name for name, entry in entries.items() if entry.get("state") not in FAILING]
    left_out = set(others[ROWS_SHOWN:])
    return {name: entry for name, entry in entries.items() if name not in left_out}


def _state_map(first: Json, entries: Json) -> RenderableType:
    """Return the fields and counts of *first*, the first page of a message, and a table of *entries*."""
    values = dict(first)
    del values["subscribers"]
    if "counts" in values:
        values["subscribers"] = counts_text(values.pop("counts"))
    fields = fields_table(values, leave_out=("next_cursor",))
    named = [{**entry, "subscription": name} for name, entry in entries.items()]
    return Group(fields, items_table(named, ENTRIES)) if named else fields


ENTRIES: Mapping[str, Column] = {
    "subscription": "subscription",
    "state": "state",
    "attempts": "attempts",
    "last attempt": "last_attempt_at",
    "last outcome": "last_outcome",
}
ATTEMPTS: Mapping[str, Column] = {
    "subscription": "subscription",
    "attempt": lambda attempt: f"{attempt.get('attempt')} of {attempt.get('attempts')}",
    "ended": "ended_at",
    "ms": "took_ms",
    "outcome": "outcome",
    "response": "response",
}


def _attempts_table(answers: Sequence[Json]) -> RenderableType:
    attempts = [
        {**delivery, **attempt}
        for answer in answers
        for delivery in answer.get("deliveries") or []
        for attempt in delivery.get("history") or []
    ]
    if not attempts:
        return Text("No failed attempts yet. Pulls of a group are only counted: leave out --attempts to see them.")
    return items_table(attempts, ATTEMPTS)


Place = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC", help="Name of the topic; default: search all topics.", autocompletion=completion.topics
    ),
]
OptionalId = Annotated[str | None, typer.Argument(metavar="MESSAGE_ID", help="Id of the message: 20 digits.")]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) == ID_DIGITS


def _locate_message(session: Session, place: str | None, message_id: str | None) -> tuple[str, str]:
    """Return the topic and the id of a message. If only *place* is given, it is the id, and the API finds the topic."""
    if message_id is not None and place is not None:
        if _is_id(place) and not _is_id(message_id):
            hint = f"tagcast explain {place} --subscription {message_id}"
            raise typer.BadParameter(f"the topic comes before the id; for a subscription: {hint}")
        return place, message_id
    if place is None or not _is_id(place):
        raise typer.BadParameter("give the id of a message (20 digits), with or without its topic before it")
    found = session.api.request("GET", path_of("messages", place), query={"only": "cancelled"})
    return str(found.json["topic"]), place


def message(
    ctx: typer.Context,
    topic: Place = None,
    message_id: OptionalId = None,
    attempts: Annotated[bool, typer.Option("--attempts", help="Show the last failed attempts.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Only deliveries in this state, e.g. blocked, or failing (all failed states).")
    ] = None,
    cursor: Cursor = None,
    every: EveryPage = False,
) -> None:
    """Show a message, or its receipt: how many deliveries are in each state, then the deliveries, failed ones first.

    Give the id with or without the topic. A page has 1,000 deliveries. With --json, each page is one document.
    """
    session = session_of(ctx)
    topic, message_id = _locate_message(session, topic, message_id)
    path, page = path_of("topics", topic, "messages", message_id), Page(None, cursor, every)
    if attempts:
        answers = session.read(path + "/attempts", replace(page, limit=ATTEMPTED_MAX))
    else:
        answers = session.read(path, page, {"only": only})
    if session.as_json:
        return
    if attempts:
        session.out.print(_attempts_table(answers))
        session.print_next_options(answers[-1], "--all")
        return
    entries = {name: entry for answer in answers for name, entry in (answer.get("subscribers") or {}).items()}
    if every or cursor or only:
        session.out.print(_state_map(answers[0], entries))
        session.print_next_options(answers[-1], "--all")
        print_waiting(session, topic, message_id, entries)
        return
    if "next_cursor" in answers[0]:  # Failing deliveries may be on any page.
        failing = session.api.request("GET", path, query={"only": "failing"}).json["subscribers"]
        entries = failing | {name: entry for name, entry in entries.items() if name not in failing}
    shown = _first_few(entries)
    session.out.print(_state_map(answers[0], shown))
    if left := sum((answers[0].get("counts") or {}).values()) - len(shown):
        session.out.print(Text(f"{left:,} more: --all, or --only STATE", style="dim"))
    print_waiting(session, topic, message_id, entries)


def explain(
    ctx: typer.Context,
    topic: Place = None,
    message_id: OptionalId = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            "--subscription",
            "-s",
            help="Only this subscription, with all details.",
            autocompletion=completion.subscriptions,
        ),
    ] = None,
) -> None:
    """Explain why a subscription did or did not receive a message. Give the id with or without the topic.

    Without --subscription, explain shows one line for each of the first 20 subscriptions of the topic. With --json, it
    prints one document for each of these subscriptions.
    """
    session = session_of(ctx)
    topic, message_id = _locate_message(session, topic, message_id)
    path = path_of("topics", topic, "messages", message_id, "explain")
    if subscription is None:
        _explain_each(session, topic, message_id, path)
        return
    answer = session.api.request("GET", path, query={"subscription": subscription})
    session.show(answer, lambda shown: explanation_tree(f"{message_id} → {subscription}", shown))
    if not session.as_json and (delivery := answer.json.get("delivery")) is not None:
        print_waiting(session, topic, message_id, {subscription: delivery})


def _explain_each(session: Session, topic: str, message_id: str, path: str) -> None:
    """Explain a message for the first :data:`EXPLAINED_MAX` subscriptions of its topic, with one request for each."""
    listed = session.api.request("GET", path_of("topics", topic, "subscriptions"), query={"limit": LISTED_MAX}).json
    names = [str(each["name"]) for each in listed.get("subscriptions") or ()]
    if not names:  # Otherwise the first explanation says that the message does not exist.
        session.api.request("GET", path_of("topics", topic, "messages", message_id))
    explained: list[Json] = []
    for name in names[:EXPLAINED_MAX]:
        answer = session.api.request("GET", path, query={"subscription": name}).json
        if session.as_json:
            session.print_json(answer)
        explained.append({**answer, "subscription": name})
    if session.as_json:
        return
    if not explained:
        session.out.print(f"{topic} has no subscriptions.")
        return
    columns = {name: name for name in ("subscription", "received", "reason")}
    session.out.print(items_table(explained, columns))
    if left := len(names) - len(explained):
        count = f"at least {left}" if listed.get("next_cursor") else left
        session.out.print(Text(f"{count} more subscriptions: tagcast subscription list {topic}", style="dim"))
    parts = Text(
        f"All details of one subscription: tagcast explain {topic} {message_id} --subscription NAME", style="dim"
    )
    session.out.print(parts, soft_wrap=True)
