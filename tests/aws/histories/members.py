"""Members of groups: they pull, work for a while, and say what came of it, late or twice or never."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.aws.histories.asked import GROUP
from tests.aws.histories.member_checks import Held, Pulling, Saying
from tests.aws.http_api import Answer
from tests.simulation.plan import Action

if TYPE_CHECKING:
    from tests.aws.histories.history import History

DEEDS = {"ack": 8, "ack later": 4, "ack late": 2, "ack twice": 2, "nack": 4, "extend": 3, "die": 4, "stray": 1}
LATER_MS, LATE_MS = (500, 9_000), (500, 150_000)
LEFT_PAUSED = 0.1
"""The share of histories in which nobody resumes paused groups: what lies in their queues is left to the search."""


class Members:
    """All members of all groups of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._dice = Random(f"members {history.plan.seed}")
        self._groups = [each.name for each in history.plan.subscribers if each.mode == GROUP]
        self._drains = False

    def act(self, action: Action) -> None:
        """Let one to three members of a group pull at once."""
        dice = self._dice
        for _ in range(dice.choice((1, 1, 2, 3))):
            most, wait_s, visibility_timeout_s = (
                dice.choice((1, 3, 10, 32)),
                dice.choice((0, 0, 1, 5)),
                dice.choice((10, 30, 90)),
            )
            self._pull(Pulling(action.subscriber, most, visibility_timeout_s, self._history.now), wait_s, self._works)

    def settle(self) -> bool:
        """Resume the groups that are paused, mostly, and pull for them from now on; say whether there are any."""
        history = self._history
        self._drains = self._dice.random() >= LEFT_PAUSED
        for name in self._groups if self._drains else ():
            history.deployment.api.ask("POST", (*self._path(name), "resume"), lambda answer: None, label="resume")
        return bool(self._groups)

    def drain(self) -> None:
        """Let a member of each group pull and acknowledge whatever lies in its queue."""
        for name in self._history.checks.groups.waiting() if self._drains else ():
            self._pull(Pulling(name, 32, 30, self._history.now), 0, lambda held: self._say("ack", held))

    def _pull(self, asked: Pulling, wait_s: int, works: Callable[[Sequence[Held]], None]) -> None:
        body = {
            "max_messages": asked.most,
            "wait_seconds": wait_s,
            "visibility_timeout_seconds": asked.visibility_timeout_s,
        }

        def then(answer: Answer) -> None:
            held = self._history.checks.members.pulled(asked, answer)
            if held:
                works(held)

        self._ask(asked.group, "pull", body, then)

    def _works(self, held: Sequence[Held]) -> None:
        """Do one thing with all that was pulled, or something with each message."""
        parts = [held] if self._dice.random() < 0.5 else [[each] for each in held]
        for part in parts:
            self._does(self._dice.choices(tuple(DEEDS), tuple(DEEDS.values()))[0], part)

    def _does(self, deed: str, held: Sequence[Held]) -> None:
        dice, after = self._dice, self._history.timeline.after
        match deed:
            case "ack":
                self._say("ack", held)
            case "ack later":
                after(dice.randrange(*LATER_MS), lambda: self._say("ack", held))
            case "ack late":
                after(dice.randrange(*LATE_MS), lambda: self._say("ack", held))
            case "ack twice":
                self._say("ack", held)
                after(dice.randrange(*LATER_MS), lambda: self._say("ack", held))
            case "nack":
                after(dice.randrange(*LATER_MS), partial(self._say, "nack", held, dice.choice((0, 0, 3, 40))))
            case "extend":
                after(dice.randrange(*LATER_MS), partial(self._say, "extend", held, dice.choice((10, 60))))
                after(dice.randrange(10_000, 40_000), lambda: self._say("ack", held))
            case "stray":
                self._say("ack", held, group=dice.choice(self._groups))
            case _:
                self._history.note("a member dies with {}", [each.message_id for each in held])

    def _say(self, verb: str, held: Sequence[Held], seconds: int = 0, group: str = "") -> None:
        checks = self._history.checks.members
        saying = Saying(verb, group or held[0].group, tuple(held), seconds, self._history.now)
        body: dict[str, Any] = {"receipt_handles": [each.handle for each in held]}
        if verb == "nack":
            body["delay_seconds"] = seconds
        if verb == "extend":
            body["visibility_timeout_seconds"] = seconds
        checks.said(saying)
        self._ask(saying.group, verb, body, lambda answer: checks.told(saying, answer))

    def _ask(self, group: str, verb: str, body: dict[str, Any], then: Callable[[Answer], None]) -> None:
        history, label = self._history, f"{verb} of {group}"

        def answered(answer: Answer) -> None:
            history.note("{} is answered {} {}", label, answer.status, answer.body[:300])
            then(answer)

        history.deployment.api.ask("POST", (*self._path(group), verb), answered, body=body, label=label)

    def _path(self, group: str) -> tuple[str, ...]:
        return ("topics", self._history.plan.topic, "subscriptions", group)
