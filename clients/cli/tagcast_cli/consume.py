"""`tagcast consume`: a member of a consumer group in the terminal, with one line per message."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text
from tagcast_client import Consumer, ConsumerOptions, ConsumeStatus, Filter, Later, MessageModel, Pulled
from tagcast_client.consuming import member_id as new_member_id
from tagcast_client.instants import instant
from tagcast_client.operation import Json
from tagcast_client.threads import Listener

from tagcast_cli.content import message_of
from tagcast_cli.filters import FilterOptions
from tagcast_cli.groups import GroupName
from tagcast_cli.instant import duration
from tagcast_cli.listen import UNPRINTED, LinePrinter, append_content, begin_line
from tagcast_cli.options import with_options
from tagcast_cli.session import Session, TopicName, session_of
from tagcast_cli.visible import visible_line

StartFrom = Annotated[
    str, typer.Option("--from", metavar="WHEN", help="Start of a new group: latest, earliest, or an instant.")
]


def pulled_line(message: Pulled, verdict: str) -> Text:
    """Return a pulled message in one line: time, source, id, attempt, *verdict*, tags and body.

    *verdict* is ``done``, or says when the message comes again.
    """
    line = begin_line()
    line.append(f" {visible_line(f'{message.topic}/{message.subscription}')}", style="cyan")
    line.append(f" {visible_line(message.message_id)} attempt {message.attempt} ")
    line.append(verdict, style="green" if verdict == "done" else "yellow")
    return append_content(line, message.tags, message.body)


def _pulled_json(message: Pulled) -> Json:
    return {**{name: value for name, value in asdict(message).items() if name != "body"}, **message_of(message.body)}


def _listener(lines: LinePrinter, later: int | None) -> Listener:
    verdict = "done" if later is None else f"again in {later} s"

    def listener(messages: Sequence[Pulled]) -> ConsumeStatus | Later | None:
        try:
            for message in messages:
                lines.print(pulled_line(message, verdict), _pulled_json(message))
        except UNPRINTED:
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
    """Join a consumer group, print its messages and acknowledge them. If the group does not exist, it is created.

    Give the filter of the group. Without a filter option, the filter matches everything. A group with another filter
    refuses this consumer, and the error lists the differences.
    """
    session = session_of(ctx)
    wanted = filter.filter()
    try:
        begins = instant(start_from)
    except ValueError:
        raise typer.BadParameter(f"{start_from} has no time zone: {start_from}Z is UTC", param_hint="--from") from None
    options = ConsumerOptions(
        member_version="tagcast consume",
        consume_thread_max=1,
        member_id=member_id or new_member_id(),
        message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
        ordered=ordered,
        start_from=begins,
    )
    lines = LinePrinter(session, stop_after)
    consumer = Consumer(session.api, name, options, on_error=lambda fault: session.warn(str(fault)))
    consumer.subscribe(topic, Filter.from_json(wanted))
    consumer.register_message_listener(_listener(lines, later))
    if not session.as_json:
        session.out.print(Text(f"Joining {name} of {topic} as {options.member_id} — press Ctrl-C to stop."))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _run(session, consumer, lines)


def _run(session: Session, consumer: Consumer, lines: LinePrinter) -> None:
    try:
        consumer.start()
        lines.wait()
    except KeyboardInterrupt:  # Also during the first heartbeat.
        session.warn("Leaving the group …")
    finally:
        consumer.shutdown()
