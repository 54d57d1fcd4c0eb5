"""A subscription changes its strategy while deliveries wait: played from seeds, with commands and faults in between."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from tagcast.errors import ConflictError
from tagcast.model import LaneState, Outcome, Push, RetryPolicy, Strategy
from tagcast.operating import lanes
from tagcast.registry.subscriptions import get_subscription
from tagcast_aws.endpoints import http

from tests.fakes.world import OK, FakeWorld
from tests.unit.test_independent_retry import later

REFUSED = http.outcome(422, None, 0)
MODES = {
    "up": OK,
    "refusing": REFUSED,
    "down": http.outcome(503, None, 0),
    "hanging": Outcome(False, "timeout after 15 s", unreached=True),
    "gone": http.outcome(410, None, 0),
}
ACTS = (*["publish", "wait"] * 4, *["mode", "strategy"] * 2, "heal", "pause", "resume", "retry_now", "skip", "sweep")
SETTLED_S = 6 * 1_300
"""Longer than the longest wait, several times over."""


@dataclass
class Play:
    """One history of one subscription. *began* counts the messages that came before its present strategy."""

    dice: Random
    fake: FakeWorld = field(default_factory=FakeWorld)
    strategy: Strategy | None = None
    began: int = 0
    mode: str = "up"
    bad: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fake.world = replace(self.fake.world, short_wait_s=0.01)
        self.fake.topic()
        self.fake.pusher.behaviours["A"] = self.receive
        self.take_strategy()

    def receive(self, push: Push) -> Outcome:
        """Answer a push. In order, nothing comes before what was accepted under the same strategy, or before it."""
        number = self.ids.index(push.message.message_id)
        if push.subscription.settings.retry.strategy is Strategy.BACKOFF_RETRY:
            before = range(number) if number >= self.began else range(0)
            ended = {*self.received, *self.skipped}
            assert all(self.ids[each] in ended for each in before), f"{number} is pushed before what waits"
        if push.message.message_id in self.bad and self.mode == "up":
            return REFUSED
        if self.mode == "up":
            self.received.append(push.message.message_id)
        return MODES[self.mode]

    def take_strategy(self) -> None:
        wanted = self.dice.choice(list(Strategy))
        interval_s = self.dice.choice((1, 5)) if wanted is Strategy.BACKOFF_RETRY else None
        self.fake.subscribe("A", retry=RetryPolicy(wanted, 100_000, interval_s))
        if wanted is not self.strategy:
            self.strategy, self.began = wanted, len(self.ids)

    def publish(self) -> None:
        made = self.fake.publish(*["x"] * self.dice.choice((1, 1, 2, 3, 7)))
        self.bad |= {each for each in made if self.dice.random() < 0.15}
        self.ids += made
        if self.dice.random() < 0.9:
            self.fake.deliver()

    def skip(self) -> None:
        waiting = lanes.backlog(self.fake.world, "test1", "A", 100, None).items
        if waiting:
            chosen = waiting[0] if self.strategy is not Strategy.INDEPENDENT_RETRY else self.dice.choice(waiting)
            lanes.skip_head(self.fake.world, "test1", "A", "by hand", chosen.message_id)
            self.skipped.add(chosen.message_id)

    def act(self, kind: str) -> None:
        world = self.fake.world
        match kind:
            case "publish":
                self.publish()
            case "wait":
                self.fake.deliver()
                later(self.fake, self.dice.choice((1, 3, 20, 100, 600, 4_000)))
            case "mode":
                self.mode = self.dice.choice(("up", *MODES))
            case "strategy":
                self.take_strategy()
            case "heal":
                self.bad.clear()
            case "pause":
                lanes.pause(world, "test1", "A")
            case "resume":
                lanes.resume(world, "test1", "A")
            case "retry_now":
                with suppress(ConflictError):
                    lanes.retry_now(world, "test1", "A")
            case "skip":
                self.skip()
            case "sweep":
                self.fake.sweep()

    def settle(self) -> None:
        """End all trouble, and wait."""
        self.mode = "up"
        self.bad.clear()
        lanes.resume(self.fake.world, "test1", "A")
        for _ in range(6):
            self.fake.deliver()
            later(self.fake, SETTLED_S / 6)
            self.fake.sweep()


@pytest.mark.parametrize(
    "first", [0, 20, 40, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(60, 160, 20))]
)
def test_whatever_the_strategy_was_before_the_order_holds_and_everything_comes_once(first: int) -> None:
    for seed in range(first, first + 20):
        play = Play(Random(seed))
        for _ in range(play.dice.randrange(5, 40)):
            play.act(play.dice.choice(ACTS))

        play.settle()

        assert sorted(play.received) == sorted({*play.ids} - play.skipped), f"seed {seed}"
        lane = lanes.lane_view(play.fake.world, get_subscription(play.fake.world, "test1", "A"))
        assert lane.state is LaneState.ACTIVE, f"seed {seed}"
