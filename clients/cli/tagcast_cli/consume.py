"""`tagcast consume`: a member of a consumer group in the terminal, with one line per message."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text
from tagcast_client import Consumer, ConsumerOptions, ConsumeStatus, Filter, Later, MessageModel, Pulled
from tagcast_client.consuming import member_id as new_member_id
from tagcast_client.instants import instant
from tagcast_client.threads import Listener

from tagcast_cli.content import message_of
from tagcast_cli.filters import FilterOptions
from tagcast_cli.groups import GroupName
from tagcast_cli.instant import duration
from tagcast_cli.listen import UNPRINTED, body_text
from tagcast_cli.options import with_options
from tagcast_cli.session import Session, TopicName, session_of
from tagcast_cli.visible import visible_line

OPTIONS = ConsumerOptions(member_version="tagcast consume", consume_thread_max=1)


StartFrom = Annotated[
    str,
    typer.Option("--from", metavar="WHEN", help="Start of a new group: latest, earliest, or an instant."),
]


def pulled_line(message: Pulled, verdict: str) -> Text:
    """Return a pulled message in one line: time, source, id, attempt and result."""
    line = Text(datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3], style="dim")
    line.append(f" {visible_line(f'{message.topic}/{message.subscription}')}", style="cyan")
    line.append(f" {visible_line(message.message_id)} attempt {message.attempt} ")
    line.append(verdict, style="green" if verdict == "done" else "yellow")
    if message.tags:
        line.append(f" [{visible_line(', '.join(message.tags))}]", style="magenta")
    line.append(f" {visible_line(body_text(message.body))}")
    return line


def _pulled_json(message: Pulled) -> dict[str, object]:
    return {**{name: value for name, value in asdict(message).items() if name != "body"}, **message_of(message.body)}


def _listener(
    session: Session,
    later: int | None,
    stop_after: int | None,
    enough: threading.Event,
    faults: list[BaseException],
) -> Listener:
    seen = 0

    def listener(messages: Sequence[Pulled]) -> ConsumeStatus | Later | None:
        nonlocal seen
        try:
            for message in messages:
                seen += 1
                if session.as_json:
                    session.print_json(_pulled_json(message))
                else:
                    verdict = "done" if later is None else f"again in {later} s"
                    session.out.print(pulled_line(message, verdict), soft_wrap=True)
        except UNPRINTED as fault:
            faults.append(fault)
        if faults or (stop_after is not None and seen >= stop_after):
            enough.set()
        if faults:
            return ConsumeStatus.RECONSUME_LATER
        return None if later is None else Later(later)

    return listener


@with_options
def consume(
    ctx: typer.Context,
    topic: TopicName,
    name: GroupName,
    filter: FilterOptions,
    member_id: Annotated[
        str | None, typer.Option(help="Id of this consumer; default: host, process and a random part.")
    ] = None,
    broadcast: Annotated[bool, typer.Option("--broadcast", help="Receive every message, not a share of them.")] = False,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Ordered: one member at a time gets messages of the topic or a key.")
    ] = False,
    start_from: StartFrom = "latest",
    later: Annotated[
        int | None,
        duration(longest_s=43_200, help="Nack every message; it becomes visible again after this time, at most 12h."),
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N or more messages; default: on Ctrl-C.")
    ] = None,
) -> None:
    """Join a consumer group, print its messages and acknowledge them. A missing group is created.

    Without a filter option the group receives everything. A group with another filter refuses this consumer, and lists
    the differences.
    """
    session = session_of(ctx)
    wanted = filter.filter()
    try:
        begins = instant(start_from)
    except ValueError:
        raise typer.BadParameter(f"{start_from} has no time zone: {start_from}Z is UTC", param_hint="--from") from None
    options = replace(
        OPTIONS,
        member_id=member_id or new_member_id(),
        message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
        ordered=ordered,
        start_from=begins,
    )
    enough, faults = threading.Event(), list[BaseException]()
    consumer = Consumer(session.api, name, options, on_error=lambda fault: session.warn(str(fault)))
    consumer.subscribe(topic, Filter.from_json(wanted))
    consumer.register_message_listener(_listener(session, later, stop_after, enough, faults))
    if not session.as_json:
        session.out.print(Text(f"Joining {name} of {topic} as {options.member_id} — press Ctrl-C to stop."))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _run(session, consumer, enough)
    if faults:
        raise faults[0]


def _run(session: Session, consumer: Consumer, enough: threading.Event) -> None:
    try:
        consumer.start()
        while not enough.wait(0.5):
            pass
    except KeyboardInterrupt:  # Also during the first heartbeat.
        session.warn("Leaving the group …")
    finally:
        consumer.shutdown()
