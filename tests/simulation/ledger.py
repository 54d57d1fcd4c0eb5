"""What is known of a history from outside: raw rows, what receivers saw, what was asked; never the code under test."""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self

from tagcast.model import Draft, Ordering, Strategy
from tagcast.ports import Key, World

from tests.simulation.plan import Plan
from tests.simulation.rules import meant

Row = dict[str, Any]
Change = tuple[Key, Row | None, Row | None]
TERMINAL = {"delivered", "discarded", "expired", "cancelled", "filtered"}


class Broken(BaseException):
    """A promise that did not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Stage(Protocol):
    """Where a history is played, as far as the checks look at it."""

    plan: Plan
    now: int
    steps: int
    broken: Broken | None

    def world(self) -> World: ...

    def row(self, key: Key) -> Mapping[str, Any] | None: ...


def ordinals_in(packed: bytes | None) -> set[int]:
    """Decode a packed set of ordinals, written apart from the core's codec."""
    if not packed:
        return set()
    if packed[0] == 1:
        return {8 * place + bit for place, byte in enumerate(packed[1:]) for bit in range(8) if byte & (1 << bit)}
    found, last, number, weight = set(), -1, 0, 1
    for byte in packed[1:]:
        number += (byte % 128) * weight
        weight *= 128
        if byte < 128:
            last += number + 1
            found.add(last)
            number, weight = 0, 1
    return found


def body_in(row: Mapping[str, Any]) -> bytes | None:
    """Return the body that a message's row has, in one form or the other, read apart from the core's codec."""
    if {"body", "deflated"} <= row.keys():
        raise Broken("one body", f"{row['message_id']} has its body twice")
    found: bytes | None = zlib.decompress(row["deflated"]) if "deflated" in row else row.get("body")
    return found


def ended_in(row: Mapping[str, Any], prefix: str) -> dict[int, list[Any]]:
    """Decode what ended in a round otherwise than by its first attempt, written apart from the core's codec."""
    if f"{prefix}ended" not in row:
        return {}
    *columns, outcomes = json.loads(zlib.decompress(row[f"{prefix}ends"]))
    words = ("delivered", "discarded", "expired", "cancelled", "filtered")
    ordinals, found = sorted(ordinals_in(row[f"{prefix}ended"])), {}
    for ordinal, (state, attempts, since, place) in zip(ordinals, zip(*columns, strict=True), strict=True):
        at = None if since is None else row["accepted_at"] + since
        found[ordinal] = [words[state], attempts, at, None if place is None else outcomes[place]]
    return found


def finished_in(row: Mapping[str, Any], prefix: str) -> dict[int, int]:
    """Decode when who got it at the first attempt did, in milliseconds since the round began."""
    finished, offsets = sorted(ordinals_in(row.get(f"{prefix}delivered"))), row.get(f"{prefix}offsets") or b""
    return {o: int.from_bytes(offsets[2 * i : 2 * i + 2]) for i, o in enumerate(finished)}


@dataclass(frozen=True)
class Receipt:
    """A message, or a section of one, as the checks read it of all of its rows."""

    matched: set[int]
    pending: set[int]
    finished: dict[int, int]
    exceptions: dict[int, list[Any]]
    waiting: frozenset[int] = frozenset()
    """Those of the pending whose first round is open."""
    handed: frozenset[int] = frozenset()
    """Those of the pending that lie in the queues of their groups."""

    @property
    def is_open(self) -> bool:
        return bool(self.waiting)

    @property
    def pending_count(self) -> int:
        return len(self.pending)

    @property
    def in_backlogs(self) -> set[int]:
        return self.pending - self.waiting - self.handed

    @classmethod
    def of(cls, rows: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the receipt of a message by the sort keys of its rows."""
        parts = sections_of(rows)
        return cls(
            matched=set().union(*(each.matched for each in parts)),
            pending=set().union(*(each.pending for each in parts)),
            finished={o: at for each in parts for o, at in each.finished.items()},
            exceptions={o: entry for each in parts for o, entry in each.exceptions.items()},
            waiting=frozenset().union(*(each.waiting for each in parts)),
            handed=frozenset().union(*(each.handed for each in parts)),
        )

    def terminal(self, ordinal: int) -> tuple[str, int] | None:
        """Return state and attempts of an entry that is terminal."""
        if ordinal in self.finished:
            return "delivered", 1
        if ordinal in self.exceptions:
            return self.exceptions[ordinal][0], self.exceptions[ordinal][1]
        return None


def sections_of(rows: Mapping[str, Mapping[str, Any]]) -> list[Receipt]:
    """Return the receipts of a message's sections; a narrow one has one."""
    own = rows["MSG"]
    matched = ordinals_in(own["matched"])
    in_order = set() if "unordered" in own else ordinals_in(own["in_order"]) if "in_order" in own else matched
    late = {int(sk[5:]) for sk in rows if sk.startswith("LATE#")}
    bounds = sorted(ordinals_in(own.get("bounds")))
    if not bounds:
        return [_receipt(rows, matched, in_order, late, [(own, "in_order", ""), (own, "apart", "apart_")])]
    found = []
    for number, (low, high) in enumerate(zip(bounds, [*bounds[1:], 10**9], strict=True)):
        parts = [
            (rows[f"ROUND#{number:05d}#{audience}"], audience, "")
            for audience in ("everybody", "in_order", "apart")
            if f"ROUND#{number:05d}#{audience}" in rows
        ]
        members = {o for o in matched if low <= o < high}
        found.append(_receipt(rows, members, in_order, late if high == 10**9 else set(), parts))
    return found


def _receipt(
    rows: Mapping[str, Mapping[str, Any]],
    members: set[int],
    in_order: set[int],
    late: set[int],
    parts: list[tuple[Mapping[str, Any], str, str]],
) -> Receipt:
    is_split = "apart_round" in rows["MSG"] and 0 < len(members & in_order) < len(members)
    whom = {"everybody": members, "in_order": members & in_order if is_split else members, "apart": members - in_order}
    finished: dict[int, int] = {}
    exceptions: dict[int, list[Any]] = {}
    waiting, handed = set(members), {int(sk[9:]) for sk in rows if sk.startswith("ENQUEUED#")}
    for row, audience, prefix in parts:
        if f"{prefix}round_at" in row:
            finished |= finished_in(row, prefix)
            exceptions |= ended_in(row, prefix)
            handed |= ordinals_in(row.get(f"{prefix}enqueued"))
            waiting -= whom[audience]
    for ordinal in members | late:
        end = rows.get(f"END#{ordinal:010d}")
        if end is not None:
            if ordinal in finished or ordinal in exceptions:
                raise Broken("3 terminal is final", f"{end['message_id']} #{ordinal} ended twice")
            last = end.get("last_attempt_at"), end.get("last_outcome")
            exceptions[ordinal] = [end["state"], end["attempts"], *last]
    pending = (members | late) - finished.keys() - exceptions.keys()
    return Receipt(
        members | late, pending, finished, exceptions, frozenset(waiting & pending), frozenset(handed & pending)
    )


@dataclass(frozen=True)
class Reply:
    """What a receiver did with one push: *status* None is no answer; *asked_ms* is what Retry-After asks for."""

    status: int | None
    detail: str
    took_ms: int
    retry_after: str | None = None
    asked_ms: int = 0

    @property
    def success(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299

    @property
    def gone(self) -> bool:
        return self.status == 410

    @property
    def refused(self) -> bool:
        """Whether it is about the message alone: neither a success, nor about the receiver or what stands before it."""
        return self.status is not None and self.status >= 400 and self.status not in (408, 410, 429, 502, 503, 504)

    def wish_ms(self, ended_at: int, expires_at: int) -> int:
        """Return how long the receiver wants no attempt, 0 if the message expires before it does."""
        return self.asked_ms if ended_at + self.asked_ms < expires_at else 0


NAMED = "named as failed, or behind one that is"
"""What the reply to a batch says of such a message."""


@dataclass(eq=False)
class Attempt:
    """One push as the receiver saw it."""

    message_id: str
    ordinal: int
    number: int
    began_at: int
    ended_at: int | None = None
    reply: Reply | None = None
    worker: str = ""
    """The name of the worker that pushed; empty if a member pulled."""
    counts: bool = True
    """Whether it is one of its delivery: of a batch that fails nobody but the head is known to have had one."""

    def told(self) -> str:
        return f"{self.message_id} to #{self.ordinal}"


class Ledger:
    """Everything that the checks remember."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.topic: Row = {}
        self.version = 0
        self.version_by: dict[str, int] = {}
        """The last version of the topic that a worker made."""
        self.told_version = 0
        """The last one that was acknowledged to an operator."""
        self.registry: dict[int, dict[int, Row]] = {0: {}}
        """Subscriptions by ordinal, as they were at each version of the topic."""
        self.retries: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        """How each subscription ever wanted to be retried, by ordinal."""
        self.subscribers: dict[int, Row] = {}
        self.removed: set[int] = set()
        self.retentions: set[int] = set()
        self.accepted: dict[str, Row] = {}
        """Rows as they were when the message was accepted, with *by*, the name of the worker."""
        self.drafts: dict[str, Sequence[Draft]] = defaultdict(tuple)
        """What a message may have been as its producer sent it."""
        self.rows: dict[str, dict[str, Row]] = defaultdict(dict)
        """All rows of a message by their sort keys."""
        self.receipts: dict[str, Receipt] = {}
        self.sections: dict[str, list[Receipt]] = {}
        """The sections of the maps of wide messages, which their receipts hold together."""
        self.acknowledged: dict[str, Any] = {}
        self.asked: dict[str, int] = {}
        """How many messages the request of a worker has."""
        self.attempts: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
        self.began: dict[int, list[int]] = defaultdict(list)
        """When attempts of a subscription that has a rate began."""
        self.judge_failures: dict[tuple[str, int], int] = defaultdict(int)
        self.judge_no: set[tuple[str, int]] = set()
        self.judge_yes: set[tuple[str, int]] = set()
        self.counted: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
        """The attempts that due rows of an entry have counted; copies of one batch may make several."""
        self.ended_at: dict[tuple[str, int], int] = {}
        """At which step of the history an entry came to its end."""
        self.dues: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
        self.dues_of: dict[str, int] = defaultdict(int)
        self.lanes: dict[str, Row] = {}
        self.queue_order: dict[str, list[str]] = defaultdict(list)
        """What the queue took of each order, by the names of :func:`queued_name`."""
        self.group_of: dict[str, str] = {}
        self.served: dict[tuple[str, int | None], set[str]] = defaultdict(set)
        """The halves of a message, or of a section of its map, that consumers of the queue acknowledged."""
        self.skipped: set[str] = set()
        self.retrying_since: dict[str, int] = {}
        """Since when lanes let each delivery wait for itself."""
        self.closed_at: dict[str, int] = {}
        """Since which step lanes let first rounds push nothing."""
        self.manual_at: dict[int, int] = {}
        self.manual_due: dict[str, int] = {}
        """The instant for which an operator last planned a lane."""
        self.answered_at: dict[int, int] = {}
        self.latest = 0
        """The latest instant that any clock has shown: to somebody it was that late."""
        self.clocks_agree = not stage.plan.faults & {"skew", "jump"}

    @property
    def now(self) -> int:
        return self.stage.now

    def fail(self, invariant: str, detail: str) -> NoReturn:
        """End the history: the first broken promise is remembered even where somebody catches this."""
        self.stage.broken = self.stage.broken or Broken(invariant, detail)
        raise self.stage.broken

    def owner(self, ordinal: int) -> Row:
        """Return the row of a subscription as it is, or as it last was."""
        present = self.subscribers.get(ordinal) or self._last_of(ordinal)
        if len(self.retries[ordinal]) < 2:
            return present
        # What one of several strategies promises alone is not checked.
        return {**present, "strategy": SEVERAL, "max_retries": A_LIFE_OF_RETRIES}

    def may_probe(self, sid: str, lane: Row) -> bool:
        """Say whether the next first round may push, although the lane has lost contact.

        Of several strategies, another than the one under which contact was lost may read the row.
        """
        owner = self.owner(ordinal_in(sid))
        is_lost = lane["state"] == "lost_contact" and "lost_since" not in lane
        return is_lost and (is_independent(owner) or owner["strategy"] == SEVERAL)

    def owners_since(self, message_id: str, ordinal: int) -> Iterator[Row]:
        """Yield a subscription as it was at each version of the topic since the message was accepted."""
        since = self.accepted[message_id]["subscriptions_version"]
        for version, owners in self.registry.items():
            if version >= since and ordinal in owners:
                yield owners[ordinal]

    def may_be_filtered(self, message_id: str, ordinal: int) -> bool:
        """Return whether the filter function said no, or a filter that came later and is no function does not match."""
        if (message_id, ordinal) in self.judge_no:
            return True
        later = self.owners_since(message_id, ordinal)
        plain = [meant(owner) for owner in later if '"function"' not in (owner.get("filter") or "")]
        return any(not meaning(draft) for meaning in plain for draft in self.drafts[message_id])

    def _last_of(self, ordinal: int) -> Row:
        for version in sorted(self.registry, reverse=True):
            if ordinal in self.registry[version]:
                return self.registry[version][ordinal]
        raise Broken("matching", f"ordinal {ordinal} never was")

    def attempts_max(self, message_id: str, ordinal: int) -> int:
        """Return how many attempts may be counted: those that ended with a 410 count, but leave the entry pending.

        A group's queue counts what it gave, also where no answer came to anybody.
        """
        pushes = self.attempts[message_id, ordinal]
        if is_group(self.owner(ordinal)):
            return max(len(pushes), int(self.owner(ordinal)["max_retries"]) + 1)
        gone = sum(1 for push in pushes if push.reply is not None and push.reply.gone)
        return int(self.owner(ordinal)["max_retries"]) + 1 + gone

    def attempts_made(self, message_id: str, ordinal: int) -> int:
        """Return how many attempts may have been counted at most."""
        pushes = self.attempts[message_id, ordinal]
        return sum(push.counts for push in pushes) + self.judge_failures[message_id, ordinal]

    def latest_retry(self, push: Attempt) -> int:
        """Return the latest instant of the retry after a failed push by its schedule; Retry-After expires nothing."""
        assert push.reply is not None
        assert push.ended_at is not None
        _, most = delays_ms(self.owner(push.ordinal), push.number)
        return push.ended_at + most

    def around(self, changes: Iterable[Change]) -> Iterator[tuple[str, Receipt | None, Receipt]]:
        """Yield each message that *changes* are about with its receipts before and after them."""
        of_each: dict[str, list[Change]] = {}
        for change in changes:
            if change[0].pk.startswith("MSG#") and change[2] is not None:
                of_each.setdefault(change[0].pk.rpartition("#")[2], []).append(change)
        for message_id, its in of_each.items():
            known = self.rows[message_id]
            before = known | {key.sk: old for key, old, _ in its if old is not None}
            for key, old, _ in its:
                if old is None:
                    before.pop(key.sk, None)
            after = known | {key.sk: new for key, _, new in its if new is not None}
            yield message_id, Receipt.of(before) if "MSG" in before else None, Receipt.of(after)

    def queued(self, message_id: str) -> dict[str, set[int]]:
        """Return the names of a message in the queue, each with the ordinals of the subscriptions that get it."""
        sections = self.sections.get(message_id)
        if sections is None:
            return {message_id: self.receipts[message_id].matched}
        return {queued_name(message_id, number): each.matched for number, each in enumerate(sections)}

    def pending_before(self, told: str, message_id: str, ordinal: int) -> Iterator[str]:
        """Yield the pending messages of a subscription before one in its order; *told* is where."""
        if self.stage.plan.ordering is Ordering.NONE:
            return
        own = next(name for name, whom in self.queued(message_id).items() if ordinal in whom)
        if own not in self.group_of:
            self.fail("order", f"{told}, which is not in its order yet")
        for name in self.queue_order[self.group_of[own]]:
            if name == own:
                return
            earlier = name.partition("#")[0]
            if ordinal in self.queued(earlier)[name] and ordinal in self.receipts[earlier].pending:
                yield earlier

    def uncarried(self) -> set[str]:
        """Return the messages of requests that ended before their last message was stored, which carries the others."""
        stored = Counter(row["by"] for row in self.accepted.values())
        packs = {message_id: row["packs"] for message_id, row in self.accepted.items() if "packs" in row}
        carried = [json.loads(zlib.decompress(each)) for each in packs.values()]
        named = [entry[2:] if isinstance(entry, list) else (entry["message_id"],) for each in carried for entry in each]
        found = packs.keys() - {message_id for ids in named for message_id in ids}
        by = {each: self.accepted[each]["by"] for each in found}
        return {each for each in found if by[each] not in self.asked or stored[by[each]] < self.asked[by[each]]}

    def pending_without_due(self, message_ids: Iterable[str]) -> Iterable[tuple[str, int]]:
        """Yield the entries that are pending after their first round and stand in nobody's backlog."""
        for message_id in message_ids:
            known = self.receipts.get(message_id)
            for ordinal in set() if known is None else known.in_backlogs:
                if not self.dues.get((f"{self.topic['topic_id']}.{ordinal}", message_id)):
                    yield message_id, ordinal


A_LIFE_OF_RETRIES = 86_400
"""The settings of a subscription say so many retries where only the end of its life ends a delivery."""


SEVERAL = "several strategies"
RETRIES = ("strategy", "max_retries", "interval_s", "interval_s_max")


def is_group(owner: Row) -> bool:
    """Say whether the row of a subscription is of a group, whose members pull."""
    return bool(owner["protocol"] == "pull")


def keeps_order(owner: Row) -> bool:
    """Say whether messages reach a subscriber in their order."""
    if is_group(owner):
        return bool(owner.get("ordered"))
    return bool(owner["strategy"] == Strategy.BACKOFF_RETRY.value)


def is_independent(owner: Row) -> bool:
    """Say whether no delivery of a subscription waits for another."""
    return bool(owner["strategy"] == Strategy.INDEPENDENT_RETRY.value and not is_group(owner))


def queued_name(message_id: str, section: int | None) -> str:
    """Return the name of what an entry of the queue brings: a message, or a section of a wide one."""
    return message_id if section is None else f"{message_id}#{section}"


def ordinal_in(subscription_id: str) -> int:
    """Return the ordinal at the end of a subscription's id."""
    return int(subscription_id.rpartition(".")[2])


def delays_ms(owner: Row, failures: int) -> tuple[int, int]:
    """Return the least and the longest delay after the *failures*-th failure, from docs/semantics.md, Retries."""
    if owner["strategy"] == SEVERAL:
        return 0, A_LIFE_OF_RETRIES * 1000
    if owner["strategy"] == Strategy.BACKOFF_RETRY.value:
        interval = owner.get("interval_s")
        if owner["max_retries"] < A_LIFE_OF_RETRIES:
            return (10_000, 20_000) if interval is None else (interval * 1000, interval * 1000)
        delay = min(owner["interval_s_max"], (interval or 1) * 2 ** min(failures - 1, 20)) * 1000
        return delay, delay
    delay = min(owner["interval_s_max"], 2 ** min(failures - 1, 20)) * 1000
    return delay, delay
