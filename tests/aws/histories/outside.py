"""The outside world: producers and operators, who know the service by its HTTP API alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tagcast.model import Draft, Strategy, SubscriptionSettings

from tests.aws.histories.asked import has_events
from tests.aws.histories.letter_checks import EVENTS, LETTERS
from tests.aws.histories.members import Members
from tests.aws.histories.plan import BODY_BYTES_MAX
from tests.aws.http_api import Answer
from tests.simulation.ledger import Broken
from tests.simulation.plan import Action
from tests.simulation.rules import judged_yes

if TYPE_CHECKING:
    from tests.aws.histories.history import History

PATHS = {"pause": "pause", "resume": "resume", "retry_now": "retry", "skip_head": "skip"}
JUDGE_FAILS_MS = 3_500


class Outside:
    """Everything that is asked of the service."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._subscribers = {subscriber.name: subscriber for subscriber in history.plan.subscribers}
        self.members = Members(history)

    def begin(self) -> None:
        """Make the topic and its first subscriptions."""
        history = self._history
        functions, plan = history.deployment.functions, history.plan
        functions.sizes = {"section_max": plan.section_max, "slice_max": plan.slice_max}
        known = f"{plan.topic_known_s:g}"
        functions.configure(
            TOPIC_KNOWN_SECONDS=known, DEAD_LETTER_TOPICS=f"{plan.topic}:{LETTERS},{plan.topic}:{EVENTS}"
        )
        if has_events(plan.seed):
            self._expect(201, "PUT", ("topics", EVENTS), self._topic(plan.retention_s))
        self._expect(201, "PUT", ("topics", plan.topic), self._topic_with_events(plan.retention_s))
        if any(subscriber.settings.dead_letter_topic for subscriber in plan.subscribers):
            self._expect(201, "PUT", ("topics", LETTERS), self._topic(history.plan.retention_s))
        for subscriber in history.plan.subscribers:
            path = ("topics", history.plan.topic, "subscriptions", subscriber.name)
            self._expect(201, "PUT", path, self._wanted(subscriber.name))
            retry = subscriber.settings.retry
            history.note(
                "subscriber {}: {}, {}, {} retries, timeout {} s, its receiver is {}",
                subscriber.name,
                subscriber.rule.label,
                retry.strategy,
                retry.max_retries,
                subscriber.settings.timeout_s,
                subscriber.mode,
            )

    def planned_at(self, action: Action) -> int:
        """Return when *action* begins: after its gap, or beside the next deadline that it is steered to."""
        history = self._history
        ledger = history.checks.ledger
        match action.steer:
            case None:
                return history.now + action.gap_ms
            case "due":
                deadlines = [lane.get("next_attempt_at") for lane in ledger.lanes.values()]
            case "claim":
                deadlines = [lane.get("wake_at") for lane in ledger.lanes.values()]
            case _:
                pending = [message_id for message_id, known in ledger.receipts.items() if known.pending_count]
                deadlines = [ledger.accepted[message_id]["expires_at"] for message_id in pending]
        coming = [at for at in deadlines if at is not None and at >= history.now]
        # A request takes some milliseconds to the instant at which it matters.
        lead_ms = history.turns.choice((0, 5, 10, 20, 500))
        return max(history.now, min(coming) + action.steer_by - lead_ms) if coming else history.now + action.gap_ms

    def act(self, action: Action) -> None:
        """Do what the plan says, and go on without waiting for the answer."""
        history = self._history
        if action.kind == "sweep":
            history.deployment.schedules.fire("sweep")
            return
        if action.kind == "publish":
            self._publish(action)
            return
        if action.kind == "redeploy":
            history.deployment.functions.configure()
            return
        if action.kind == "pull":
            self.members.act(action)
            return
        history.checks.operating(action)
        topic = ("topics", history.plan.topic)
        owner = (*topic, "subscriptions", action.subscriber)
        match action.kind:
            case "repush":
                self._ask(action, "POST", (*topic, "retry"), None)
            case "unsubscribe":
                self._ask(action, "DELETE", owner, None)
            case "refilter":
                assert action.rule is not None
                self._ask(action, "PUT", (*owner, "filter"), {"filter": action.rule.json})
            case "resubscribe":
                assert action.rule is not None
                self._ask(action, "PUT", owner, self._wanted(action.subscriber, filter=action.rule.json))
            case "retention":
                self._ask(action, "PUT", topic, self._topic_with_events(history.chance.choice((60, 90, 600))))
            case "verify":
                self._ask(action, "POST", (*owner, "verify"), None)
            case "skip_head":
                self._ask(action, "POST", (*owner, "skip"), {"reason": "by hand"})
            case kind:
                self._ask(action, "POST", (*owner, PATHS[kind]), None)

    def judge(self, event: Any) -> Any:
        """Be the filter function of a subscriber."""
        history = self._history
        fails = history.draws("judge", 0.4)
        ledger = history.checks.ledger
        for each in event["messages"]:
            draft = Draft(each["body"].encode())
            for ordinal, owner in ledger.subscribers.items():
                if owner["name"] == event["subscription"]:
                    message = SimpleNamespace(message_id=each["message_id"], draft=draft)
                    history.checks.asked_judge(ordinal, message, fails)
        if fails:
            history.timeline.spend(history.chance.choice((10, JUDGE_FAILS_MS)))
            raise ArithmeticError("a judge that fails")
        history.timeline.spend(history.chance.randrange(200))
        return {"verdicts": [judged_yes(Draft(each["body"].encode())) for each in event["messages"]]}

    def _publish(self, action: Action) -> None:
        history = self._history
        path = ("topics", history.plan.topic, "messages")
        bodies = [message_of(draft) for draft in action.drafts]
        headers = {} if action.idempotency is None else {"idempotency-key": action.idempotency}
        asked = history.checks.producer_asks(action)
        single = len(bodies) == 1 and action.number % 2 == 0
        history.deployment.api.ask(
            "POST",
            path if single else (*path, "batch"),
            lambda answer: history.checks.producer_told(asked, single, answer),
            body=bodies[0] if single else {"messages": bodies},
            headers=headers,
            label=f"{action.number} publish {len(bodies)}",
            action=action,
        )

    def _ask(self, action: Action, method: str, path: tuple[str, ...], body: Any) -> None:
        history = self._history
        label = f"{action.number} {action.kind} {action.subscriber}"

        def then(answer: Answer) -> None:
            history.note("{} is answered {}", label, answer.status)

        history.deployment.api.ask(method, path, then, body=body, label=label, action=action)

    def _expect(self, status: int, method: str, path: tuple[str, ...], body: Any) -> None:
        history = self._history
        answers: list[Answer] = []
        history.deployment.api.ask(method, path, answers.append, body=body, label=f"{method} {path[-1]}")
        while not answers:
            history.play_until(history.now + 50)
        if answers[0].status != status:
            raise Broken("set up", f"{method} {path}: {answers[0]}")

    def _wanted(self, name: str, **changes: Any) -> dict[str, Any]:
        """Return the body of a PUT of a subscriber, with some settings changed."""
        body = body_of(replace(self._subscribers[name].settings, **changes))
        return {**body, "verification": "required"} if name in self._history.plan.questioned else body

    def _topic_with_events(self, retention_s: int) -> dict[str, Any]:
        events = {"events_topic": EVENTS} if has_events(self._history.plan.seed) else {}
        return self._topic(retention_s) | events

    def _topic(self, retention_s: int) -> dict[str, Any]:
        ordering = self._history.plan.ordering.value
        return {"retention_seconds": retention_s, "max_message_bytes": BODY_BYTES_MAX, "ordering": ordering}


def body_of(settings: SubscriptionSettings) -> dict[str, Any]:
    """Return the body of a PUT that asks for these settings."""
    retry: dict[str, Any] = {"strategy": settings.retry.strategy.value, "max_retries": settings.retry.max_retries}
    if settings.retry.is_for_life:
        retry |= {"max_retries": "life", "max_interval_seconds": settings.retry.interval_s_max}
    if settings.retry.strategy is Strategy.BACKOFF_RETRY and settings.retry.interval_s is not None:
        retry["interval_seconds"] = settings.retry.interval_s
    body: dict[str, Any] = {"endpoint": {"protocol": settings.endpoint.protocol.value}, "retry": retry}
    if settings.is_group:
        body["ordered"] = settings.ordered
    else:
        body["endpoint"]["url"] = settings.endpoint.target
        body |= {"timeout_seconds": settings.timeout_s, "content_format": settings.content_format.value}
    if settings.dead_letter_topic is not None:
        body |= {"dead_letter_topic": LETTERS, "dead_letter_expired": settings.dead_letter_expired}
    if settings.filter is not None:
        body["filter"] = dict(settings.filter)
    if settings.max_per_second is not None:
        body["max_per_second"] = settings.max_per_second
    if settings.batching is not None:
        body["batch"] = {"max_messages": settings.batching.messages_max, "max_bytes": settings.batching.bytes_max}
    return body


def message_of(draft: Draft) -> dict[str, Any]:
    """Return the body of a message to be published."""
    body: dict[str, Any] = {"body": draft.body.decode(), "tags": list(draft.tags), "properties": dict(draft.properties)}
    if draft.routing_key is not None:
        body["routing_key"] = draft.routing_key
    if draft.ordering_key is not None:
        body["ordering_key"] = draft.ordering_key
    return body
