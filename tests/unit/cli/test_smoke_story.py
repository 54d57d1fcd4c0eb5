"""The story of `tagcast smoke` in a world of the tests: a broken promise is told by its step, and all is removed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest
from tagcast.instant import rfc3339
from tagcast_cli.doctor import State
from tagcast_cli.smoke_aws import Endpoint, JobRun, MissingRightError, OnAws, PlaceError, Push
from tagcast_cli.smoke_receiver import BROKEN, EXPIRING, FAILS_ONCE
from tagcast_cli.smoke_story import (
    INTERVAL_S,
    RETENTION_S,
    STEPS,
    Step,
    Story,
)
from tagcast_client import Client
from tagcast_client.errors import refusal
from tagcast_client.operation import Answer

from local.rules.costs import usd_of_smoke_test

EPOCH_S: Final = 1_800_000_000.0
RUN = "tagcast_smoke_shop_1a2b3c4d"
PUSHED_S = 0.3
NAMES = [name for name, _, _ in STEPS] + ["clean-up"]


@dataclass
class World:
    """A deployment and the account that it is in, in virtual time. It keeps all promises but those in *broken*."""

    broken: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    job: JobRun | None = None
    archives_after_s: float = 0.0
    interrupted_at_s: float | None = None
    at_s: float = 0.0
    queue_requests: int = 0
    things: set[str] = field(default_factory=set)
    _tags: dict[str, str] = field(default_factory=dict)
    _published: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    _coming: list[Push] = field(default_factory=list)
    _refusals: int = 0

    def now_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        if self.interrupted_at_s is not None and self.at_s >= self.interrupted_at_s:
            self.interrupted_at_s = None
            raise KeyboardInterrupt

    # The API.

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        self._may("execute-api:Invoke")
        words = path.strip("/").split("/")
        match method, words[2:]:
            case "PUT", []:
                self.things.add(path)
            case "PUT", ["subscriptions", name]:
                return self._subscribe(path, name, body or {})
            case "POST", ["subscriptions", _, "verify"]:
                self._refusals -= 1
                return answer({"state": "unverified"} if self._refusals > 0 else {})
            case "POST", ["messages"]:
                return self._publish(body or {})
            case "GET", ["messages", message_id]:
                return answer(self._message(message_id))
            case "DELETE", _:
                return self._delete(path)
        return answer({})

    def _subscribe(self, path: str, name: str, body: Mapping[str, Any]) -> Answer:
        self.things.add(path)
        self._tags[name] = body["filter"]["tags"][0]
        agrees = body["endpoint"]["protocol"] not in ("http", "https") or "agreement" not in self.broken
        self._refusals = 0 if agrees else 1_000
        if "slow agreement" in self.broken and name == "endpoint":
            self._refusals, agrees = 3, False
        return answer({} if agrees else {"state": "unverified"})

    def _delete(self, path: str) -> Answer:
        if path not in self.things:
            raise refusal(404, "{}")
        if "deletion" in self.broken and path.endswith("/queue"):
            raise refusal(503, json.dumps({"title": "busy", "status": 503}))
        self.things.discard(path)
        return answer({})

    def _publish(self, body: Mapping[str, Any]) -> Answer:
        message_id = f"{len(self._published) + 1:020}"
        self._published[message_id] = (self.at_s, body["tags"])
        matched = [name for name, tag in self._tags.items() if tag in body["tags"]]
        for name in matched:
            self._coming += self._pushes(name, message_id)
        if "a filter" in self.broken:
            matched = matched[1:]
        expires_at = rfc3339(round((EPOCH_S + self.at_s + RETENTION_S) * 1000))
        return answer({"message_id": message_id, "matched": len(matched), "expires_at": expires_at})

    def _pushes(self, name: str, message_id: str) -> list[Push]:
        """What a subscription is sent of a message, and when."""
        at_s = self.at_s + EPOCH_S + PUSHED_S + 0.01 * int(message_id)
        fails = FAILS_ONCE in self._published[message_id][1]
        retried_s = at_s + (1.0 if "interval" in self.broken else INTERVAL_S)

        def push(attempt: int, status: int, at_s: float) -> Push:
            return Push(name, message_id, attempt, status, at_s)

        if name == EXPIRING:
            delays = (0, 1, 3, 7, 15, 31, *([RETENTION_S + 1] if "life" in self.broken else ()))
            delays = (0,) if "retries of decay" in self.broken else delays
            return [push(number, 503, at_s + delay_s) for number, delay_s in enumerate(delays, 1)]
        if name == BROKEN:
            if fails:
                again = [] if "retry" in self.broken else [push(2, 200, retried_s)]
                return [push(1, 503, at_s), *again]
            return [push(1, 200, at_s if "blocking" in self.broken else retried_s + 0.1)]
        if name == "endpoint" and "isolation" in self.broken:
            return [push(1, 200, at_s + INTERVAL_S + 1)]
        if name == "function" and "function" in self.broken and message_id.endswith("3"):
            return []
        if name == "endpoint" and "order" in self.broken and message_id.endswith("2"):
            return [push(1, 200, at_s + 2)]
        return [push(1, 200, at_s)] * (2 if "once" in self.broken else 1)

    def _message(self, message_id: str) -> dict[str, Any]:
        published_s, tags = self._published[message_id]
        states = {}
        for name, tag in self._tags.items():
            if tag not in tags:
                continue
            ended = self.at_s > published_s + {EXPIRING: 31.5, BROKEN: INTERVAL_S + 1}.get(name, 1.0)
            end = "expired" if name == EXPIRING and "expiry" not in self.broken else "delivered"
            states[name] = {"state": end if ended and "end" not in self.broken else "blocked"}
        over = all(each["state"] != "blocked" for each in states.values()) and "deleted" not in self.broken
        return {"state": "deleted" if over else "retained", "subscribers": states}

    # The account.

    def earlier_runs(self) -> Sequence[str]:
        self._may("sqs:ListQueues")
        return sorted({each.removesuffix("_log") for each in self.things if each.endswith("_log")})

    def make_log(self, run: str) -> None:
        self._may("sqs:CreateQueue")
        self.things.add(f"{run}_log")

    def make_queue(self, run: str) -> Endpoint:
        self._may("a queue")
        self.things.add(f"{run}_queue")
        return {"protocol": "sqs", "queue_url": "q"}

    def make_function(self, run: str, secret: str) -> Endpoint:
        self._may("iam:CreateRole")
        self.things.add(f"{run} role")
        if "function after role" in self.broken:
            raise PlaceError("Lambda is in trouble.")
        self._may("lambda:CreateFunction")
        self.things.add(f"{run} function")
        return {"protocol": "lambda", "function": run}

    def make_url(self, run: str) -> Endpoint:
        self._may("lambda:CreateFunctionUrlConfig")
        return {"protocol": "https", "url": "https://f.test/"}

    def read_pushes(self) -> Sequence[Push]:
        return [push for push in self._arrived() if push.subscription != "queue"]

    def read_queued(self) -> Sequence[str]:
        return [push.message_id for push in self._arrived(of_queue=True)]

    def _arrived(self, *, of_queue: bool = False) -> list[Push]:
        self.queue_requests += 1
        now_s = self.at_s + EPOCH_S
        arrived = [each for each in self._coming if each.at_s <= now_s and (each.subscription == "queue") == of_queue]
        self._coming = [each for each in self._coming if each not in arrived]
        if of_queue and "queue" in self.broken:
            return []
        return sorted(arrived, key=lambda push: push.at_s)

    def read_archived(self, topic: str) -> frozenset[str]:
        self._may("s3:ListBucket")
        if "S3" in self.broken:
            raise PlaceError("S3 is in trouble.")
        return frozenset(self._published) if self.at_s >= self.archives_after_s else frozenset()

    def last_job(self) -> JobRun | None:
        self._may("glue:GetJobRuns")
        return self.job

    def run_job(self) -> JobRun:
        self._may("glue:StartJobRun")
        assert self.job is not None
        return self.job

    def remove(self, run: str, *, keep_log: bool) -> Sequence[str]:
        left = [f"{run} role (no right)"] if "iam:DeleteRole" in self.denied and f"{run} role" in self.things else []
        kept = {each for each in self.things if each.endswith(" role")} if left else set()
        kept |= {f"{run}_log"} if left or keep_log else set()
        self.things = {each for each in self.things if not each.startswith(run) or each in kept}
        return left

    def _may(self, action: str) -> None:
        if action in self.denied:
            if action == "execute-api:Invoke":
                raise refusal(403, '{"message": "Forbidden"}')
            raise MissingRightError(action)


def answer(told: Mapping[str, Any]) -> Answer:
    return Answer(200, json.dumps(told))


def played(world: World, **options: Any) -> tuple[dict[str, Step], Story]:
    steps: list[Step] = []
    story = Story(
        cast("Client", world),
        cast("OnAws", world),
        RUN,
        "whsec_x",
        steps.append,
        now_s=world.now_s,
        sleep=world.sleep,
        **options,
    )
    try:
        story.play()
    except KeyboardInterrupt:
        steps.append(Step("interruption", State.WARNING, "", 0.0))
    return {step.name: step for step in steps}, story


def states(steps: Mapping[str, Step], state: State) -> list[str]:
    return [name for name, step in steps.items() if step.state is state]


DONE = JobRun("SUCCEEDED", "2026-11-24 03:10 UTC", dpu_hours=1 / 30)


def test_a_deployment_that_keeps_its_promises_is_told_so_within_two_minutes_and_for_less_than_a_cent() -> None:
    world = World(job=DONE)
    steps, story = played(world)

    assert list(steps) == NAMES
    assert states(steps, State.OK) == NAMES
    assert world.things == set()
    assert world.at_s < 120
    assert 0 < usd_of_smoke_test(story.counted) < 0.01
    assert story.counted.dpu_hours == 0
    assert steps["retry"].finding.startswith(f"Attempt 1 got 503. The retry came {INTERVAL_S:.1f} s later")
    assert {"glue-session", "ddb-partiql-removes"} <= {row for step in steps.values() for row in step.shows}


def test_what_is_seen_elsewhere_than_on_aws_shows_no_row() -> None:
    steps, _ = played(World(), is_aws=False)
    assert [step for step in steps.values() if step.shows] == []


@pytest.mark.parametrize(
    ("broken", "step", "told"),
    [
        ("queue", "queue", "0 of 3 messages arrived within 40 s."),
        ("function", "function", "2 of 3 messages arrived within 40 s."),
        ("order", "endpoint", "endpoint got the messages in the order [2, 3, 1]."),
        ("a filter", "publish", "A message matched 0 subscriptions; 1 were created."),
        ("agreement", "make endpoint", "endpoint is not subscribed: unverified"),
        ("retry", "retry", "Attempt 1 got 503, and no retry succeeded within 45 s."),
        ("interval", "retry", f"The retry came after 1.0 s; its interval is {INTERVAL_S} s."),
        ("blocking", "order", "broken got the messages in the order [2, 3, 1]."),
        ("isolation", "order", "The working endpoint got its messages only after the retry of the failing one."),
        ("expiry", "expiry", "The message is delivered 15 s after its expiry."),
        ("life", "expiry", "1 pushes came after the message expired at "),
        ("retries of decay", "expiry", "Attempts before the expiry: 1. There was time for more."),
        ("end", "receipts", ", not delivered to all."),
        ("deleted", "receipts", "is retained after its last delivery."),
    ],
)
def test_a_promise_that_breaks_is_told_by_its_step(broken: str, step: str, told: str) -> None:
    world = World(broken={broken}, job=DONE)
    steps, _ = played(world)

    assert steps[step].state is State.FAULT
    assert told in steps[step].finding
    assert steps[step].shows == ()
    assert steps["clean-up"].state is State.OK
    assert world.things == set()


def test_a_message_that_comes_twice_breaks_no_promise_and_is_told() -> None:
    steps, _ = played(World(broken={"once"}))
    assert steps["endpoint"].state is State.OK
    assert steps["endpoint"].finding.endswith("3 of them twice.")


def test_an_endpoint_that_is_not_known_at_once_is_asked_again() -> None:
    steps, _ = played(World(broken={"slow agreement"}))
    assert steps["make endpoint"].state is State.OK


@pytest.mark.parametrize(
    ("action", "unchecked"),
    [
        ("sqs:ListQueues", ["leftovers"]),
        ("a queue", ["make queue", "queue"]),
        ("iam:CreateRole", ["make function", "make endpoint", "function", "endpoint", "retry", "order", "expiry"]),
        ("lambda:CreateFunctionUrlConfig", ["make endpoint", "endpoint", "retry", "order", "expiry"]),
        ("s3:ListBucket", ["archive"]),
        ("glue:GetJobRuns", ["job"]),
    ],
)
def test_a_missing_right_ends_its_step_and_those_that_need_it_alone(action: str, unchecked: list[str]) -> None:
    world = World(denied={action}, job=DONE)
    steps, _ = played(world)

    assert states(steps, State.UNCHECKED) == unchecked
    assert states(steps, State.FAULT) == []
    assert steps[unchecked[0]].finding == f"Your identity may not call {action}."
    assert world.things == set()


def test_who_may_not_call_the_api_is_told_the_action() -> None:
    world = World(denied={"execute-api:Invoke"})
    steps, _ = played(world)
    assert "execute-api:Invoke" in steps["topic"].finding
    assert steps["topic"].state is State.UNCHECKED
    assert states(steps, State.OK) == ["leftovers", "clean-up"]
    assert world.things == set()


@pytest.mark.parametrize("at_s", [0.5, 5.0, 30.0])
def test_an_interruption_removes_everything_and_is_passed_on(at_s: float) -> None:
    world = World(interrupted_at_s=at_s)
    steps, _ = played(world)
    assert list(steps)[-2:] == ["clean-up", "interruption"]
    assert "expiry" not in steps
    assert world.things == set()


def test_the_next_run_removes_what_a_killed_one_left_and_finds_what_could_not_be_removed() -> None:
    world = World(denied={"iam:DeleteRole"})
    steps, _ = played(world)
    assert steps["clean-up"].state is State.FAULT
    assert f"{RUN} role (no right)" in steps["clean-up"].finding
    assert world.things == {f"{RUN} role", f"{RUN}_log"}

    world.denied.clear()
    steps, _ = played(world)
    assert steps["leftovers"].finding == f"Deleted leftovers of {RUN}."
    assert world.things == set()


def test_an_api_that_does_not_delete_leaves_what_names_the_run_and_nothing_that_costs() -> None:
    world = World(broken={"deletion"})
    steps, _ = played(world)
    assert steps["clean-up"].state is State.FAULT
    assert world.things == {f"/topics/{RUN}/subscriptions/queue", f"{RUN}_log"}


def test_the_archive_is_waited_for_only_if_asked() -> None:
    steps, _ = played(World(archives_after_s=300.0))
    assert (steps["archive"].state, "--wait-archive" in steps["archive"].finding) == (State.UNCHECKED, True)
    steps, _ = played(World(archives_after_s=300.0), wait_archive=True)
    assert steps["archive"].state is State.OK
    steps, _ = played(World(archives_after_s=9_000.0), wait_archive=True)
    assert steps["archive"].state is State.FAULT


def test_a_job_is_started_only_if_asked_and_its_price_is_counted() -> None:
    steps, story = played(World(job=DONE), start_job=True)
    assert steps["job"].finding == "compact, started at 2026-11-24 03:10 UTC, is SUCCEEDED."
    assert 0.0146 < usd_of_smoke_test(story.counted) < 0.025


@pytest.mark.parametrize(
    ("job", "state", "told"),
    [
        (None, State.UNCHECKED, "has not run yet. --job runs it"),
        (JobRun("RUNNING", "now"), State.UNCHECKED, "is RUNNING. The test did not wait for its end."),
        (JobRun("FAILED", "now", "no such key"), State.FAULT, "is FAILED: no such key"),
    ],
)
def test_a_job_that_did_not_succeed_shows_nothing(job: JobRun | None, state: State, told: str) -> None:
    step = played(World(job=job))[0]["job"]
    assert (step.state, told in step.finding, step.shows) == (state, True, ())


def test_a_place_that_breaks_in_the_midst_of_a_look_is_a_fault_of_that_step_alone() -> None:
    world = World(broken={"S3"}, job=DONE)
    steps, _ = played(world)
    assert states(steps, State.FAULT) == ["archive"]
    assert world.things == set()
