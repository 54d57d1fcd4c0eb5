"""Pushes as receivers see them: their receiver, time, order and number."""

import json
from collections.abc import Sequence

from tagcast.concurrency.contention import WINDOW_S_MAX
from tagcast.model import ContentFormat, Push, PushBatch, Strategy
from tagcast.pushing.batch_form import batch_request, shared_item

from tests.simulation.baton import Worker
from tests.simulation.ledger import NAMED, Attempt, Ledger, Reply, Row, body_in, delays_ms, is_independent

ANSWERED = ("http 400", "http 404", "http 422", "http 500")
"""Outcomes of answers that concern one message alone."""
LATE_MS = 6_000
"""Besides an attempt that is under way in the same lane, a row that others write may take some seconds."""
READ_MS = 500
"""For each delivery of a backlog its message is read before any of them is pushed."""
CALM = frozenset(("endpoint", "other_form", "ttl"))
"""Kinds of accidents that befall neither the service nor its parts."""
SLACK_MS = 300
"""So much later than it might an attempt begins: calls of ports take a little while."""


class AttemptChecks:
    """Nobody receives what is not theirs, nothing comes after its expiry, order is kept."""

    def __init__(self, ledger: Ledger, slack_ms: int = SLACK_MS) -> None:
        self.ledger, self._slack_ms = ledger, slack_ms

    def begins(self, worker: Worker, push: Push) -> Attempt:
        """Check an attempt at its start that is alone in its request."""
        owner = self.ledger.owner(push.subscription.ordinal)
        if "batch_messages_max" in owner:
            self.ledger.fail("batches", f"{worker.name} pushes {push.message.message_id} in another form than a batch")
        self._within_rate(f"{worker.name} pushes {push.message.message_id}", worker, push, owner)
        return self._begins(worker, push, ())

    def batch_begins(self, worker: Worker, batch: PushBatch) -> list[Attempt]:
        """Check a request with several attempts at its start: it keeps its bounds, and what failed before is alone."""
        shared = [shared_item(push.message, ContentFormat.JSON) for push in batch.pushes]
        body = batch_request(batch, 0, "0", shared).body
        ids = [push.message.message_id for push in batch.pushes]
        if [each["message_id"] for each in json.loads(body)] != ids:
            self.ledger.fail("batches", f"{worker.name} pushes {ids}, but sends {body!r}")
        return self.together(worker, batch.pushes, len(body))

    def together(self, worker: Worker, pushes: Sequence[Push], size: int) -> list[Attempt]:
        """Check the attempts of one request with *size* bytes at its start."""
        ledger, ordinal = self.ledger, pushes[0].subscription.ordinal
        owner, ids = ledger.owner(ordinal), [push.message.message_id for push in pushes]
        told = f"{worker.name} pushes {ids} to #{ordinal}"
        if len(set(ids)) < len(ids) or len(ids) > owner.get("batch_messages_max", 0):
            ledger.fail("batches", f"{told}: {len(ids)} messages")
        if len(ids) > 1 and size > owner["batch_bytes_max"]:
            ledger.fail("batches", f"{told}: {size} bytes")
        if len(ids) > 1 and any(push.attempt > 1 for push in pushes):
            ledger.fail("batches", f"{told}, of which some failed before")
        self._within_rate(told, worker, pushes[0], owner)
        return [self._begins(worker, push, ids[:place]) for place, push in enumerate(pushes)]

    def _begins(self, worker: Worker, push: Push, beside: Sequence[str]) -> Attempt:
        """Check an attempt at its start; what is *beside* it stands before it in the same request."""
        ledger = self.ledger
        message_id, ordinal = push.message.message_id, push.subscription.ordinal
        told = f"{worker.name} pushes {message_id} to #{ordinal} {push.subscription.name}"
        row = ledger.accepted.get(message_id)
        if row is None:
            ledger.fail("matching", f"{told}, which never was accepted")
        if ordinal not in ledger.receipts[message_id].matched:
            ledger.fail("matching", f"{told}, which it did not match")
        draft = push.message.draft
        if (draft.body, list(draft.tags) or None) != (body_in(row), row.get("tags")):
            ledger.fail("immutable", f"{told} with other content")
        seen = ledger.now + worker.skew_ms
        if seen >= row["expires_at"]:
            ledger.fail("7 life", f"{told} {seen - row['expires_at']} ms after its expiry")
        owner = ledger.owner(ordinal)
        if push.attempt > ledger.attempts_max(message_id, ordinal):
            ledger.fail("attempts and gaps", f"{told}: attempt {push.attempt}")
        known = ledger.dues.get((push.subscription.subscription_id, message_id), {})
        if push.attempt > 1 + max((due["attempts"] for due in known.values()), default=push.attempt):
            ledger.fail("attempts and gaps", f"{told}: attempt {push.attempt} follows none")
        if owner["strategy"] == Strategy.BACKOFF_RETRY.value:
            self._in_order(told, worker, (message_id, ordinal), beside)
            self._not_early(told, worker, push, owner)
        if is_independent(owner):
            self._by_its_own_schedule(told, worker, push, owner)
        self._once_at_a_time(told, worker, push)
        self._as_asked(told, worker, push)
        ended_at = ledger.ended_at.get((message_id, ordinal), ledger.stage.steps)
        if worker.kind == "retry" and ended_at < worker.read_at.get(message_id, 0):
            ledger.fail("5 a stale due row is dropped", f"{told}, which it had read to be over")
        self._judged(told, message_id, ordinal)
        attempt = Attempt(message_id, ordinal, push.attempt, seen, worker=worker.name)
        ledger.attempts[message_id, ordinal].append(attempt)
        return attempt

    def _within_rate(self, told: str, worker: Worker, push: Push, owner: Row) -> None:
        """Check that no run of attempts is faster than the rate by a fifth, where clocks can be believed.

        A request that its worker sends again on a new connection is one attempt.
        """
        ledger, ordinal, rate = self.ledger, push.subscription.ordinal, owner.get("max_per_second")
        if rate is None or not ledger.clocks_agree or "stall" in ledger.stage.plan.faults:
            return
        before = ledger.attempts.get((push.message.message_id, ordinal))
        if before and (before[-1].worker, before[-1].number) == (worker.name, push.attempt):
            return
        began = ledger.began[ordinal]
        for gaps, earlier in enumerate(reversed(began[-5:]), 1):
            if ledger.now - earlier < 0.8 * gaps * 1000 / float(rate) - self._slack_ms:
                ledger.fail("the rate is kept", f"{told} {ledger.now - earlier} ms after {gaps} attempts before it")
        began.append(ledger.now)

    def ended(self, worker: Worker, attempt: Attempt, reply: Reply) -> None:
        attempt.ended_at = self.ledger.now + worker.skew_ms
        attempt.reply = reply
        worker.in_contact |= reply.success or reply.refused or reply.detail == NAMED
        if reply.success:
            self.ledger.answered_at[attempt.ordinal] = self.ledger.now

    def batch_ended(self, worker: Worker, began: int) -> None:
        """Invariant 9, where nothing but endpoints misbehaves: a row that others write costs a pause each time."""
        ledger = self.ledger
        if ledger.stage.plan.faults - {"endpoint", "other_form", "ttl"} or worker.fault is not None:
            return
        owners = (owner for version in ledger.registry.values() for owner in version.values())
        longest = max((owner["timeout_s"] for owner in owners), default=0)
        took = ledger.now - began
        if took > (longest + 5 + worker.lost * WINDOW_S_MAX) * 1000 + 2_000:
            ledger.fail("9 a batch is bounded", f"{worker.name} took {took} ms")

    def _holds(self, worker: Worker, sid: str, generation: str) -> bool:
        lane = self.ledger.lanes.get(sid, {})
        return (lane.get("generation"), lane.get("claim")) == (generation, worker.claim)

    def _judged(self, told: str, message_id: str, ordinal: int) -> None:
        """Where a function decided ever since the message was accepted, it said yes before the first push."""
        ledger = self.ledger
        filters = [owner.get("filter") or "" for owner in ledger.owners_since(message_id, ordinal)]
        if all('"function"' in text for text in filters) and (message_id, ordinal) not in ledger.judge_yes:
            ledger.fail("matching", f"{told} without a verdict that says yes")

    def _in_order(self, told: str, worker: Worker, key: tuple[str, int], beside: Sequence[str]) -> None:
        message_id, ordinal = key
        for earlier in self.ledger.pending_before(told, message_id, ordinal):
            if earlier not in beside and not self._over(worker, earlier, ordinal):
                self.ledger.fail("order", f"{told} while {earlier} is pending before it")

    def _over(self, worker: Worker, message_id: str, ordinal: int) -> bool:
        """Say whether an entry that is pending in the table has come to an end that is only not written yet."""
        ledger, key = self.ledger, (message_id, ordinal)
        expires_at = ledger.accepted[message_id]["expires_at"]
        seen = max(ledger.latest, ledger.now + worker.skew_ms)
        if seen >= expires_at or ledger.may_be_filtered(*key) or ledger.judge_failures[key]:
            return True
        retries = ledger.owner(ordinal)["max_retries"]
        for push in ledger.attempts[key]:
            if push.reply is None or push.reply.gone:
                continue
            if push.reply.success or push.number > retries or ledger.latest_retry(push) >= expires_at:
                return True
        return False

    def _as_asked(self, told: str, worker: Worker, push: Push) -> None:
        """Check that a receiver gets no attempt before it wanted one, wherever the delivery stands in its backlog."""
        ledger, ordinal = self.ledger, push.subscription.ordinal
        if worker.by_hand or not ledger.clocks_agree:
            return
        rows = ledger.dues.get((push.subscription.subscription_id, push.message.message_id), {})
        known = rows[min(rows)] if rows else {}
        last = known.get("last_attempt_at") or 0
        if known.get("attempts") != push.attempt - 1 or ledger.manual_at.get(ordinal, -1) >= last:
            return
        for earlier in ledger.attempts[push.message.message_id, ordinal]:
            expires_at = ledger.accepted[push.message.message_id]["expires_at"]
            asked_ms = earlier.reply.wish_ms(last, expires_at) if earlier.reply is not None and earlier.counts else 0
            if (earlier.number, earlier.ended_at) == (push.attempt - 1, last) and ledger.now < last + asked_ms:
                early_ms = last + asked_ms - ledger.now
                ledger.fail("Retry-After", f"{told} {early_ms} ms before it wanted (attempt {push.attempt})")

    @property
    def _is_calm(self) -> bool:
        return not self.ledger.stage.plan.faults - CALM

    def _once_at_a_time(self, told: str, worker: Worker, push: Push) -> None:
        """Check that a delivery has one attempt at a time, and none from a first round while its lane is closed."""
        ledger, ordinal = self.ledger, push.subscription.ordinal
        message_id, sid = push.message.message_id, push.subscription.subscription_id
        made = ledger.attempts[message_id, ordinal]
        if self._is_calm and ordinal not in ledger.manual_at and any(each.reply is None for each in made):
            ledger.fail("one attempt at a time", f"{told} while an attempt of it is under way")
        closed_at = ledger.closed_at.get(sid)
        is_closed = closed_at is not None and closed_at < (worker.read_first_at or 0)
        if worker.kind == "fan_out" and is_closed and not ledger.may_probe(sid, ledger.lanes[sid]):
            ledger.fail("a closed lane", f"{told} from a first round, although its lane was closed")

    def _by_its_own_schedule(self, told: str, worker: Worker, push: Push, owner: Row) -> None:
        """Check that a delivery which waits for itself is attempted neither before its time nor long after it."""
        ledger, sid = self.ledger, push.subscription.subscription_id
        if push.attempt < 2 or not ledger.clocks_agree:
            return
        rows = ledger.dues.get((sid, push.message.message_id), {})
        row = rows[min(rows)] if rows else {}
        last = row.get("last_attempt_at") or 0
        if row.get("attempts") != push.attempt - 1 or row.get("last_outcome") not in ANSWERED:
            return
        least, _ = delays_ms(owner, push.attempt - 1)
        if ledger.now < last + least and ledger.manual_at.get(push.subscription.ordinal, -1) < last:
            early_ms = last + least - ledger.now
            ledger.fail("attempts and gaps", f"{told} {early_ms} ms too early (attempt {push.attempt})")
        due_at = max(last + least, row.get("not_before") or 0)
        late_ms, free_since = ledger.now - due_at, ledger.retrying_since.get(sid)
        is_late = late_ms > LATE_MS + owner["timeout_s"] * 1000 + READ_MS * ledger.dues_of[sid]
        if self._is_calm and free_since is not None and free_since <= due_at and is_late:
            ledger.fail("independent", f"{told} {late_ms} ms after it was due (attempt {push.attempt})")

    def _not_early(self, told: str, worker: Worker, push: Push, owner: Row) -> None:
        ledger, ordinal = self.ledger, push.subscription.ordinal
        if push.attempt < 2 or worker.by_hand or not ledger.clocks_agree:
            return
        rows = ledger.dues.get((push.subscription.subscription_id, push.message.message_id), {})
        head = rows[min(rows)] if rows else {}
        if head.get("attempts") != push.attempt - 1:
            return  # It repeats the push of somebody who owns the lane by now.
        last = head.get("last_attempt_at") or 0
        if max(ledger.manual_at.get(ordinal, -1), ledger.answered_at.get(ordinal, -1)) >= last:
            return  # Somebody asked for it, or the receiver answers again and its backlog drains.
        least, _ = delays_ms(owner, push.attempt - 1)
        if ledger.now < last + least:
            early_ms = last + least - ledger.now
            ledger.fail("attempts and gaps", f"{told} {early_ms} ms too early (attempt {push.attempt})")
