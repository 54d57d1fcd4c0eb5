"""The steps of `tagcast smoke`: create resources, publish, check the deliveries, and delete everything.

The steps use the API, and a place that creates queues, functions and endpoints: AWS or the local stack. A step that
fails, or that the caller may not do, does not stop the other steps. The last step deletes all resources of the run by
name, whether or not an earlier step created them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from tagcast_client import Client, ConflictError, InvalidError, NotFoundError, ProblemError, TagcastError
from tagcast_client.operation import path_of

from local.rules.costs import SmokeTest
from tagcast_cli.doctor import State
from tagcast_cli.smoke_aws import Endpoint, MissingRightError, NotPlayedError, OnAws, PlaceError, Push
from tagcast_cli.smoke_receiver import BROKEN, EXPIRING, FAILS_ONCE

QUEUE, FUNCTION, ENDPOINT = "queue", "function", "endpoint"
SUBSCRIPTIONS = (QUEUE, FUNCTION, ENDPOINT, BROKEN, EXPIRING)
TAG = "smoke"
MESSAGES = 3
"""Messages for all subscriptions but the expiring one, which gets a message of its own."""
RETENTION_S = 60
"""The minimum retention of a topic."""
INTERVAL_S = 20
"""The retry interval: longer than the other deliveries take, so the test sees whether they waited for the retry."""
EXPIRED = "expired"
POLL_S = 0.5
MADE_S, DELIVERED_S, RETRIED_S, RECEIPT_S, ARCHIVED_S = 30.0, 40.0, 45.0, 15.0, 420.0
"""The maximum waits: for an active subscription, deliveries, a retry, a receipt and archived messages."""
AFTER_LIFE_S = 3.0
"""How long after a message's expiry to watch for late pushes."""
LATE_S = 15.0
"""How much later than its interval a retry may come, because of the workflow and a cold start."""
EARLY_SHARE = 0.9
"""The share of the interval that must pass before a retry: below 1, because clocks of two Lambda hosts may differ."""


class BrokenPromiseError(Exception):
    """An observed result is not the promised one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step. *finding* is a sentence about its result, and *took_s* its duration in seconds.

    *shows* are the rows of docs/aws-beliefs.md that the step confirms.
    """

    name: str
    state: State
    finding: str
    took_s: float
    shows: tuple[str, ...] = ()


@dataclass
class Story:
    """One run of the smoke test. *run* is its name; the names of all its resources begin with it.

    *place* creates queues and functions. *on_step* is called with each finished step. *counted* collects the numbers
    that the costs depend on. Each step returns a sentence about its result. A step raises BrokenPromiseError if it
    fails.
    """

    api: Client
    place: OnAws
    run: str
    secret: str = field(repr=False)
    on_step: Callable[[Step], object]
    time_scale: float = 1.0
    is_aws: bool = True
    wait_archive: bool = False
    start_job: bool = False
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    counted: SmokeTest = field(default_factory=SmokeTest)
    _has_no_topic: bool = False
    _made: list[str] = field(default_factory=list)
    _accepted: list[str] = field(default_factory=list)
    _expiring: Mapping[str, Any] = field(default_factory=dict)
    _published_s: float = 0.0
    _pushes: list[Push] = field(default_factory=list)
    _queued: list[str] = field(default_factory=list)

    def play(self) -> None:
        """Run all steps. Always delete the resources at the end, even after an interrupt."""
        try:
            for name, played, shows in STEPS:
                self._carry_out(name, partial(played, self), shows)
        finally:
            self._carry_out("clean-up", self._clean_up, ())
            self.counted.queue_requests = self.place.queue_requests
            self.counted.pushes = len(self._pushes)

    def _carry_out(self, name: str, play: Callable[[], str], shows: tuple[str, ...]) -> None:
        began_s, state, shown = self.now_s(), State.FAULT, tuple[str, ...]()
        try:
            finding = play()
            state, shown = State.OK, shows if self.is_aws else ()
        except (MissingRightError, NotPlayedError) as fault:
            state, finding = State.UNCHECKED, str(fault)
        except ProblemError as refused:
            if refused.status in (401, 403):
                state, finding = State.UNCHECKED, f"{MissingRightError('execute-api:Invoke')} {refused}"
            else:
                finding = f"The API refused: {refused}"
        except (BrokenPromiseError, PlaceError, TagcastError, OSError) as fault:
            finding = str(fault)
        self.on_step(Step(name, state, finding, self.now_s() - began_s, shown))

    def remove_leftovers(self) -> str:
        """Delete the resources of other runs. A run that is still in progress loses its resources, too."""
        runs = self.place.earlier_runs()
        for run in runs:
            self._remove(run)
        return f"Deleted leftovers of {', '.join(runs)}." if runs else "No leftovers of earlier runs."

    def make_topic(self) -> str:
        """Create the receivers' log, then a topic with the minimum retention."""
        self.place.make_log(self.run)
        try:
            self._ask("PUT", ("topics", self.run), {"retention_seconds": RETENTION_S})
        except ProblemError:
            self._has_no_topic = True
            raise
        self._made.append("topic")
        return f"The topic {self.run} is created, with a retention of {RETENTION_S} s."

    def make_queue(self) -> str:
        """Create a queue and subscribe it."""
        self._need("topic")
        self._subscribe(QUEUE, self.place.make_queue(self.run))
        return "A queue is created and subscribed."

    def make_function(self) -> str:
        """Create a function and subscribe it."""
        self._need("topic")
        endpoint = self.place.make_function(self.run, self.secret)
        self._made.append("receiver")
        self._subscribe(FUNCTION, endpoint)
        return "A function and its role are created, and the function is subscribed."

    def make_endpoint(self) -> str:
        """Create a URL of the function, and subscribe it three times: pushes succeed, fail once, or always fail."""
        self._need("topic", "receiver")
        endpoint = self.place.make_url(self.run)
        retry = {"strategy": "BACKOFF_RETRY", "interval_seconds": INTERVAL_S}
        self._subscribe(ENDPOINT, endpoint, secret=self.secret)
        self._subscribe(BROKEN, endpoint, secret=self.secret, retry=retry)
        self._subscribe(EXPIRING, endpoint, secret=self.secret, retry={"strategy": "EXPONENTIAL_DECAY_RETRY"})
        return "An HTTP endpoint is created, verified and subscribed three times."

    def publish(self) -> str:
        """Publish ordered messages (the first fails once), and a message for the expiring subscription."""
        wanted = [name for name in SUBSCRIPTIONS if name in self._made]
        if not wanted:
            raise NotPlayedError("No subscription exists: see above.")
        if EXPIRING in wanted:
            wanted.remove(EXPIRING)
            self._expiring = self._publish([EXPIRING], 1)
        for number in range(MESSAGES):
            tags = [TAG, FAILS_ONCE] if number == 0 else [TAG]
            self._accepted.append(self._publish(tags, len(wanted))["message_id"])
        self._published_s = self.now_s()
        expiring = ", and one message that every receiver refuses" if self._expiring else ""
        return f"{MESSAGES} messages are accepted and matched {len(wanted)} subscriptions each{expiring}."

    def see(self, name: str) -> str:
        """Check that the messages arrived at the subscription *name*, in order."""
        self._need_published(name)
        is_there = self._wait(lambda: len(set(self._received_ids(name))) == MESSAGES, DELIVERED_S)
        took_s, arrived = self.now_s() - self._published_s, self._received_ids(name)
        if not is_there:
            raise BrokenPromiseError(f"{len(set(arrived))} of {MESSAGES} messages arrived within {DELIVERED_S:.0f} s.")
        self._check_order(name, arrived)
        again = f", {len(arrived) - MESSAGES} of them twice" if len(arrived) > MESSAGES else ""
        return f"{MESSAGES} messages arrived in order, within {took_s:.1f} s{again}."

    def see_retry(self) -> str:
        """Check that the failed push was retried on time."""
        self._need_published(BROKEN)
        first = self._accepted[0]
        self._wait(lambda: first in self._delivered_ids(BROKEN), RETRIED_S)
        pushes = [push for push in self._pushes_to(BROKEN) if push.message_id == first]
        failed = [push for push in pushes if push.status != 200]
        if not failed:
            raise BrokenPromiseError("The failing endpoint received no push.")
        if failed == pushes:
            raise BrokenPromiseError(f"Attempt 1 got 503, and no retry succeeded within {RETRIED_S:.0f} s.")
        waited_s, wanted_s = pushes[len(failed)].at_s - failed[-1].at_s, INTERVAL_S / self.time_scale
        if not EARLY_SHARE * wanted_s <= waited_s <= wanted_s + LATE_S:
            raise BrokenPromiseError(f"The retry came after {waited_s:.1f} s; its interval is {wanted_s:g} s.")
        sentence = f"The retry came {waited_s:.1f} s later (interval {wanted_s:g} s) and succeeded."
        return f"Attempt 1 got 503. {sentence}"

    def see_order(self) -> str:
        """Check that messages behind the failed message waited in order, and other subscriptions did not wait."""
        self._need_published(BROKEN)
        self._wait(lambda: len(set(self._delivered_ids(BROKEN))) == MESSAGES, RETRIED_S)
        pushes = self._pushes_to(BROKEN)
        self._check_order(BROKEN, [push.message_id for push in pushes if push.status == 200])
        retried_s = min(push.at_s for push in pushes if push.status == 200)
        if any(push.message_id != self._accepted[0] and push.at_s < retried_s for push in pushes):
            raise BrokenPromiseError("A message was pushed before the retry of the message ahead of it.")
        others_s = [push.at_s for push in self._pushes_to(ENDPOINT)]
        if len(set(self._delivered_ids(ENDPOINT))) < MESSAGES or max(others_s) >= retried_s:
            raise BrokenPromiseError("The working endpoint got its messages only after the retry of the failing one.")
        return f"{MESSAGES - 1} messages waited behind it and arrived in order. The working endpoint did not wait."

    def see_expiry(self) -> str:
        """Check that a message without a successful push expires, and is not attempted afterwards."""
        self._need_published(EXPIRING)
        message_id, expires_at = str(self._expiring["message_id"]), str(self._expiring["expires_at"])
        if not self._wait(lambda: self._entry(message_id, EXPIRING)["state"] == EXPIRED, RETENTION_S + LATE_S):
            raise BrokenPromiseError(
                f"The message is {self._entry(message_id, EXPIRING)['state']} {LATE_S:.0f} s after its expiry."
            )
        life_s = RETENTION_S / self.time_scale + AFTER_LIFE_S
        self._wait(lambda: self.now_s() >= self._published_s + life_s, life_s)
        pushes = self._pushes_to(EXPIRING)
        late = [push for push in pushes if push.at_s >= datetime.fromisoformat(expires_at).timestamp()]
        if late:
            raise BrokenPromiseError(f"{len(late)} pushes came after the message expired at {expires_at}.")
        if len(pushes) < 2:
            raise BrokenPromiseError(f"Attempts before the expiry: {len(pushes)}. There was time for more.")
        return f"The message expired after {len(pushes)} attempts, all with 503. No push came after its expiry."

    def see_receipts(self) -> str:
        """Check that every delivery ended once, and that bodies were deleted after the last delivery."""
        self._need_published()
        ended = [name for name in SUBSCRIPTIONS if name in self._made and name != EXPIRING]
        for message_id in self._accepted:
            self._wait(partial(self._is_deleted, message_id), RECEIPT_S)
            message = self._message(message_id)
            states = {name: message["subscribers"][name]["state"] for name in ended}
            if set(states.values()) != {"delivered"}:
                raise BrokenPromiseError(f"Message {message_id} is {states}, not delivered to all.")
            if message["state"] != "deleted":
                raise BrokenPromiseError(f"Message {message_id} is {message['state']} after its last delivery.")
        return f"{MESSAGES} receipts say delivered for each subscription. The bodies are deleted."

    def see_archive(self) -> str:
        """Check that the messages are in the archive. Without ``wait_archive``, they may still be missing."""
        self._need_published()

        def is_there() -> bool:
            return self.place.read_archived(self.run) >= {*self._accepted}

        if not self._wait(is_there, ARCHIVED_S if self.wait_archive else 0.0):
            if self.wait_archive:
                raise BrokenPromiseError(f"The archive does not have all messages after {ARCHIVED_S:.0f} s.")
            raise NotPlayedError("Firehose writes every 5 minutes. To wait for it, use --wait-archive.")
        return f"{MESSAGES} messages are in the archive."

    def see_job(self) -> str:
        """Check a run of the compaction job: the last run, or a run that this step starts."""
        run = self.place.run_job() if self.start_job else self.place.last_job()
        if run is None:
            raise NotPlayedError("The job compact has not run yet. --job runs it, for 3 cents on AWS.")
        self.counted.dpu_hours += run.dpu_hours if self.start_job else 0.0
        text = f"compact, started at {run.began_at}, is {run.state}"
        if run.state in ("SUCCEEDED", "RUNNING", "STARTING", "WAITING", "STOPPING"):
            if run.state != "SUCCEEDED":
                raise NotPlayedError(f"{text}. The test did not wait for its end.")
            return f"{text}." if self.start_job else f"The last run: {text}. --job runs it now."
        raise BrokenPromiseError(f"{text}: {run.fault}")

    def _clean_up(self) -> str:
        self._remove(self.run)
        return "All resources of this run are deleted. The archive keeps the records of its messages."

    def _remove(self, run: str) -> None:
        """Delete a run's subscriptions, topic and receivers by name. Raises PlaceError if anything remains."""
        faults = []
        paths = (*(("topics", run, "subscriptions", name) for name in SUBSCRIPTIONS), ("topics", run))
        for segments in () if run == self.run and self._has_no_topic else paths:
            try:
                self._ask("DELETE", segments)
            except NotFoundError:
                continue
            except TagcastError as fault:
                faults.append(f"{segments[-1]} ({fault})")
        faults += self.place.remove(run, keep_log=bool(faults))
        if faults:
            raise PlaceError(f"Leftovers of {run}, which the next run deletes: {', '.join(faults)}")

    def _need(self, *made: str) -> None:
        missing = [name for name in made if name not in self._made]
        if missing:
            raise NotPlayedError(f"There is no {' and no '.join(missing)}: see above.")

    def _need_published(self, *made: str) -> None:
        self._need(*made)
        if len(self._accepted) < MESSAGES:
            raise NotPlayedError("Not all messages were accepted: see above.")

    def _subscribe(self, name: str, endpoint: Endpoint, **settings: Any) -> None:
        """Subscribe an endpoint and verify it. Retry after a refusal, because a new name may not resolve yet."""
        tag = EXPIRING if name == EXPIRING else TAG
        body: dict[str, Any] = {
            "endpoint": endpoint,
            "filter": {"kind": "tags", "tags": [tag]},
            "retry": {"strategy": "BACKOFF_RETRY"},
        }
        if endpoint["protocol"] in ("http", "https"):
            body["verification"] = "required"
        path, answers, refusals = ("topics", self.run, "subscriptions", name), list[Mapping[str, Any]](), list[str]()

        def is_active() -> bool:
            try:
                answers.append(
                    self._ask("POST", (*path, "verify")) if answers else self._ask("PUT", path, body | settings)
                )
            except (InvalidError, ConflictError) as fault:
                refusals.append(str(fault))
                return False
            return answers[-1].get("state") is None

        if not self._wait(is_active, MADE_S):
            raise BrokenPromiseError(f"{name} is not subscribed: {refusals[-1] if refusals else answers[-1]['state']}")
        self._made.append(name)

    def _publish(self, tags: list[str], matches: int) -> Mapping[str, Any]:
        self.counted.messages += 1
        accepted = self._ask("POST", ("topics", self.run, "messages"), {"body": "smoke", "tags": tags})
        if accepted["matched"] != matches:
            raise BrokenPromiseError(f"A message matched {accepted['matched']} subscriptions; {matches} were created.")
        return accepted

    def _received_ids(self, name: str) -> list[str]:
        return self._queued if name == QUEUE else self._delivered_ids(name)

    def _check_order(self, name: str, arrived: list[str]) -> None:
        """Compare each message's first push with the order of acceptance: a message may be pushed twice."""
        first = list(dict.fromkeys(arrived))
        if first != self._accepted:
            places = [self._accepted.index(each) + 1 if each in self._accepted else each for each in first]
            raise BrokenPromiseError(f"{name} got the messages in the order {places}.")

    def _delivered_ids(self, name: str) -> list[str]:
        return [push.message_id for push in self._pushes_to(name) if push.status == 200]

    def _pushes_to(self, name: str) -> list[Push]:
        return [push for push in self._pushes if push.subscription == name]

    def _message(self, message_id: str) -> Mapping[str, Any]:
        return self._ask("GET", ("topics", self.run, "messages", message_id))

    def _is_deleted(self, message_id: str) -> bool:
        return bool(self._message(message_id)["state"] == "deleted")

    def _entry(self, message_id: str, name: str) -> Mapping[str, Any]:
        entry: Mapping[str, Any] = self._message(message_id)["subscribers"][name]
        return entry

    def _wait(self, is_there: Callable[[], bool], wait_s: float) -> bool:
        """Return whether a condition becomes true in time. Between checks, read the receivers' log."""
        deadline_s = self.now_s() + wait_s
        while True:
            if self._accepted:
                self._pushes += self.place.read_pushes()
                self._queued += self.place.read_queued() if QUEUE in self._made else ()
            if is_there():
                return True
            if self.now_s() >= deadline_s:
                return False
            self.sleep(POLL_S)

    def _ask(self, method: str, segments: Sequence[str], body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        self.counted.requests += 1
        return self.api.request(method, path_of(*segments), body).json


STEPS: tuple[tuple[str, Callable[[Story], str], tuple[str, ...]], ...] = (
    ("leftovers", Story.remove_leftovers, ()),
    ("topic", Story.make_topic, ("api-http",)),
    ("make queue", Story.make_queue, ()),
    ("make function", Story.make_function, ("iam-role-lag",)),
    ("make endpoint", Story.make_endpoint, ("lambda-public-url",)),
    ("publish", Story.publish, ("ddb-strong-read",)),
    ("queue", partial(Story.see, name=QUEUE), ("esm-sqs", "iam-resource-policy")),
    ("function", partial(Story.see, name=FUNCTION), ("lambda-invoke",)),
    ("endpoint", partial(Story.see, name=ENDPOINT), ("kms-context",)),
    ("retry", Story.see_retry, ("sfn-name",)),
    ("order", Story.see_order, ("sqs-fifo-order",)),
    ("receipts", Story.see_receipts, ("ddb-transaction", "ddb-partiql-removes")),
    ("expiry", Story.see_expiry, ()),
    ("archive", Story.see_archive, ("ddb-stream", "esm-filter", "firehose-concatenation")),
    ("job", Story.see_job, ("glue-session", "glue-arguments", "glue-version")),
)
"""Each step with its name, its method, and the rows of docs/aws-beliefs.md that must be true for it."""
