"""EventBridge: the schedules of the template, tried again after an error, and its rules about objects of S3."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from local.sources.event_pattern import matches
from local.template.intrinsics import Resolver
from tests.aws.lambdas import Ended, Function, Functions
from tests.aws.queues import Queue
from tests.aws.s3 import S3
from tests.aws.timeline import Timeline

UNITS_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
TRIES_AGAIN_MS = (60_000, 120_000)
"""The waits before an asynchronous invocation that failed is tried again, twice unless the function says otherwise.

One that was refused for lack of concurrency is tried again for its whole age, after 1 s, 2 s … 5 minutes
(lambda/latest/dg/invocation-async-error-handling.html).
"""
REFUSED_MS, REFUSED_MS_MAX, AGE_S_MAX = 1_000, 300_000, 6 * 3_600
_DELIVERY_MS = (100, 1_000)
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


class Schedules:
    """Every rule that has a rate and calls a function."""

    def __init__(self, timeline: Timeline, stack: Resolver, functions: Functions, seed: int | str = 0) -> None:
        self._timeline, self._functions = timeline, functions
        self._chance = Random(f"schedules {seed}")
        self.skips: Callable[[], bool] = lambda: False
        """Says whether one event of a schedule never comes."""
        self._again = {
            given["FunctionName"]: (given["MaximumRetryAttempts"], given["MaximumEventAgeInSeconds"])
            for _, given in stack.of_type("AWS::Lambda::EventInvokeConfig")
        }
        by_arn = {function.arn: function for function in functions.by_id.values()}
        self._rates = [
            (self._rate_ms(properties["ScheduleExpression"]), by_arn[target["Arn"]])
            for _, properties in stack.of_type("AWS::Events::Rule")
            if "ScheduleExpression" in properties
            for target in properties["Targets"]
        ]

    def begin(self) -> None:
        """Let the schedules run, each from a chance instant within its first period."""
        for period_ms, function in self._rates:
            self._timeline.after(self._chance.uniform(0, period_ms), partial(self._tick, period_ms, function))

    def fire(self, kind: str) -> None:
        """Send the event of the schedule of one function now."""
        for _, function in self._rates:
            if function.kind == kind:
                self._functions.start(function, self._event(), lambda ended: None, label="schedule")

    def _tick(self, period_ms: int, function: Function) -> None:
        if not self.skips():
            self._send(function, self._timeline.now)
        self._timeline.after(period_ms, lambda: self._tick(period_ms, function))

    def _send(self, function: Function, sent_at: int, failures: int = 0, refusals: int = 0) -> None:
        tries_max, age_s_max = self._again.get(function.name, (len(TRIES_AGAIN_MS), AGE_S_MAX))

        def then(ended: Ended) -> None:
            if ended.error == "TooManyRequestsException":
                wait_ms = min(REFUSED_MS_MAX, REFUSED_MS << min(refusals, 10))
                if self._timeline.now + wait_ms <= sent_at + 1000 * age_s_max:
                    self._timeline.after(wait_ms, lambda: self._send(function, sent_at, failures, refusals + 1))
            elif ended.error is not None and failures < tries_max:
                self._timeline.after(TRIES_AGAIN_MS[failures], lambda: self._send(function, sent_at, failures + 1))

        self._functions.start(function, self._event(), then, label="schedule")

    def _event(self) -> dict[str, Any]:
        return {"version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}

    @staticmethod
    def _rate_ms(expression: str) -> int:
        found = _RATE.fullmatch(expression)
        if found is None:
            raise NotImplementedError(expression)
        return int(found[1]) * UNITS_MS[found[2]]


class ObjectRules:
    """Every rule about new objects of a bucket that tells EventBridge of them; its targets are queues."""

    def __init__(self, timeline: Timeline, stack: Resolver, queues: Mapping[str, Queue], seed: int | str = 0) -> None:
        self._timeline, self._queues = timeline, queues
        self._chance = Random(f"objects {seed}")
        self._buckets = {
            stack.name_of(logical_id)
            for logical_id, given in stack.of_type("AWS::S3::Bucket")
            if given.get("NotificationConfiguration", {}).get("EventBridgeConfiguration", {}).get("EventBridgeEnabled")
        }
        self._rules = [given for _, given in stack.of_type("AWS::Events::Rule") if "EventPattern" in given]

    def follow(self, s3: S3) -> None:
        """Hear of every object."""
        s3.told.append(self._created)

    def _created(self, bucket: str, key: str) -> None:
        if bucket not in self._buckets:
            return
        detail = {"bucket": {"name": bucket}, "object": {"key": key}, "reason": "PutObject"}
        event = {"version": "0", "source": "aws.s3", "detail-type": "Object Created", "detail": detail}
        for rule in self._rules:
            if matches(rule["EventPattern"], event):
                for target in rule["Targets"]:
                    arrive = partial(self._arrive, target["Arn"], json.dumps(event))
                    self._timeline.after(self._chance.uniform(*_DELIVERY_MS), arrive)

    def _arrive(self, queue: str, event: str) -> None:
        self._queues[queue].send(event, None, None, {})
