"""Plays scenario 1 (subscribers that fail) in under a minute: `python -m local.demo`.

In part (a), one subscriber fails from its 101st message on. Only its lane is blocked; after retries it recovers in
order. In part (b), two subscribers lose contact. Their messages are retained, and no other subscriber is delayed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from tagcast_cli.receiver import Push, Receiver, Reply
from tagcast_cli.screen import Rows, console, fault_lines
from tagcast_client import (
    Accepted,
    BackoffRetry,
    Client,
    DecayRetry,
    NewMessage,
    ProblemError,
    Retry,
    UnreachableError,
)
from tagcast_client.models import Head, Lane

from local.demo.stage import StackError, client_for, own_stack, wait_for

DECAY: DecayRetry = {"strategy": "EXPONENTIAL_DECAY_RETRY"}
HEAD_RETRY_S = 2
"""Wall-clock seconds between A's retries, regardless of the time scale."""


@dataclass(frozen=True)
class PromiseCheck:
    """One promise of scenario 1, with the expected value and the value that was found."""

    promise: str
    expected: object
    found: object

    @property
    def holds(self) -> bool:
        """Whether the found value is the expected one."""
        return self.expected == self.found


@dataclass
class Play:
    """One run of the demo, with the results of its checks.

    *interval_s* is subscriber A's retry interval, which the stack shortens by its time scale. *suffix* is added to the
    names of topics.
    """

    api: Client
    out: Console
    interval_s: int
    suffix: str
    checks: list[PromiseCheck] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)

    def say(self, text: str, style: str = "") -> None:
        """Print a line with the time since the start."""
        moment = Text(f"{time.monotonic() - self._begun:5.1f} s  ", style="dim")
        self.out.print(moment + Text(text, style=style), soft_wrap=True)

    def check(self, promise: str, expected: object, found: Callable[[], object], timeout_s: float = 20.0) -> None:
        """Wait at most *timeout_s* seconds until *found* returns *expected*. Store and print the last result."""
        wait_for(lambda: found() == expected, timeout_s)
        self.checks.append(PromiseCheck(promise, expected, found()))
        last = self.checks[-1]
        mark, style = ("✓", "green") if last.holds else ("✗", "bold red")
        self.say(f"{mark} {promise}: {last.found}" + ("" if last.holds else f", not {expected}"), style)

    def failing(self, name: str, fails: Callable[[Push], bool], *, aloud_max: int = 1_000) -> Receiver:
        """Return a receiver that fails a push if *fails* returns True. It prints its first *aloud_max* failures."""
        printed_failures = 0

        def report(push: Push, reply: Reply) -> None:
            nonlocal printed_failures
            if not reply.succeeded and printed_failures < aloud_max:
                printed_failures += 1
                self.say(f"{name} fails its message {push.message_number}, attempt {push.attempt}", "yellow")

        return Receiver(lambda push: Reply(500 if fails(push) else 200), report)

    def publish(self, topic: str, bodies: list[str]) -> list[str]:
        """Publish a message for each body, in batches. Return the message ids in the order of *bodies*."""
        results = self.api.publish_batch(topic, map(NewMessage, bodies))
        return [result.message_id for result in results if isinstance(result, Accepted)]

    def lane(self, topic: str, name: str) -> Lane:
        """Return the lane of a subscription."""
        lane = self.api.get_subscription(topic, name).lane
        assert lane is not None
        return lane

    def remove(self, topic: str) -> None:
        """Delete the topic and its subscriptions A, B and C."""
        for name in "ABC":
            self.api.delete_subscription(topic, name)
        self.api.delete_topic(topic)


def part_a(play: Play, listening: ExitStack) -> None:
    """Run part (a): subscriber A (BACKOFF_RETRY) fails from its 101st message on; B and C receive everything."""
    topic, api = f"test1{play.suffix}", play.api
    recovered = threading.Event()
    a = play.failing("A", lambda push: push.message_number > 100 and not recovered.is_set())
    b, c = play.failing("B", lambda _: False), play.failing("C", lambda _: False)
    api.create_topic(topic)
    backoff: BackoffRetry = {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": play.interval_s}
    retries: tuple[Retry, ...] = (backoff, DECAY, DECAY)
    for name, receiver, retry in zip("ABC", (a, b, c), retries, strict=True):
        listening.callback(receiver.start().stop)
        api.create_subscription(topic, name, receiver.url, retry=retry)
    play.out.rule("Part (a): 200 messages; A (BACKOFF_RETRY) fails from its 101st on", align="left")
    ids = play.publish(topic, [f"message {number}" for number in range(1, 201)])
    play.say(f"200 messages published to {topic}, for A, B and C")
    play.check("C received all 200", 200, lambda: len(c.accepted_ids()))
    play.check("B received all 200", 200, lambda: len(b.accepted_ids()))
    play.check("A received exactly the first 100, in order", True, lambda: a.accepted_ids() == ids[:100])
    play.check("A's backlog: attempted + blocked behind it", "1 + 99", lambda: _attempted_and_blocked(play, topic))
    play.check("the head is A's 101st message", ids[100], lambda: _head_id(play, topic))
    patience_s = 10.0 * HEAD_RETRY_S
    play.check("discarded after 3 failed retries", "discarded", lambda: _state(play, topic, ids[100]), patience_s)
    play.check("attempts of the discarded one", 4, lambda: sum(push.message_id == ids[100] for push in a.refused))
    play.check("the next one is the head now", ids[101], lambda: _head_id(play, topic))
    recovered.set()
    play.say("A recovers", "bold")
    rest = ids[:100] + ids[101:]
    play.check("the rest of A's arrived", 199, lambda: len(a.accepted_ids()), patience_s)
    play.check("… in the order of publication", True, lambda: a.accepted_ids() == rest)
    play.check("A's lane is active again", "active", lambda: play.lane(topic, "A").state)
    play.check("messages still retained", 0, lambda: api.get_topic(topic).retained_messages or 0)
    if play.suffix:
        play.remove(topic)


def _attempted_and_blocked(play: Play, topic: str) -> str:
    backlog = list(play.api.list_backlog(topic, "A", limit=100))
    attempted = sum(delivery.attempts > 0 for delivery in backlog)
    return f"{attempted} + {len(backlog) - attempted}"


def _head_id(play: Play, topic: str) -> str | None:
    head = play.lane(topic, "A").head
    return head.message_id if head else None


def _state(play: Play, topic: str, message_id: str) -> str:
    return play.api.get_message(topic, message_id).subscribers["A"].state


def part_b(play: Play, listening: ExitStack) -> None:
    """Run part (b): subscribers A and B (EXPONENTIAL_DECAY_RETRY) lose contact; C is not affected."""
    topic, api = f"test1b{play.suffix}", play.api
    a = play.failing("A", lambda _: True, aloud_max=3)
    b = play.failing("B", lambda _: True, aloud_max=3)
    c = play.failing("C", lambda _: False)
    api.create_topic(topic)
    for name, receiver in (("A", a), ("B", b), ("C", c)):
        listening.callback(receiver.start().stop)
        api.create_subscription(topic, name, receiver.url, retry=DECAY)
    play.out.rule("Part (b): A and B (EXPONENTIAL_DECAY_RETRY) have lost contact", align="left")
    old = play.publish(topic, [f"old {number}" for number in range(1, 111)])
    play.say(f"110 messages published to {topic}; A and B fail every one")
    play.check("retained for A and B", 110, lambda: api.get_topic(topic).retained_messages or 0)
    play.check("C received the 110", 110, lambda: len(c.accepted_ids()))
    lanes = ["lost_contact", "lost_contact"]
    play.check("A and B", lanes, lambda: [play.lane(topic, name).state for name in "AB"])
    new = play.publish(topic, [f"new {number}" for number in range(1, 101)])
    play.say("100 new ones published")
    play.check("retained, old and new", 210, lambda: api.get_topic(topic).retained_messages or 0)
    play.check("C received exactly the 100 new", True, lambda: sorted(c.accepted_ids()) == sorted(old + new))
    play.check("backlogs of A and B", [210, 210], lambda: [play.lane(topic, name).backlog for name in "AB"])
    _check_push(play, topic)
    play.check("still retained", 210, lambda: api.get_topic(topic).retained_messages or 0)
    if play.suffix:
        play.remove(topic)


def _check_push(play: Play, topic: str) -> None:
    def heads() -> list[Head | None]:
        return [play.lane(topic, name).head for name in "AB"]

    def is_quiet() -> bool:
        before = heads()
        time.sleep(0.3)
        return heads() == before and all(_seconds_until(head) > 1.5 for head in before)

    # Retry now between two scheduled retries, so that only this request could change the lanes.
    wait_for(is_quiet, 30.0)
    before = heads()
    touched = list(play.api.retry_topic(topic))
    time.sleep(0.5)
    play.check("lanes changed by retrying the topic", [], lambda: touched, 0)
    play.check("A's and B's heads are as before it", True, lambda: heads() == before, 0)


def _seconds_until(head: Head | None) -> float:
    if head is None or head.next_attempt_at is None:
        return 0.0
    return (head.next_attempt_at - datetime.now(UTC)).total_seconds()


def play_all(url: str, out: Console, time_scale: float, suffix: str = "") -> bool:
    """Play both parts against the stack at *url*, whose waits are *time_scale* times shorter.

    Return whether every promise was kept. *suffix* is added to the names of topics.
    """
    interval_s = max(1, round(HEAD_RETRY_S * time_scale))
    play = Play(client_for(url), out, interval_s, suffix)
    with ExitStack() as listening:
        part_a(play, listening)
    with ExitStack() as listening:
        part_b(play, listening)
    rows = [
        [Text("✓", "green") if check.holds else Text("✗", "red"), check.promise, check.expected, check.found]
        for check in play.checks
    ]
    out.print(Rows(rows, ("", "promise", "expected", "found"), "Scenario 1"))
    return all(check.holds for check in play.checks)


def demo(
    url: Annotated[str | None, typer.Option(help="Play against this stack instead of a fresh one.")] = None,
    time_scale: Annotated[
        float | None, typer.Option(min=1, help="How much faster waits pass: 20, or 1 with --url.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Show the log of the stack, too.")] = False,
) -> None:
    """Play scenario 1 and check its promises. Exit with code 1 if a promise was broken."""
    out = console()
    try:
        if url is not None:
            # With a suffix, because the user's own stack may have topics of these names.
            holds = play_all(url, out, time_scale or 1, f"-{secrets.token_hex(3)}")
        else:
            out.print("Starting a stack of its own …")
            with own_stack(time_scale or 20, show_log=log) as own_url:
                holds = play_all(own_url, out, time_scale or 20)
    except StackError as error:
        out.print(Text(f"The stack did not start: {error.reason}\n{error.log}", style="red"))
        raise typer.Exit(1) from None
    except ProblemError as refused:
        out.print(fault_lines(refused.problem, refused.status))
        raise typer.Exit(1) from None
    except UnreachableError as unreachable:
        out.print(Text(f"No response from {unreachable.url}: is `make run` running?", style="red"))
        raise typer.Exit(1) from None
    raise typer.Exit(0 if holds else 1)


if __name__ == "__main__":
    typer.run(demo)
