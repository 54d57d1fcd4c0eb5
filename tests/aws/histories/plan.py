"""What a history on the box is made of, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tagcast.model import (
    Draft,
    Ordering,
)

from tests.aws.faults import Kind
from tests.aws.histories.asked import asking, grouped, questioned, with_letters, with_pulls, with_verifying
from tests.simulation.asked import rules_for, settings_of
from tests.simulation.plan import (
    ANYTHING,
    MODES,
    OPERATIONS,
    PRICES,
    ROUTING_KEYS,
    TAG_SETS,
    Action,
    Aim,
    Plan,
    Subscriber,
    section_max,
    slice_max,
)
from tests.simulation.rules import Rule

FAULTS = {
    "crash": "a process dies in the middle of a call of AWS",
    "timeout": "an invocation is killed long before its work is done",
    "stall": "a process stands still for up to 100 s",
    "throttled": "a call is refused for its rate",
    "failed": "a call fails and nothing was done",
    "failed_after": "a call fails although it was done",
    "lost_answer": "the answer of a call that was done is lost",
    "unanswered": "no answer comes until the client gives up",
    "unreachable": "no connection to a service is made",
    "spoiled": "some entries of a batch fail, some keys stay unprocessed, some rows are in conflict",
    "outage": "a service is away for minutes to hours",
    "reclaimed": "idle environments are gone when they are needed",
    "refused": "functions have no capacity",
    "queue_copy": "two environments get the same batch at once",
    "queue_ack_loss": "the removal of served messages is lost",
    "task_copy": "a task of the workflow runs twice",
    "stream_rewind": "a stream's mapping goes back to an earlier checkpoint",
    "sweep_lost": "an event of the schedule never comes",
    "skew": "clocks of processes differ by up to 5 minutes",
    "jump": "a clock jumps by up to 5 minutes",
    "ttl": "the time to live takes rows at once, up to 72 h late, or never",
    "endpoint": "a healthy receiver fails now and then",
    "judge": "a filter function fails",
}
KINDS = {
    "throttled": Kind.THROTTLED,
    "failed": Kind.FAILED_BEFORE,
    "failed_after": Kind.FAILED_AFTER,
    "lost_answer": Kind.LOST_ANSWER,
    "unanswered": Kind.UNANSWERED,
    "unreachable": Kind.UNREACHABLE,
}
RECEIVERS = (*MODES, "refused", "silent", "hanging_up")
"""The modes of the quick simulation, and what only a network can do."""
SERVICES = ("dynamodb", "sqs", "stepfunctions", "s3", "firehose", "lambda")
OUTAGES_MS = (120_000, 900_000, 3_600_000, 21_600_000)
BODY_BYTES_MAX = 262_144


@dataclass(frozen=True)
class Outage:
    """A service that is away; the instants count from the beginning of the history."""

    service: str
    began_ms: int
    ended_ms: int
    kind: Kind


@dataclass(frozen=True)
class AwsPlan(Plan):
    """A plan of the quick simulation, with what only the box can do."""

    outages: tuple[Outage, ...] = ()
    shards: int = 2
    questioned: frozenset[str] = frozenset()
    """Those whose endpoints have to agree before they are pushed to."""


def draw_plan(seed: int, aim: Aim = ANYTHING) -> AwsPlan:
    """Return the plan of one seed: the same on every machine."""
    dice = Random(f"aws plan {seed}")
    ordering = dice.choice((Ordering.TOPIC, Ordering.TOPIC, Ordering.KEY, Ordering.KEY, Ordering.NONE))
    retention_s = dice.choice((60, 60, 120, 300, 900, 3_600)) if dice.random() < 0.95 else dice.choice((28_800, 86_400))
    rules = rules_for(aim)
    subscribers = with_letters(seed, grouped(seed, aim, asking(seed, aim, _subscribers(dice, aim, rules))))
    asked = questioned(seed, subscribers)
    calm = dice.random() < 0.15
    actions = _actions(dice, aim, ordering, subscribers, rules)
    faults = frozenset() if calm else frozenset(fault for fault in FAULTS if dice.random() < 0.35)
    if dice.random() < 0.6:
        faults -= {"outage"}
    faults = frozenset(aim.faults) if aim.only_these_faults else faults | frozenset(aim.faults)
    return AwsPlan(
        seed=seed,
        ordering=ordering,
        retention_s=aim.retention_s or retention_s,
        subscribers=subscribers,
        actions=with_pulls(seed, subscribers, with_verifying(seed, asked, actions)),
        faults=faults,
        rate=aim.rate or dice.choice((0.003, 0.01, 0.03)),
        outages=_outages(dice) if "outage" in faults else (),
        shards=dice.choice((1, 2, 2, 4)),
        questioned=asked,
        section_max=section_max(seed, aim.wide),
        slice_max=slice_max(seed, aim.parted),
    )


def _subscribers(dice: Random, aim: Aim, rules: tuple[Rule, ...]) -> tuple[Subscriber, ...]:
    count = dice.randrange(20, 51) if dice.random() < 0.03 else dice.choice((1, 2, 2, 3, 3, 3, 4, 4, 6, 9))
    subscribers = []
    for number in range(count):
        name = f"S{number}"
        rule = dice.choice(rules)
        mode = "healthy" if dice.random() < 0.35 else dice.choice(aim.modes or RECEIVERS)
        subscribers.append(
            Subscriber(
                name, rule, settings_of(dice, aim, rule, f"http://{name.lower()}.example/"), mode, dice.random() < 0.7
            )
        )
    return tuple(subscribers)


def _actions(
    dice: Random, aim: Aim, ordering: Ordering, subscribers: tuple[Subscriber, ...], rules: tuple[Rule, ...]
) -> tuple[Action, ...]:
    actions: list[Action] = []
    bodies = 0
    weights = {kind: OPERATIONS[kind] for kind in aim.operations or OPERATIONS}
    large = dice.random() < 0.06
    for number in range(dice.choice((4, 8, 8, 12, 16))):
        gap = round(dice.choice((0, 0, 5, 100, 2_000, 15_000, 60_000)) * dice.random())
        if dice.random() < 0.02:
            gap = dice.randrange(1_800_000, 5_400_000)
        steer = dice.choice(("due", "expiry", "claim")) if dice.random() < aim.steered else None
        by = dice.choice((-1, 0, 1))
        if dice.random() < 0.62:
            key = f"key{dice.randrange(3)}" if dice.random() < aim.keyed else None
            earlier = [action for action in actions if action.idempotency is not None]
            if key is not None and earlier and dice.random() < 0.5:  # The same producer asks once more.
                actions.append(replace(dice.choice(earlier), number=number, gap_ms=gap))
                continue
            count = dice.choice((1, 1, 1, 1, 2, 3, 11)) if dice.random() < 0.98 else dice.choice((30, 100))
            drafts = []
            for _ in range(count):
                bodies += 1
                drafts.append(_draft(dice, bodies, ordering, large and count <= 3))
            actions.append(Action(number, "publish", gap, "", tuple(drafts), None, key, steer, by))
        else:
            kind = dice.choices(tuple(weights), tuple(weights.values()))[0]
            name = dice.choice(subscribers).name
            actions.append(Action(number, kind, gap, name, (), dice.choice(rules), None, steer, by))
    return tuple(actions)


def _draft(dice: Random, number: int, ordering: Ordering, large: bool) -> Draft:
    price = dice.choice(PRICES)
    body = f"m{number}."
    if large:
        body += "x" * (dice.choice((1_000, 65_000, BODY_BYTES_MAX)) - len(body))
    return Draft(
        body=body.encode(),
        tags=dice.choice(TAG_SETS),
        routing_key=dice.choice(ROUTING_KEYS),
        properties={} if price is None else {"price": price},
        ordering_key=dice.choice((None, "k1", "k2")) if ordering is Ordering.KEY else None,
    )


def _outages(dice: Random) -> tuple[Outage, ...]:
    outages = []
    for _ in range(dice.choice((1, 1, 2))):
        began = dice.randrange(60_000)
        length = round(dice.choice(OUTAGES_MS) * dice.uniform(0.3, 1.0))
        kind = dice.choice((Kind.FAILED_BEFORE, Kind.FAILED_BEFORE, Kind.THROTTLED, Kind.UNREACHABLE))
        outages.append(Outage(dice.choice(SERVICES), began, began + length, kind))
    return tuple(outages)
