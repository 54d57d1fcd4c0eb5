"""What a history is made of, drawn from its seed: subscribers, actions, and the kinds of accidents."""

from dataclasses import dataclass, replace
from random import Random

from tagcast.model import (
    Draft,
    Ordering,
    Strategy,
    SubscriptionSettings,
)
from tagcast.rows.message_transitions import ROW_BYTES_MAX

from tests.simulation.asked import mode_of, rules_for, settings_of, varied
from tests.simulation.rules import Rule

EPOCH = 1_800_000_000_000
PROCESSES = 3
"""So many processes keep a cache of topics of their own; each invocation runs in one of them."""
HEAVY_BYTES = (ROW_BYTES_MAX - 30_000, ROW_BYTES_MAX)
"""Bodies, larger than the API allows, that bring a row near the size at which its outcomes are shortened, or to it."""
ENVELOPE_BYTES = (340, 460)
"""So much the rest of such a row takes."""
LONG_BYTES = (255, 256, 300, 3_000)
"""Bodies that are stored deflated, and one that is a byte too short for that."""
TAG_SETS = ((), ("a",), ("b",), ("a", "b"), ("c",), ("Aa",), ("BB",), ("A",))
ROUTING_KEYS = (None, "u.x", "u.v.x", "u.y")
PRICES = (None, "3", "5", "9", "cheap")
MIXED = (Strategy.BACKOFF_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY)
MODES = (
    "healthy",
    "flapping",
    "down",
    "dead",
    "hanging",
    "dripping",
    "slow",
    "busy",
    "throttling",
    "ack_lost",
    "refusing",
    "redirecting",
    "gone",
)
FAULTS = {
    "crash": "a process dies before or after a call of a port, or while a push or verdict is under way",
    "timeout": "an invocation is killed long before its work is done",
    "stall": "a process stands still for up to 100 s",
    "error": "a call fails and nothing was written",
    "applied_error": "a call fails although it was carried out",
    "sdk_retry": "the SDK sends a write again that was carried out",
    "throttle": "a call is refused for its rate",
    "conflict": "a write conflicts with a transaction until its adapter gives up",
    "herd": "so many others write a message's row that nobody gets through, for up to 90 s",
    "unprocessed": "a read of many rows or pages is answered in parts, with others' writes between",
    "stale_index": "the index of lanes to wake is some writes behind",
    "other_form": "sets and bodies of rows in the other one of their two forms, whatever their size",
    "ttl": "the table's garbage collection takes rows at once, up to 72 h late, or never",
    "send_loss": "the queue takes a part of what is sent, or takes it and says that it did not",
    "queue_copy": "two consumers get the same batch at once",
    "queue_late_copy": "a batch that was acknowledged comes again",
    "queue_visibility": "a batch becomes visible again while it is worked on",
    "queue_ack_loss": "the answer of a consumer is lost, wholly or for some records",
    "workflow_loss": "a start fails, or fails although it was done, or an execution is forgotten",
    "task_copy": "a task of the workflow runs twice, at once or later",
    "stream_rewind": "the stream goes back to an earlier checkpoint",
    "skew": "clocks of processes differ by up to 5 minutes",
    "jump": "a clock jumps by up to 5 minutes",
    "endpoint": "a healthy receiver fails now and then",
    "judge": "a filter function fails",
    "queue_outage": "the queue is away, for minutes to hours: longer than anybody tries again",
    "stream_loss": "the relay gives up on records of the stream and never sees them again",
}


@dataclass(frozen=True)
class Subscriber:
    name: str
    rule: Rule
    settings: SubscriptionSettings
    mode: str
    recovers: bool


@dataclass(frozen=True)
class Action:
    """One step of the outside world: a publish call or an operator's, some time after the one before."""

    number: int
    kind: str
    gap_ms: int
    subscriber: str = ""
    drafts: tuple[Draft, ...] = ()
    rule: Rule | None = None
    idempotency: str | None = None
    steer: str | None = None
    """Wait for a deadline instead of the gap: the name of one, with the distance in milliseconds."""
    steer_by: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before a history begins."""

    seed: int
    ordering: Ordering
    retention_s: int
    subscribers: tuple[Subscriber, ...]
    actions: tuple[Action, ...]
    faults: frozenset[str]
    rate: float
    """The chance of a fault at each port call."""
    topic_known_s: float = 0.0
    faults_max: int = 10**9
    """After so many accidents there are no more."""
    topic: str = "t"
    restless: bool = False
    """Every call of a port is a change of turns."""
    section_max: int = 1_000
    """So many entries a section of a wide message's map has."""
    slice_max: int = 96
    """So many messages a part of a batch has, unless one entry names more."""


@dataclass(frozen=True)
class Aim:
    """What plans are bent towards, so that a certain kind of history comes up often."""

    faults: tuple[str, ...] = ()
    only_these_faults: bool = False
    modes: tuple[str, ...] = ()
    strategy: Strategy | None = None
    rules: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    retention_s: int | None = None
    rate: float | None = None
    keyed: float = 0.1
    """The share of publish calls with an idempotency key."""
    restless: bool = False
    steered: float = 0.12
    """The share of actions that wait for a deadline."""
    max_per_second: float | None = None
    """The rate of every subscriber."""
    mixed: bool = False
    """Whether some subscribers keep an order and others do not, and most want everything, in a topic with an order."""
    batches: bool = False
    """Whether every request has many messages."""
    heavy: float = 0.05
    """The share of messages whose rows have no room for all that receivers answer."""
    long: float = 0.25
    """The share of the others that are long enough to be stored deflated."""
    batched: float = 0.25
    """The share of subscribers that ask for several messages in a request."""
    wide: float = 0.25
    """The share of histories in which so few entries fit into a section that most messages are wide."""
    parted: float = 0.25
    """The share of histories in which a batch of few messages has several parts."""
    knowing: float = 0.5
    """The chance that processes read a topic once a second."""
    for_life: float = 0.12
    """The chance that a subscriber with an order retries until its message expires."""
    independent: float = 0.5
    """The chance that for a subscriber without an order no delivery waits for another."""
    changing: float = 0.0
    """The share of operations that give a subscriber another strategy."""
    grouped: float = 0.3
    """The share of histories on the box in which some of the subscribers are groups."""


ANYTHING = Aim()
OPERATIONS = {
    "pause": 4,
    "resume": 6,
    "retry_now": 3,
    "skip_head": 3,
    "repush": 3,
    "unsubscribe": 2,
    "resubscribe": 3,
    "refilter": 3,
    "sweep": 4,
    "retention": 1,
}


def draw_plan(seed: int, aim: Aim = ANYTHING) -> Plan:
    """Return the plan of one seed: the same on every machine."""
    dice = Random(f"plan {seed}")
    ordering = dice.choice((Ordering.TOPIC, Ordering.TOPIC, Ordering.KEY, Ordering.KEY, Ordering.NONE))
    ordering = Ordering.TOPIC if aim.mixed else ordering
    retention_s = dice.choice((60, 60, 120, 300, 900, 3_600)) if dice.random() < 0.97 else 86_400
    rules = rules_for(aim)
    drawn = _subscribers(dice, aim, rules)
    varying = (replace(each, settings=varied(seed, each.name, aim, each.settings)) for each in drawn)
    subscribers = tuple(replace(each, mode=mode_of(seed, each.name, each.mode, each.settings)) for each in varying)
    calm = dice.random() < 0.15
    actions = tuple(_weighed(seed, aim, action) for action in _actions(dice, aim, ordering, subscribers, rules))
    faults = frozenset() if calm else frozenset(fault for fault in FAULTS if fault != "herd" and dice.random() < 0.4)
    rate = dice.choice((0.01, 0.03, 0.08))
    if not calm and dice.random() < 0.2:
        faults |= {"herd"}
    return Plan(
        seed=seed,
        ordering=ordering,
        retention_s=aim.retention_s or retention_s,
        subscribers=subscribers,
        actions=actions,
        faults=frozenset(aim.faults) if aim.only_these_faults else faults | frozenset(aim.faults),
        rate=aim.rate or rate,
        restless=aim.restless,
        section_max=section_max(seed, aim.wide),
        slice_max=slice_max(seed, aim.parted),
        topic_known_s=1.0 if Random(f"reads {seed}").random() < aim.knowing else 0.0,
    )


def section_max(seed: int, wide: float) -> int:
    """Draw how many entries a section has, by dice of its own: all else of a plan is as it is without sections."""
    dice = Random(f"sections {seed}")
    return dice.choice((1, 1, 2, 3)) if dice.random() < wide else Plan.section_max


def slice_max(seed: int, parted: float) -> int:
    """Draw how many messages a part of a batch has, likewise."""
    dice = Random(f"parts {seed}")
    return dice.choice((1, 1, 2, 3)) if dice.random() < parted else Plan.slice_max


def _subscribers(dice: Random, aim: Aim, rules: tuple[Rule, ...]) -> tuple[Subscriber, ...]:
    subscribers: list[Subscriber] = []
    for name in ("A", "B", "C", "D")[: dice.choice((1, 2, 2, 3, 3, 4))]:
        rule = dice.choice(rules)
        aim = replace(aim, strategy=MIXED[len(subscribers) % 2]) if aim.mixed else aim
        mode = "healthy" if dice.random() < 0.35 else dice.choice(aim.modes or MODES)
        subscribers.append(
            Subscriber(name, rule, settings_of(dice, aim, rule, f"http://{name}.test/"), mode, dice.random() < 0.7)
        )
    return tuple(subscribers)


def _actions(
    dice: Random, aim: Aim, ordering: Ordering, subscribers: tuple[Subscriber, ...], rules: tuple[Rule, ...]
) -> tuple[Action, ...]:
    actions: list[Action] = []
    bodies = 0
    weights = {kind: OPERATIONS[kind] for kind in aim.operations or OPERATIONS}
    for number in range(dice.choice((4, 8, 12, 16, 24))):
        gap = round(dice.choice((0, 0, 5, 100, 2_000, 15_000)) * dice.random())
        steer = dice.choice(("due", "expiry", "claim")) if dice.random() < aim.steered else None
        by = dice.choice((-1, 0, 1))
        if dice.random() < 0.62:
            drafts = []
            for _ in range(dice.choice((5, 11, 24) if aim.batches else (1, 1, 1, 2, 3, 11))):
                bodies += 1
                drafts.append(_draft(dice, bodies, ordering))
            key = f"key{dice.randrange(3)}" if dice.random() < aim.keyed else None
            earlier = [action for action in actions if action.idempotency is not None]
            if key is not None and earlier and dice.random() < 0.5:  # The same producer asks once more.
                actions.append(replace(dice.choice(earlier), number=number, gap_ms=gap))
                continue
            actions.append(Action(number, "publish", gap, "", tuple(drafts), None, key, steer, by))
        else:
            kind = dice.choices(tuple(weights), tuple(weights.values()))[0]
            name = dice.choice(subscribers).name
            actions.append(Action(number, kind, gap, name, (), dice.choice(rules), None, steer, by))
    return tuple(actions)


def _weighed(seed: int, aim: Aim, action: Action) -> Action:
    """Return the action with some of its bodies grown; a producer who asks once more sends the same.

    Bodies that make rows heavy are of bytes that nothing makes fewer.
    """

    def weighed(draft: Draft) -> Draft:
        dice = Random(f"weight {seed} {draft.body!r}")
        if dice.random() < aim.heavy:
            size = dice.choice(HEAVY_BYTES) - dice.randrange(*ENVELOPE_BYTES)
            return replace(draft, body=draft.body + dice.randbytes(size - len(draft.body)), is_text=False)
        if dice.random() < aim.long:
            return replace(draft, body=draft.body.ljust(dice.choice(LONG_BYTES)))
        return draft

    dice = Random(f"strategy {seed} {action.number}")
    kind = "restrategy" if action.kind != "publish" and dice.random() < aim.changing else action.kind
    return replace(action, kind=kind, drafts=tuple(map(weighed, action.drafts)))


def _draft(dice: Random, number: int, ordering: Ordering) -> Draft:
    price = dice.choice(PRICES)
    return Draft(
        body=f"m{number}".encode(),
        tags=dice.choice(TAG_SETS),
        routing_key=dice.choice(ROUTING_KEYS),
        properties={} if price is None else {"price": price},
        ordering_key=dice.choice((None, "k1", "k2")) if ordering is Ordering.KEY else None,
    )
