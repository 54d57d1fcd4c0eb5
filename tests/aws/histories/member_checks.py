"""What members of groups get and are told on the box, against what their groups' queues gave and the table says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tests.aws.http_api import Answer
from tests.aws.queues import QueuedMessage
from tests.simulation.ledger import Attempt, Change, Ledger, Reply, body_in, ordinal_in

UNANSWERED = (429, 500, 502, 503, 504)
TOLD = {"ack": "acknowledged", "nack": "returned", "extend": "extended"}


@dataclass(eq=False)
class Given(Attempt):
    """A message as a group's queue gave it to a process, perhaps to be lost on its way to a member."""

    queued: QueuedMessage | None = None
    step: int = 0
    arrived: bool = False
    """Whether a member got it."""


@dataclass(frozen=True)
class Pulling:
    """A pull of a member: so many messages, to be alone with them so long."""

    group: str
    most: int
    visibility_timeout_s: int
    asked_at: int


@dataclass(eq=False)
class Held:
    """A message in a member's hands: nobody else gets it before *until*.

    Its handle is good until *least* at least, and worth nothing after *most*.
    """

    group: str
    given: Given
    handle: str
    until: int
    least: int
    most: int
    sayings: int = 0

    @property
    def message_id(self) -> str:
        return self.given.message_id

    @property
    def key(self) -> tuple[str, int]:
        return self.given.message_id, self.given.ordinal


@dataclass(frozen=True)
class Saying:
    """What a member says of what it has, and how long it was promised to be alone with each when it said so."""

    verb: str
    group: str
    held: tuple[Held, ...]
    seconds: int
    asked_at: int


class MemberChecks:
    """Members get what is theirs, alive and as often as it may be; what they are told is what the table says."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.held: dict[int, list[Held]] = defaultdict(list)
        """What members of a group got, by its ordinal."""
        self._paused_since: dict[int, int] = {}

    def committed(self, changes: list[Change]) -> None:
        """Take down since when a lane is as it is."""
        for key, old, new in changes:
            if key.pk.startswith("LANES#") and (new or {}).get("state") != (old or {}).get("state"):
                self._paused_since[ordinal_in(key.sk)] = self.ledger.now

    def pulled(self, asked: Pulling, answer: Answer) -> Sequence[Held]:
        """Check what a member got; return it."""
        if answer.status in (*UNANSWERED, 404):
            return ()
        if answer.status != 200:
            self._surprised(f"a pull of {asked.group}", answer)
        messages = answer.value["messages"]
        ids = [each["message_id"] for each in messages]
        if len(ids) > asked.most or len(set(ids)) < len(ids):
            self.ledger.fail("pulls", f"a pull of {asked.most} from {asked.group} got {ids}")
        return [self._got(asked, each) for each in messages]

    def _got(self, asked: Pulling, message: dict[str, Any]) -> Held:
        ledger, message_id = self.ledger, message["message_id"]
        told = f"a member of {asked.group} got {message_id} ({message['attempt']})"
        given = self._given(asked, message)
        if given is None:
            ledger.fail("matching", f"{told}, which no queue of that group gave")
        given.arrived = True
        row, owner = ledger.accepted[message_id], ledger.owner(given.ordinal)
        had = (message["body"].encode(), message["tags"], message["ordering_key"])
        if had != (body_in(row), row.get("tags", []), row.get("ordering_key")):
            ledger.fail("immutable", f"{told} with other content")
        if ledger.clocks_agree and given.began_at >= row["expires_at"]:
            ledger.fail("7 life", f"{told} after its expiry")
        if given.number > owner["max_retries"] + 1:
            ledger.fail("attempts and gaps", f"{told} of {owner['max_retries'] + 1}")
        if ledger.ended_at.get((message_id, given.ordinal), given.step) < given.step:
            ledger.fail("5 what has ended is given to nobody", told)
        self._not_paused(told, given, asked)
        hidden_ms = 1000 * asked.visibility_timeout_s
        until, most = given.began_at + hidden_ms, ledger.now + hidden_ms
        held = Held(asked.group, given, message["receipt_handle"], until, until, most)
        self.held[given.ordinal].append(held)
        return held

    def _given(self, asked: Pulling, message: dict[str, Any]) -> Given | None:
        """Return what a queue gave that a member may have got with this pull; of several the latest."""
        for (message_id, ordinal), attempts in self.ledger.attempts.items():
            if message_id != message["message_id"] or self.ledger.owner(ordinal)["name"] != asked.group:
                continue
            for each in reversed(attempts):
                is_it = isinstance(each, Given) and each.number == message["attempt"] and not each.arrived
                if is_it and each.began_at >= asked.asked_at:
                    assert isinstance(each, Given)
                    return each
        return None

    def _not_paused(self, told: str, given: Given, asked: Pulling) -> None:
        lane = self.ledger.lanes.get(f"{self.ledger.topic['topic_id']}.{given.ordinal}", {})
        if lane.get("state") == "paused" and self._paused_since[given.ordinal] < asked.asked_at:
            self.ledger.fail("a paused group gives nothing", told)

    def said(self, saying: Saying) -> None:
        """Take down what a member is about to say: from now on others may get what it gives up."""
        ledger = self.ledger
        for held in saying.held:
            if saying.group != held.group:
                continue
            held.sayings += 1
            is_good = saying.asked_at < held.most or not ledger.clocks_agree
            if saying.verb == "ack" and is_good and held.given.reply is None:
                held.given.reply, held.given.ended_at = Reply(200, "acknowledged", 0), ledger.now
            hidden_ms = 1000 * saying.seconds if saying.verb == "extend" else 0
            held.until = min(held.until, ledger.now + hidden_ms)

    def told(self, saying: Saying, answer: Answer) -> None:
        """Check what a member is told of what it said."""
        if answer.status in (*UNANSWERED, 404):
            return
        if answer.status != 200:
            self._surprised(f"{saying.verb} of {saying.group}", answer)
        results = answer.value["results"]
        if [each["receipt_handle"] for each in results] != [each.handle for each in saying.held]:
            self.ledger.fail("members are told", f"{saying} was answered {results}")
        for held, result in zip(saying.held, results, strict=True):
            self._one_told(saying, held, result)

    def _one_told(self, saying: Saying, held: Held, result: dict[str, Any]) -> None:
        ledger, status = self.ledger, result["status"]
        terminal = ledger.receipts[held.message_id].terminal(held.given.ordinal)
        told = f"{saying.verb} of {held.message_id} ({held.given.number}) to {saying.group} is {status}: {terminal}"
        if saying.group != held.group or held.given.ordinal in ledger.removed:
            holds = saying.group == held.group or status == "unknown"
        elif status == "acknowledged":
            holds = terminal == ("delivered", held.given.number) and held.given.reply is not None
        elif status == "already_acknowledged":
            holds = terminal is not None and terminal[0] == "delivered"
        elif status == "over":
            holds = terminal is not None and terminal[0] != "delivered"
        elif status == "expired":
            holds = held.sayings > 1 or not ledger.clocks_agree or ledger.now >= held.least
        else:
            holds = status == TOLD[saying.verb]
        if not holds:
            ledger.fail("members are told", told)
        if status == "returned" and held.sayings == 1:
            held.until = saying.asked_at + 1000 * saying.seconds
        if status == "extended":
            held.handle = result["new_receipt_handle"]
            held.until = held.least = saying.asked_at + 1000 * saying.seconds
            held.most = ledger.now + 1000 * saying.seconds

    def _surprised(self, told: str, answer: Answer) -> NoReturn:
        self.ledger.fail("no surprise", f"{told} was answered {answer.status}: {answer.body[:200]!r}")
