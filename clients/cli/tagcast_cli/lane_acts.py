"""`tagcast lanes retry`, `pause`, `resume` and `skip`: one action on many lanes, with preview and progress."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from tagcast_client import Client, TagcastError
from tagcast_client.models import ActedLane, ActedLanes
from tagcast_client.operation import Json, drop_none

from tagcast_cli.lanes import Selection
from tagcast_cli.lanes import lanes as lanes
from tagcast_cli.options import with_options
from tagcast_cli.screen import count_noun, items_table
from tagcast_cli.session import Session, session_of
from tagcast_cli.visible import visible_line

PAGE, NAMED_MAX, REASONS_MAX = 100, 10, 20
LANES_OF_A_REQUEST, AT_ONCE = 10, 4
"""Each request has 10 lanes, and 4 requests run concurrently, so an interrupt waits for few lanes."""
PROGRESS_EVERY_S = 5.0
INTERRUPTED = 130
MEANS: Mapping[str, str] = {
    "retry": "The head of each lane is attempted now, regardless of the schedule. If it succeeds, the rest follows.",
    "pause": "No attempts are made until you resume these lanes. Their backlogs wait and still expire.",
    "resume": "The lanes make attempts again, starting with their heads.",
    "skip": "The head of each lane is cancelled permanently: {}. A lane with another head does not change.",
}

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the preview only.")]


def _add_command(verb: str, request: Callable[..., ActedLanes], help: str) -> None:
    """Add the command *verb* to `tagcast lanes`, for a request that needs no reason."""

    @lanes.command(verb, help=f"{help}, after a preview. Exits 1 if a lane failed.")
    @with_options
    def act_on_lanes(ctx: typer.Context, selection: Selection, yes: Yes = False, dry_run: DryRun = False) -> None:
        session = session_of(ctx)
        _run(session, Act(verb, selection, partial(request, session.api)), yes=yes, dry_run=dry_run)


_add_command("retry", Client.retry_lanes, "Retry the heads of the selected lanes now")
_add_command("pause", Client.pause_lanes, "Pause the selected lanes")
_add_command("resume", Client.resume_lanes, "Resume the selected lanes that are paused or suspended")


@lanes.command("skip")
@with_options
def skip_lanes(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Reason; recorded with each delivery.")],
    selection: Selection,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Cancel the heads of the selected lanes, after a preview. Exits 1 if a lane failed.

    The command cancels only the messages of the preview. A lane that has another head by then does not change.
    """
    session = session_of(ctx)
    _run(session, Act("skip", selection, partial(session.api.skip_lanes, reason)), yes=yes, dry_run=dry_run)


@dataclass(frozen=True)
class Act:
    """One action on selected lanes. *request* is the client's method for the action."""

    verb: str
    selection: Selection
    request: Callable[..., ActedLanes]

    def preview(self) -> Iterator[ActedLanes]:
        """Yield the results of a dry run for all selected lanes, page by page."""
        cursor = None
        while True:
            page = self.request(**self.selection.parameters, dry_run=True, limit=PAGE, cursor=cursor)
            yield page
            if (cursor := page.next_cursor) is None:
                return

    def carry_out(self, lanes: Sequence[ActedLane]) -> ActedLanes:
        """Act on the given lanes in one request. If the request fails, the result of each lane is `failed`."""
        named = [
            {"topic": lane.topic, "subscription": lane.subscription}
            | ({"message_id": str(lane.message_id)} if self.verb == "skip" else {})
            for lane in lanes
        ]
        try:
            return self.request(lanes=named)
        except TagcastError as fault:
            error = {"detail": str(fault)}
            failed = tuple(ActedLane(lane.topic, lane.subscription, "failed", error=error) for lane in lanes)
            return ActedLanes(len(failed), 0, 0, 0, len(failed), failed, None)


@dataclass
class Outcome:
    """The results for the lanes so far. *total* is the number of lanes to act on; Ctrl-C sets *is_interrupted*."""

    total: int
    lanes: list[ActedLane] = field(default_factory=list)
    is_interrupted: bool = False

    def lanes_with(self, result: str) -> list[ActedLane]:
        """Return the lanes with this result."""
        return [lane for lane in self.lanes if lane.result == result]

    @property
    def numbers(self) -> str:
        """The numbers of changed, unchanged and failed lanes."""
        words = {"changed": "done", "unchanged": "unchanged", "failed": "failed"}
        return ", ".join(f"{len(self.lanes_with(result))} {word}" for result, word in words.items())

    @property
    def line(self) -> str:
        """The progress as one line."""
        return f"{len(self.lanes)} of {self.total}: {self.numbers}"


def _run(session: Session, act: Act, *, yes: bool, dry_run: bool) -> None:
    if session.as_json and not (yes or dry_run):
        raise typer.BadParameter("give --yes or --dry-run with --json", param_hint="--json")
    found: list[ActedLane] = []
    for page in act.preview():
        if session.as_json and dry_run:
            session.print_json(_results_json(page))
        found += page.lanes
    planned = list({(lane.topic, lane.subscription): lane for lane in found if lane.result == "planned"}.values())
    if not session.as_json:
        _print_preview(session.out, act.verb, planned, [lane for lane in found if lane.result != "planned"])
    if dry_run or not planned:
        return
    if not yes:
        typer.confirm("Continue?", abort=True)
    outcome = _carry_out(session, act, planned)
    if not session.as_json:
        _print_outcome(session.out, outcome)
    if outcome.is_interrupted:
        raise typer.Exit(INTERRUPTED)
    if outcome.lanes_with("failed"):
        raise typer.Exit(1)


def _carry_out(session: Session, act: Act, lanes: Sequence[ActedLane]) -> Outcome:
    """Act on all lanes, with a few concurrent requests. After an interrupt, only started requests are completed."""
    parts = [lanes[place : place + LANES_OF_A_REQUEST] for place in range(0, len(lanes), LANES_OF_A_REQUEST)]
    outcome, progress = Outcome(len(lanes)), _Progress(is_silent=session.as_json)
    waiting, running = iter(parts), set[Future[ActedLanes]]()

    def take(done: Future[ActedLanes]) -> None:
        part = done.result()
        outcome.lanes.extend(part.lanes)
        if session.as_json:
            session.print_json(_results_json(part))
        progress.show(outcome)

    with ThreadPoolExecutor(AT_ONCE) as workers:
        try:
            while True:
                while len(running) < AT_ONCE and (part := next(waiting, None)) is not None:
                    running.add(workers.submit(act.carry_out, part))
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    running.remove(done)
                    take(done)
        except KeyboardInterrupt:
            outcome.is_interrupted = True
            for done in wait(running).done:
                take(done)
    progress.end()
    return outcome


class _Progress:
    """Shows progress: one updated line in a terminal, otherwise a line every few seconds, or nothing if silent."""

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent, self._is_terminal = is_silent, sys.stderr.isatty()
        self._reported_at = time.monotonic()

    def show(self, outcome: Outcome) -> None:
        """Show the progress."""
        if self._is_silent:
            return
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{outcome.line}")
            sys.stderr.flush()
        elif time.monotonic() - self._reported_at >= PROGRESS_EVERY_S:
            self._reported_at = time.monotonic()
            typer.echo(outcome.line, err=True)

    def end(self) -> None:
        """Clear the line."""
        if self._is_terminal and not self._is_silent:
            sys.stderr.write("\r\x1b[K")


def _results_json(part: ActedLanes) -> Json:
    return {**asdict(part), "lanes": [drop_none(**asdict(lane)) for lane in part.lanes]}


def _print_preview(out: Console, verb: str, planned: Sequence[ActedLane], others: Sequence[ActedLane]) -> None:
    if not planned and not others:
        out.print("No lanes match.")
        return
    topics = len({lane.topic for lane in planned})
    out.print(
        Text(f"{verb.capitalize()} {count_noun(len(planned), 'lane')} in {count_noun(topics, 'topic')}", style="bold")
    )
    if planned:
        out.print(MEANS[verb].format(count_noun(len(planned), "message")))
        columns = {"state": "state", "topic": "topic", "subscription": "subscription", "head": "message_id"}
        out.print(items_table(map(asdict, planned[:NAMED_MAX]), columns))
    if len(planned) > NAMED_MAX:
        out.print(f"… and {count_noun(len(planned) - NAMED_MAX, 'more lane')}.")
    for reason, number in Counter(map(_reason, others)).most_common(REASONS_MAX):
        out.print(f"{count_noun(number, 'matching lane')} will not change: {visible_line(reason)}")


def _print_outcome(out: Console, outcome: Outcome) -> None:
    if outcome.is_interrupted:
        left = outcome.total - len(outcome.lanes)
        out.print(Text(f"Stopped: {outcome.numbers}, {left} not started.", style="yellow"))
    else:
        out.print(f"{count_noun(outcome.total, 'lane')}: {outcome.numbers}.")
    for result, style in (("unchanged", "yellow"), ("failed", "red")):
        lanes = outcome.lanes_with(result)
        for lane in lanes[:REASONS_MAX]:
            line = f"{result}: {lane.topic} / {lane.subscription}: {_reason(lane)}"
            out.print(Text(visible_line(line), style=style), soft_wrap=True)
        if len(lanes) > REASONS_MAX:
            out.print(f"… and {len(lanes) - REASONS_MAX} more {result}.")


def _reason(lane: ActedLane) -> str:
    error = lane.error or {}
    return str(error.get("detail") or error.get("title") or "no reason given")
