"""The audit's judgement as the document of the archive has it, one entry after the other."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from tagcast.errors import FilterEvaluationError
from tagcast.filters.kinds import compile_filter
from tagcast.model import Draft

from tests.simulation.rules import FUNCTION_RULES, RULES
from tests.spark.oracle.facts import (
    FOREVER,
    Entry,
    Lane,
    closed_times,
    entries_of,
    grouped,
    in_force,
    lane_of,
    least,
    most,
    named,
    policies_of,
)
from tests.spark.oracle.records import Archive, Fields
from tests.spark.oracle.report import Window

SKEW_MS, SECOND_MS, HOUR_MS = 1_000, 1_000, 3_600_000
BLUR_MS = SKEW_MS + SECOND_MS
TIMEOUT_S_MAX = 30
RUN_MS = 120_000
WRITTEN_WITHIN_MS = 8 * HOUR_MS
Violation = tuple[str, str | None, str, int, int | None]
"""Kind, topic, message id, ordinal and instant."""
MEANINGS = [(rule.json, rule.meaning) for rule in (*RULES, *FUNCTION_RULES) if rule.json is not None]


@dataclass(frozen=True)
class Seen:
    """A message as a filter reads it."""

    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    body: bytes | None


def matches(text: str | None, message: Fields) -> bool | None:
    """Say whether a filter matches a message; None if it reads a body that was not archived.

    The filters of the simulation have a plain meaning, written without any code of the service.
    """
    if text is None:
        return True
    value = json.loads(text)
    tags, key, properties = tuple(message.get("tags", ())), message.get("routing_key"), message.get("properties", {})
    for known, meaning in MEANINGS:
        if known.items() <= value.items():
            return meaning(Draft(b"", tags=tags, routing_key=key, properties=properties))
    compiled = _compiled(text)
    body = message.get("body")
    if compiled.reads_body and body is None:
        return None
    try:
        return compiled.evaluate(Seen(tags, key, properties, None if body is None else body.encode())) is True
    except FilterEvaluationError:
        return False


@cache
def _compiled(text: str) -> Any:
    return compile_filter(json.loads(text))


class Audit:
    """What breaks a promise, and what is counted; *erased* are the record ids of messages without their contents."""

    def __init__(self, archive: Archive, window: Window, as_of: int, erased: Collection[str] = ()) -> None:
        self.as_of, self.over_before = as_of, as_of - WRITTEN_WITHIN_MS
        self.known_since = window.first_at - HOUR_MS
        self.erased = erased
        self.messages = [each for each in archive.messages if window.holds(each["accepted_at"])]
        self.deliveries = [each for each in named(archive) if window.holds(each["accepted_at"])]
        self.known = {(each["topic"], each["message_id"]): each for each in self.messages}
        self.entries = list(entries_of(self.messages, self.deliveries).values())
        self.subscriptions = grouped(archive.subscriptions, lambda each: (each["topic"], each.get("ordinal")))
        self.filters = {
            lane: [each for each in rows if each["part"] == "filter"] for lane, rows in self.subscriptions.items()
        }
        self.ordinals = defaultdict(list)
        for topic, ordinal in self.filters:
            self.ordinals[topic].append(ordinal)
        self.policies = policies_of(archive.subscriptions)
        self.lanes = grouped(archive.lanes, lane_of)
        self.closed = closed_times(archive.lanes)
        self.counts: Counter[str] = Counter()
        self.violations = [
            *self.unkept(), *self.limits(), *self.waits(), *self.unasked(), *self.matching(), *self.late(),
            *self.order(), *self.overtaken(),
        ]  # fmt: skip
        self.count()

    @property
    def judged(self) -> int:
        return self.counts["entries"] - self.counts["within_life"] + self.counts["evaluated"]

    def count(self) -> None:
        pending = [each for each in self.entries if each.is_pending]
        self.counts["messages"] = len(self.messages)
        self.counts["entries"] = len(pending)
        for each in pending:
            if each.end is not None:
                self.counts[each.end] += 1
            self.counts["waited"] += bool(each.ends and each.waits)
            is_open = not each.ends and each.removed_at is None
            self.counts["within_life"] += is_open and (each.expires_at or 0) > self.over_before

    # Each pending entry ends once; nothing else is told of.

    def unkept(self) -> Iterator[Violation]:
        for each in self.entries:
            place = each.topic, each.message_id, each.ordinal
            if each.is_pending:
                if len(each.ends) > 1:
                    yield "ended_twice", *place, each.ended_at
                if not each.ends and each.removed_at is not None:
                    yield "removed_pending", *place, each.removed_at
                if not each.ends and each.removed_at is None and (each.expires_at or FOREVER) <= self.over_before:
                    yield "never_ended", *place, each.expires_at
            elif each.ends or each.waits:
                kind = "unmatched" if (each.topic, each.message_id) in self.known else "orphan"
                first_wait = least(wait["changed_at"] for wait in each.waits)
                yield kind, *place, each.ended_at if each.ended_at is not None else first_wait

    # Attempts.

    def limits(self) -> Iterator[Violation]:
        for each in self.entries:
            place = each.topic, each.message_id, each.ordinal
            told = in_force(self.policies, each.lane, each.accepted_at, each.ended_at or self.as_of, BLUR_MS)
            retries = [policy.fields["max_retries"] for policy in told]
            timeout_s = max((policy.fields["timeout_s"] for policy in told), default=TIMEOUT_S_MAX)
            last = most(attempt.get("last_attempt_at") for attempt in (*each.ends, *each.waits))
            expires_at = each.expires_at or FOREVER
            firsts = [most(it.get("last_attempt_at") for it in several) for several in (each.ends, each.waits)]
            if (first := least(firsts)) is not None and first < each.accepted_at - SKEW_MS:
                yield "before_acceptance", *place, first
            if each.end == "delivered" and (each.attempts or 0) < 1:
                yield "unattempted", *place, each.ended_at
            is_late = last is not None and last > expires_at + timeout_s * 1000 + SKEW_MS
            is_pulled = any(policy.is_pulled for policy in told)
            if is_late and not is_pulled:
                yield "after_expiry", *place, last
            suspended = sum(change["state"] == "suspended" for change in self.lanes.get(each.lane, ()))
            if retries and not is_pulled and each.made > 1 + max(retries) + suspended:
                yield "too_many_attempts", *place, last
            if each.end == "discarded" and not each.is_dropped and retries and (each.attempts or 0) <= min(retries):
                yield "discarded_early", *place, each.ended_at
            if each.end == "expired" and not each.made and (each.ended_at or 0) + BLUR_MS < expires_at:
                yield "expired_early", *place, each.ended_at

    def waits(self) -> Iterator[Violation]:
        """Waits of the heads of lanes between attempts, and attempts that nobody recorded."""
        for each in self.entries:
            recorded = attempts_of(each)
            self.counts["failed_attempts"] += len(recorded)
            is_group = any(policy.is_pulled for policy in self.policies.get(each.lane, ()))
            failed = (each.attempts or 0) - 1
            is_judged = each.is_pending and len(each.ends) == 1 and not is_group
            if is_judged and failed > sum(attempt <= failed for attempt in recorded):
                yield "attempt_unrecorded", each.topic, each.message_id, each.ordinal, each.ended_at
            yield from self.gaps(each, recorded)

    def gaps(self, each: Entry, recorded: Mapping[int, tuple[int | None, int | None]]) -> Iterator[Violation]:
        stood_at = least(place_of(wait) for wait in each.waits if wait["attempts"] == 0)
        for number, (at, place) in sorted(recorded.items()):
            next_at = recorded.get(number + 1, (None, None))[0]
            if at is None or next_at is None:
                continue
            self.counts["gaps"] += 1
            told = in_force(self.policies, each.lane, at, next_at, BLUR_MS)
            waits = [(wait, policy) for policy in told if (wait := policy.least_wait_ms(number)) is not None]
            is_ordered = all(policy.fields["strategy"] == "BACKOFF_RETRY" for _, policy in waits)
            had_stood = stood_at is not None and stood_at == place
            waits_alone = all(policy.fields["strategy"] == "INDEPENDENT_RETRY" for _, policy in waits)
            if not waits or not (number > 1 or waits_alone or place == 0 or (had_stood and is_ordered)):
                continue
            self.counts["gaps_judged"] += 1
            is_short = next_at - at + SKEW_MS < min(wait for wait, _ in waits)
            if is_short and not any(at - BLUR_MS <= moved <= next_at + SKEW_MS for moved in self.moved(each.lane)):
                yield "too_soon", each.topic, each.message_id, each.ordinal, next_at

    def moved(self, lane: Lane) -> list[int]:
        """Return when a lane that was not active came under a new generation, or was suspended."""
        return [
            each["changed_at"]
            for each in self.lanes.get(lane, ())
            if each["state"] == "suspended"
            or (
                each["previous_state"] != "active"
                and "previous_generation" in each
                and each["generation"] != each["previous_generation"]
            )
        ]

    def unasked(self) -> Iterator[Violation]:
        for each in self.entries:
            place, told = (each.topic, each.message_id, each.ordinal), self.subscriptions.get(each.lane, [])
            if each.end == "cancelled" and each.ended_at is not None:
                gone = [row["changed_at"] for row in told if row["part"] == "removed"]
                gone += [row["changed_at"] for row in self.lanes.get(each.lane, ()) if row["state"] == "removed"]
                is_gone = any(at <= each.ended_at + BLUR_MS for at in gone)
                is_moved = any(abs(at - each.ended_at) <= BLUR_MS for at in self.moved(each.lane))
                if not is_gone and not is_moved:
                    yield "cancelled_unasked", *place, each.ended_at
            if each.end == "filtered" or each.is_dropped:
                filters = [json.loads(row["filter"]) for row in self.filters.get(each.lane, ()) if "filter" in row]
                if not any(value["kind"] == "function" for value in filters):
                    yield "filtered_unasked", *place, each.ended_at

    # Matches.

    def filter_of(self, lane: Lane, version: int) -> Fields | None:
        """Return the filter in force: that with the greatest ``since`` that is not above the version."""
        known = [each for each in self.filters.get(lane, ()) if each["since"] <= version]
        return max(known, key=lambda each: each["since"]) if known else None

    def unseen(self, message: Fields) -> int | None:
        """Return the subscription of the oldest filter that a message should have met, and did not."""
        others = []
        for (topic, ordinal), rows in self.filters.items():
            gone = [each["changed_at"] for each in self.subscriptions[topic, ordinal] if each["part"] == "removed"]
            if topic == message["topic"] and not any(at < self.known_since for at in gone):
                others += [each for each in rows if each["since"] > message["subscriptions_version"]]
        oldest = min(((each["changed_at"], each["ordinal"]) for each in others), default=(FOREVER, None))
        return oldest[1] if oldest[0] < message["accepted_at"] - HOUR_MS else None

    def matching(self) -> Iterator[Violation]:
        for message in self.messages:
            self.counts["erased"] += message["record_id"] in self.erased
            self.counts["replays"] += "replay_of" in message
            if (ordinal := self.unseen(message)) is not None:
                yield "outdated", message["topic"], message["message_id"], ordinal, message["accepted_at"]
            for ordinal in {*self.ordinals.get(message["topic"], ()), *message["matched"]} - {None}:
                if (kind := self.verdict(message, ordinal)) is not None:
                    yield kind, message["topic"], message["message_id"], ordinal, message["accepted_at"]

    def verdict(self, message: Fields, ordinal: int) -> str | None:
        """Return what is wrong about one subscription and a message, and count what is looked at."""
        lane, pending = (message["topic"], ordinal), ordinal in message["matched"]
        found = self.filter_of(lane, message["subscriptions_version"])
        gone = [each["changed_at"] for each in self.subscriptions.get(lane, ()) if each["part"] == "removed"]
        if found is None or any(at < message["accepted_at"] - HOUR_MS for at in gone):
            is_young = message["accepted_at"] > self.as_of
            self.counts["matches_of_unknown_filters"] += pending and is_young
            return "no_filter" if pending and not is_young else None
        does_match = matches(found.get("filter"), message)
        if does_match is None:
            self.counts["unjudged_without_body"] += 1
            return None
        self.counts["evaluated"] += 1
        if pending:
            is_function = "filter" in found and json.loads(found["filter"])["kind"] == "function"
            self.counts["matches_judged_later"] += does_match and is_function
            return None if does_match else "not_in_filter"
        if not does_match or "replay_of" in message:
            return None
        if any(message["accepted_at"] + SKEW_MS >= at for at in gone):
            self.counts["misses_not_provable"] += 1
            return None
        return "missed"

    def late(self) -> Iterator[Violation]:
        """Late entries that their groups did not ask for, that their filter does not match, or without a message."""
        for each in self.deliveries:
            message = self.known.get((each["topic"], each["message_id"]))
            if "added_at" not in each:
                continue
            if message is None:
                yield "orphan", each["topic"], each["message_id"], each["ordinal"], each["added_at"]
                continue
            self.counts["late_entries"] += 1
            lane, told = lane_of(each), self.subscriptions.get(lane_of(each), [])
            place = each["topic"], each["message_id"], each["ordinal"], each["added_at"]
            settings = sorted((row for row in told if row["part"] == "settings"), key=lambda row: row["version"])
            asked = [row.get("start_from") for row in settings[:1]]
            since = least(row["since"] for row in self.filters.get(lane, ()))
            is_asked = any(at is not None and message["accepted_at"] >= at for at in asked) and since is not None
            is_asked = is_asked and message["subscriptions_version"] < (since or 0) and "replay_of" not in message
            if not is_asked or each["ordinal"] in message["matched"]:
                yield "late_unasked", *place
            versions = [row for row in self.filters.get(lane, ()) if row["version"] == each.get("filter_version")]
            if not versions or matches(versions[0].get("filter"), message) is False:
                yield "late_not_in_filter", *place

    # Order.

    def is_ordered(self, lane: Lane) -> bool:
        told = self.policies.get(lane, ())
        return bool(told) and all(each.fields["strategy"] == "BACKOFF_RETRY" and not each.is_pulled for each in told)

    def order(self) -> Iterator[Violation]:
        waited = [each for each in self.entries if each.waits and self.is_ordered(each.lane)]
        self.counts["backlog_of_ordered_lanes"] = len(waited)
        for lane, several in grouped(waited, lambda each: each.lane).items():
            places = [Place.of(each, self.closed.get(lane, ()), self.as_of) for each in several]
            for one in places:
                if one.tried_at is not None and any(one.overtook(other) for other in places):
                    yield "out_of_order", *one.entry, one.tried_at
        direct = [each for each in self.entries if each.end == "delivered" and not each.waits]
        for lane, several in grouped(direct, lambda each: each.lane).items():
            if self.is_ordered(lane):
                self.disorder(sorted(several, key=lambda each: each.message_id))

    def disorder(self, direct: Sequence[Entry]) -> None:
        latest: int | None = None
        for each in direct:
            self.counts["direct_deliveries"] += 1
            at = each.last_attempt_at
            if latest is not None and at is not None and latest > at:
                self.counts["before_an_earlier_one"] += 1
                self.counts["most_ms"] = max(self.counts["most_ms"], latest - at)
            latest = most((latest, at))

    def overtaken(self) -> Iterator[Violation]:
        for each in self.entries:
            began, ended = each.round_at, each.last_attempt_at
            if each.end == "delivered" and began is not None and ended is not None:
                closed = self.closed.get(each.lane, ())
                told = self.policies.get(each.lane, ())
                probes = any(policy.fields["strategy"] == "INDEPENDENT_RETRY" for policy in told)
                last = max(began, ended) + (RUN_MS if probes else SKEW_MS)
                if any(begins + BLUR_MS <= began and last <= ends for begins, ends in closed):
                    yield "overtaken", each.topic, each.message_id, each.ordinal, began


def place_of(wait: Fields) -> int | None:
    return int(wait["position"]) if "position" in wait else None


def attempts_of(each: Entry) -> dict[int, tuple[int | None, int | None]]:
    """Return by number when each recorded attempt of an entry that waited ended, and at which place in its backlog."""
    told: dict[int, list[tuple[int | None, int | None]]] = defaultdict(list)
    for wait in each.waits:
        if wait["attempts"] > 0:
            told[wait["attempts"]].append((wait.get("last_attempt_at"), place_of(wait)))
    if each.ends and each.waits and each.attempts and each.last_attempt_at is not None:
        told[each.attempts].append((each.last_attempt_at, None))
    return {
        number: (least(at for at, _ in several), least(place for _, place in several))
        for number, several in told.items()
    }


@dataclass(frozen=True)
class Place:
    """Where an entry stood in the backlog of a lane that keeps an order, from when until when, and its first try."""

    entry: tuple[str | None, str, int]
    place: int | None
    stood_at: int
    tried_at: int | None
    pending_until: int
    backlog: int
    """Which of the lane's backlogs: one begins whenever the lane closes."""

    @classmethod
    def of(cls, each: Entry, closed: Sequence[tuple[int, int]], as_of: int) -> Self:
        stood_at = min(wait["changed_at"] for wait in each.waits)
        tries = [wait.get("last_attempt_at") for wait in each.waits if wait["attempts"] > 0]
        tries += [each.last_attempt_at] if each.attempts else []
        until = each.ended_at
        if each.end in ("delivered", "discarded") and each.last_attempt_at is not None:
            until = each.last_attempt_at
        if until is not None and (each.end == "filtered" or each.is_dropped):
            until -= RUN_MS  # The verdict of a function is written with the pushes of its run.
        if until is not None and each.end == "expired":
            until = min(until, each.expires_at or FOREVER)
        until = until if until is not None else each.removed_at
        return cls(
            (each.topic, each.message_id, each.ordinal),
            least(place_of(wait) for wait in each.waits),
            stood_at,
            least(at for at in tries if at is not None and at >= stood_at + BLUR_MS),
            as_of if until is None else until,
            sum(begins <= stood_at for begins, _ in closed),
        )

    def overtook(self, other: Self) -> bool:
        """Say whether this one was tried while the other one, before it in the same backlog, was pending."""
        if self.tried_at is None or self.place is None or other.place is None or self.backlog != other.backlog:
            return False
        was_there = other.stood_at + BLUR_MS <= self.tried_at and self.tried_at + SKEW_MS < other.pending_until
        return other.place < self.place and was_there
