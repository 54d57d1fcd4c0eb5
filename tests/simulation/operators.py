"""Producers and operators: each action of the plan is one call of a use case, by a process that may die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tagcast.delivery import publishing
from tagcast.delivery.publishing import Idempotency
from tagcast.model import RetryPolicy, Strategy
from tagcast.operating import lanes
from tagcast.ports import Table, World
from tagcast.registry import subscriptions, topics
from tagcast.registry.subscribing import StoredSubscription, SubscriptionRequest, put_subscriptions
from tagcast.registry.subscriptions import change_filter
from tagcast.topic_settings import TopicSettings

from functions.sweep import app as sweep_app
from tests.simulation.baton import Worker
from tests.simulation.plan import Action
from tests.simulation.scheduler import LIFE_S

if TYPE_CHECKING:
    from tests.simulation.history import History

SWEEP_S = 300
BODY_BYTES_MAX = 400_000


class Operators:
    """The outside world, and the schedule of the sweep."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._subscribers = {subscriber.name: subscriber for subscriber in history.plan.subscribers}

    def begin(self) -> None:
        """Make the topic and its first subscriptions; plan the sweeps."""
        history = self._history
        self._put_topic(history.plan.retention_s)
        wanted = [SubscriptionRequest(subscriber.name, subscriber.settings) for subscriber in history.plan.subscribers]
        world = replace(history.world(), topic_known_s=0.0)
        made = put_subscriptions(world, history.plan.topic, wanted, world.clock.monotonic())
        assert all(isinstance(each, StoredSubscription) for each in made)
        for subscriber in history.plan.subscribers:
            history.note(
                "subscriber {}: {}, {}, {} retries, its receiver is {}",
                subscriber.name,
                subscriber.rule.label,
                subscriber.settings.retry.strategy,
                subscriber.settings.retry.max_retries,
                subscriber.mode,
            )
        history.at(history.now + history.turns.randrange(SWEEP_S * 1000), self._sweep_again)

    def planned_at(self, action: Action) -> int:
        """Return when *action* begins: after its gap, or beside the next deadline that it is steered to."""
        history = self._history
        rows = [row for key, row in history.store.rows.items() if key.table is Table.MESSAGES]
        match action.steer:
            case None:
                return history.now + action.gap_ms
            case "due":
                deadlines = [row.get("next_attempt_at") for row in rows if "generation" in row]
            case "claim":
                deadlines = [row.get("wake_at") for row in rows if "generation" in row]
            case _:
                deadlines = [row["expires_at"] for row in rows if row.get("pending")]
        coming = [at for at in deadlines if at is not None and at >= history.now]
        return min(coming) + action.steer_by if coming else history.now + action.gap_ms

    def act(self, action: Action) -> None:
        if action.kind == "sweep":
            self._sweep()
            return
        kind = "publish" if action.kind == "publish" else "operate"
        label = f"{action.number} {action.kind} {action.subscriber}"
        worker = self._history.spawn(kind, label, lambda worker: self._perform(worker, action), lambda worker: None)
        worker.action = action

    def _perform(self, worker: Worker, action: Action) -> Any:
        history = self._history
        world, topic = history.world(), history.plan.topic
        if action.kind == "publish":
            claims: Sequence[Idempotency] = ()
            if action.idempotency is not None:
                claim = Idempotency(action.idempotency, str([draft.body for draft in action.drafts]))
                claims = [claim.at(place) for place in range(len(action.drafts))]
            return history.checks.producers.watch(
                worker, action, lambda: publishing.publish(world, topic, action.drafts, claims)
            )
        history.checks.operating(action)
        answer = self._operate(world, action)
        history.checks.operated(worker)
        return answer

    def _operate(self, world: World, action: Action) -> Any:
        topic, name = self._history.plan.topic, action.subscriber
        match action.kind:
            case "pause":
                return lanes.pause(world, topic, name)
            case "resume":
                return lanes.resume(world, topic, name)
            case "retry_now":
                return lanes.retry_now(world, topic, name)
            case "skip_head":
                return lanes.skip_head(world, topic, name, "by hand")
            case "repush":
                return lanes.retry_topic(world, topic)
            case "unsubscribe":
                return subscriptions.delete_subscription(world, topic, name)
            case "refilter":
                assert action.rule is not None
                return change_filter(world, topic, name, action.rule.json)
            case "resubscribe":
                assert action.rule is not None
                settings = replace(self._subscribers[name].settings, filter=action.rule.json)
                return subscriptions.put_subscription(world, topic, name, settings)
            case "restrategy":
                retry = RetryPolicy(Random(f"{self._history.plan.seed} {action.number}").choice(list(Strategy)), 40)
                return subscriptions.change_subscription(world, topic, name, lambda known: replace(known, retry=retry))
            case "retention":
                return self._put_topic(self._history.chance.choice((60, 90, 600)))
            case unknown:
                raise AssertionError(unknown)

    def _put_topic(self, retention_s: int) -> None:
        plan = self._history.plan
        topics.put_topic(
            self._history.world(),
            plan.topic,
            TopicSettings(retention_s, BODY_BYTES_MAX, plan.ordering),
        )

    def _sweep(self) -> None:
        history = self._history

        def body(worker: Worker) -> Any:
            return history.loop(worker).run(sweep_app.handle(history.world(), LIFE_S["sweep"] - sweep_app.RESERVE_S))

        history.spawn("sweep", "sweep", body, lambda worker: None)

    def _sweep_again(self) -> None:
        if not self._history.draws("error", 0.2):
            self._sweep()
        self._history.at(self._history.now + SWEEP_S * 1000, self._sweep_again)
