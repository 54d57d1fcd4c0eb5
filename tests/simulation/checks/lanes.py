"""Rows of lanes and backlogs: stale workers are fenced, attempts count up, plans follow the strategy."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tagcast.rows.due import DUES, REMEMBERED_MAX
from tagcast.tables import Update

from tests.simulation.baton import Worker
from tests.simulation.checks.transitions import TRANSITIONS
from tests.simulation.ledger import SEVERAL, Change, Ledger, Row, delays_ms, is_group, is_independent, ordinal_in

ASLEEP, AWAKE = ("paused", "suspended"), ("blocked", "lost_contact", "retrying")
NAMES_BYTES = 512
"""So long are the names of what joined a backlog last; earlier ones may be missing then."""
WAITS = ("circuit", "rate", "unverified")
"""What a due row says that waits for no answer of its receiver."""
NO_ANSWER = ("no answer", "an answer that does not end", "2xx, then a reset")
"""What a receiver does that says nothing of the message."""
NOT_TAKEN = "the group's queue did not take it"
"""What it says of trouble between the service and a group's queue, which counts no attempt."""


def _attributes() -> dict[tuple[str, str], list[frozenset[str]]]:
    """Return, by states before and after, which attributes of a lane's row may change together."""
    found: dict[tuple[str, str], list[frozenset[str]]] = defaultdict(list)
    for transition in TRANSITIONS:
        for before in transition.before:
            write = transition.example(before)
            sets = frozenset({*write.changes, *write.remove}) if isinstance(write, Update) else frozenset()
            for after in transition.after or {before}:
                found[before.value, after.value].append(sets)
    return found


ATTRIBUTES = _attributes()


class LaneChecks:
    """Invariants 4, 5 and 6, and the strategies' schedules, on each committed write."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._generations: set[str] = set()
        self._taken: dict[tuple[str, str], tuple[int, Row]] = {}
        """The due rows that were taken away, and at which step: one that is put again in that step was moved."""

    def lane(self, worker: Worker | None, sid: str, old: Row | None, new: Row | None) -> bool:
        """Check one change of a lane; say whether it is a claim."""
        ledger = self.ledger
        self._transition(sid, old, new)
        if new is None or new["state"] != "retrying":
            ledger.retrying_since.pop(sid, None)
        else:
            ledger.retrying_since.setdefault(sid, ledger.now)
        if new is None or new["state"] == "retrying" or ledger.may_probe(sid, new):
            ledger.closed_at.pop(sid, None)
        else:
            ledger.closed_at.setdefault(sid, ledger.stage.steps)
        if new is None:
            ledger.lanes.pop(sid, None)
            return False
        ledger.lanes[sid] = new
        generation = new["generation"]
        if old is None or old["generation"] != generation:
            if generation in self._generations:
                ledger.fail("6 fencing", f"generation {generation} is used again")
            self._generations.add(generation)
        if worker is not None and worker.kind == "operate":
            ledger.manual_at[ordinal_in(sid)] = ledger.now
            ledger.manual_due[sid] = new.get("next_attempt_at") or 0
        if old is None:
            return False
        regained = ("retrying", "blocked") if is_independent(ledger.owner(ordinal_in(sid))) else ("retrying",)
        is_regained = old["state"] == "lost_contact" and new["state"] in regained
        if is_regained and worker is not None and worker.kind in ("fan_out", "retry") and not worker.in_contact:
            ledger.fail("independent", f"{sid} is {new['state']}, although its receiver answered nothing")
        if old["state"] == "removed" and new["state"] != "removed":
            ledger.fail("6 fencing", f"removed lane {sid} became {new['state']}")
        planned_at = old.get("next_attempt_at") or 0
        is_forgotten = (
            old["state"] in ASLEEP and new["state"] in AWAKE and (new.get("next_attempt_at") or 0) < planned_at
        )
        keeps_plan = new["state"] != "retrying" or "is_claimed" in old  # Else each delivery has a plan of its own.
        if is_forgotten and keeps_plan:
            ledger.fail("attempts and gaps", f"lane {sid} woke up and forgot its plan")
        if new["claim"] == old["claim"]:
            return False
        if new["claim"] != old["claim"] + 1:
            ledger.fail("6 fencing", f"claim {new['claim']} after {old['claim']}")
        if worker is not None and worker.kind == "retry":
            early_ms = (old.get("next_attempt_at") or 0) - worker.latest
            if worker.claim != old["claim"] and early_ms > 0:
                ledger.fail("attempts and gaps", f"lane {sid} was claimed {early_ms} ms before it was due")
            worker.by_hand = worker.by_hand or old.get("next_attempt_at") == ledger.manual_due.get(sid, -1)
            worker.claim = new["claim"]
        return True

    def _transition(self, sid: str, old: Row | None, new: Row | None) -> None:
        """Check that a lane changes in one of the ways that `tagcast.rows.lane_transitions` lists."""
        states = ("active" if old is None else old["state"], "active" if new is None else new["state"])
        changed = set[str]()
        if old is not None and new is not None:
            changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if not any(changed <= sets for sets in ATTRIBUTES.get(states, [])):
            self.ledger.fail("lane transitions", f"lane {sid} went from {states[0]} to {states[1]}: {sorted(changed)}")

    def due(self, sid: str, sk: str, old: Row | None, new: Row | None) -> None:
        """Check one change of a backlog."""
        ledger, message_id = self.ledger, sk.partition("#")[2]
        rows = ledger.dues[sid, message_id]
        if new is None:
            if rows.pop(sk, None) is not None:
                ledger.dues_of[sid] -= 1
            if old is not None:
                self._taken[sid, message_id] = (ledger.stage.steps, old)
            return
        step, taken = self._taken.pop((sid, message_id), (-1, None))
        if old is None:
            ledger.dues_of[sid] += 1
            if taken is not None and step == ledger.stage.steps:
                self._moved(sid, message_id, taken, new)
            elif new["attempts"] not in (0, 1):
                ledger.fail("attempts and gaps", f"a new due row says {new['attempts']}")
        elif new["attempts"] != old["attempts"] + 1 and not _says_why_it_waits(old, new):
            ledger.fail(
                "attempts and gaps", f"attempts of {message_id} went from {old['attempts']} to {new['attempts']}"
            )
        if new["attempts"] > ledger.attempts_made(message_id, ordinal_in(sid)):
            ledger.fail("attempts and gaps", f"{new['attempts']} attempts of {message_id} are counted and fewer made")
        self._remembered(message_id, new)
        rows[sk] = new
        ledger.counted[message_id, ordinal_in(sid)][sk] = new["attempts"]
        accepted = ledger.accepted.get(message_id)
        if accepted is None or accepted["expires_at"] != new["expires_at"]:
            ledger.fail("7 life", f"the due row of {message_id} expires at another time than its message")
        if new["attempts"] >= ledger.attempts_max(message_id, ordinal_in(sid)):
            ledger.fail("attempts and gaps", f"{new['attempts']} attempts of {message_id} and still pending")

    def _moved(self, sid: str, message_id: str, old: Row, new: Row) -> None:
        """Check a due row that was given another place: only independent deliveries have one of their own."""
        ledger, told = self.ledger, f"{message_id} #{ordinal_in(sid)}"
        owner = ledger.owner(ordinal_in(sid))
        if owner["strategy"] != SEVERAL and not is_independent(owner):
            ledger.fail("attempts and gaps", f"{told} was moved in a backlog that has an order")
        if new["attempts"] != old["attempts"] + 1 and new["attempts"] != old["attempts"]:
            ledger.fail("attempts and gaps", f"{told} was moved from {old['attempts']} attempts to {new['attempts']}")

    def independent(self, worker: Worker | None, changes: list[Change]) -> None:
        """Check that independent deliveries join and move by their own schedules, and stop at no refusal."""
        ledger, joined = self.ledger, defaultdict[str, list[tuple[str, str, Row]]](list)
        for key, old, new in changes:
            if key.pk.startswith("DUE#") and new is not None and old is None:
                place, _, message_id = key.sk.partition("#")
                joined[key.pk.removeprefix("DUE#")].append((place, message_id, new))
        for sid, rows in joined.items():
            owner = ledger.owner(ordinal_in(sid))
            if worker is None or not is_independent(owner):
                continue
            for place, message_id, row in rows:
                if row["attempts"] and row.get("last_outcome") not in WAITS:
                    self._placed(int(place), message_id, sid, row)
            self._contact(worker, sid, rows)
            refused = [
                row for _, message_id, row in rows if row["attempts"] and self._was_refused(message_id, sid, row)
            ]
            behind = [row for _, _, row in rows if not row["attempts"]]
            if len(refused) + len(behind) < len(rows) or not refused or worker.kind != "fan_out":
                continue
            quick = ledger.now - min(row["last_attempt_at"] for row in refused) < 300
            free = owner.keys().isdisjoint({"max_per_second", "batch_messages_max"}) and quick
            free = free and not any("not_before" in row or "unjudged" in row for row in behind)
            if behind and free and not ledger.stage.plan.faults & {"stall", "skew", "jump"}:
                ledger.fail("independent", f"{len(behind)} deliveries of {sid} wait behind one that was refused")
            lane = ledger.lanes.get(sid, {})
            if not behind and lane.get("state") == "lost_contact" and lane.get("lost_since") == ledger.now:
                ledger.fail("independent", f"{sid} lost contact, although it answered")

    def _contact(self, worker: Worker, sid: str, rows: Sequence[tuple[str, str, Row]]) -> None:
        """Check that contact is lost with a receiver that gave no answer, and took nothing since."""
        ledger, ordinal, lane = self.ledger, ordinal_in(sid), self.ledger.lanes.get(sid, {})
        if worker.kind != "fan_out" or lane.get("state") != "retrying" or "is_claimed" in lane:
            return
        for _, message_id, row in rows:
            pushes = ledger.attempts[message_id, ordinal]
            reply = pushes[-1].reply if row["attempts"] and pushes else None
            if reply is None or reply.detail not in NO_ANSWER:
                continue
            if len(pushes) == 1 and ledger.answered_at.get(ordinal, -1) < pushes[0].began_at and ledger.clocks_agree:
                ledger.fail("independent", f"{sid} is retrying, although it gave no answer")

    def _placed(self, place: int, message_id: str, sid: str, row: Row) -> None:
        """Check the instant that a delivery is placed at after a failure."""
        ledger, ordinal = self.ledger, ordinal_in(sid)
        least, most = delays_ms(ledger.owner(ordinal), row["attempts"])
        pushes = ledger.attempts[message_id, ordinal]
        same = [push.reply for push in pushes if push.number == row["attempts"] and push.reply is not None]
        if row.get("last_outcome") == "filter_error" or not same or any(reply.gone for reply in same):
            return
        planned = place - row["last_attempt_at"]
        wishes = {reply.wish_ms(row["last_attempt_at"], row["expires_at"]) for reply in same}
        if not any(max(least, wish) <= planned <= max(most, wish) for wish in wishes):
            ledger.fail("attempts and gaps", f"{message_id} #{ordinal} is placed {planned} ms after {row['attempts']}")

    def _was_refused(self, message_id: str, sid: str, row: Row) -> bool:
        pushes = self.ledger.attempts[message_id, ordinal_in(sid)]
        same = [push.reply for push in pushes if push.number == row["attempts"] and push.reply is not None]
        return bool(same) and all(reply.refused for reply in same)

    def _remembered(self, message_id: str, row: Row) -> None:
        """Check that a due row remembers its last attempts; one that got through is not among them."""
        known = DUES.value_of(row)
        last = known.attempts
        numbers = [past.number for past in known.history]
        expected = list(range(max(1, last - REMEMBERED_MAX + 1), last + 1))
        if numbers != expected:
            self.ledger.fail("attempts are remembered", f"{message_id} had {last} attempts and remembers {numbers}")

    def fenced(self, worker: Worker | None, changes: list[Change], claimed: bool) -> None:
        """Invariant 6: a worker of another generation or claim writes nothing but the removal of stale due rows."""
        if worker is None or worker.kind != "retry" or worker.lane is None:
            return
        sid, generation = worker.lane
        before = (old for key, old, _ in changes if key.pk.startswith("LANES#") and old is not None)
        lane: dict[str, Any] = next(before, {}) or self.ledger.lanes.get(sid, {})
        is_emptied = lane.get("state") == "removed" and is_group(self.ledger.owner(ordinal_in(sid)))
        mine = lane.get("generation") == generation and (claimed or lane.get("claim") == worker.claim)
        for key, old, new in changes:
            # These rows change no delivery: permits of a rate, answers of hosts, idempotency keys of dead letters.
            if key.pk.startswith(("RATE#", "HOSTS", "IDEM#")):
                continue
            if key.pk.startswith("MSG#") and is_emptied:  # Who got it from the queue of a removed group cancels it.
                continue
            if key.pk.startswith("DUE#") and new is None:
                known = self.ledger.receipts.get(key.sk.partition("#")[2])
                if known is None or ordinal_in(sid) not in known.pending:
                    continue
            renewed = new is not None and old is not None and old.get("generation") != new.get("generation")
            if not mine and not (renewed and lane.get("generation") == generation):
                self.ledger.fail("6 fencing", f"{worker.name} wrote {key.pk}/{key.sk} of another's lane")

    def schedule(self, worker: Worker | None, changes: list[Change]) -> None:
        """Check the instant that a failed head is planned for."""
        if worker is None or worker.kind != "retry":
            return
        lane = next((new for key, _, new in changes if key.pk.startswith("LANES#") and new is not None), None)
        due = next(((key, new) for key, old, new in changes if key.pk.startswith("DUE#") and old and new), None)
        if lane is None or due is None:
            return
        ledger, (key, row) = self.ledger, due
        ordinal, message_id = ordinal_in(key.pk), key.sk.partition("#")[2]
        replies = [push.reply for push in ledger.attempts[message_id, ordinal] if push.reply is not None]
        if lane["state"] == "suspended":
            return
        if row.get("last_outcome") in WAITS:
            if lane["next_attempt_at"] > row["expires_at"]:
                ledger.fail("7 life", f"{message_id} #{ordinal} waits beyond its expiry")
            return
        if row.get("last_outcome") == NOT_TAKEN:
            if lane["next_attempt_at"] != row["not_before"] or row["not_before"] > row["expires_at"]:
                ledger.fail("attempts and gaps", f"{message_id} #{ordinal} was not taken and is planned {lane}")
            return
        if replies and replies[-1].gone and row.get("last_outcome") == "http 410":
            ledger.fail("410 suspends", f"lane {lane['sk']} is {lane['state']}")
        least, most = delays_ms(ledger.owner(ordinal), row["attempts"])
        asked = {0}
        if row.get("last_outcome") != "filter_error":  # A stale worker may have pushed the same attempt.
            pushes = ledger.attempts[message_id, ordinal]
            same = [push.reply for push in pushes if push.number == row["attempts"] and push.reply is not None]
            asked = {reply.wish_ms(row["last_attempt_at"], row["expires_at"]) for reply in same} or asked
        planned = lane["next_attempt_at"] - row["last_attempt_at"]
        if not any(max(least, wish) <= planned <= max(most, wish) for wish in asked):
            ledger.fail(
                "attempts and gaps",
                f"{message_id} #{ordinal} is planned {planned} ms after failure {row['attempts']}: {least}-{most}",
            )
        if lane["next_attempt_at"] >= row["expires_at"]:
            ledger.fail("7 life", f"{message_id} #{ordinal} is planned after its expiry")

    def backlogs(self, sids: Iterable[str], message_ids: Collection[str]) -> None:
        """Invariants 4 and 5 for the lanes and messages that a commit touched."""
        ledger = self.ledger
        for sid in sids:
            if ledger.dues_of[sid] and sid not in ledger.lanes:
                ledger.fail(
                    "4 an active lane has nothing pending", f"lane {sid} is active with {ledger.dues_of[sid]} due rows"
                )
            self._joined_once(sid, message_ids)
        for message_id, ordinal in ledger.pending_without_due(message_ids):
            ledger.fail("5 pending has a due row", f"{message_id} #{ordinal} is pending and in nobody's backlog")

    def _joined_once(self, sid: str, message_ids: Iterable[str]) -> None:
        """Check that no copy of a batch joined a backlog again, where the lane still names all that ever joined."""
        ledger = self.ledger
        if len(ledger.lanes.get(sid, {}).get("joined", b"")) >= NAMES_BYTES:
            return
        for message_id in message_ids:
            if len(ledger.dues[sid, message_id]) > 1:
                ledger.fail("5 one due row", f"{message_id} stands in the backlog of {sid} more than once")


def _says_why_it_waits(old: Row, new: Row) -> bool:
    """Say whether a due row changed without an attempt: a function said yes, or why it waits is said, or is over."""
    free = {"unjudged"}
    if "not_before" not in new:
        free.add("not_before")
    if new.get("last_outcome") in WAITS:
        free.add("last_outcome")
    if new.get("last_outcome") == NOT_TAKEN:
        free |= {"last_outcome", "not_before"}
    kept = (old.keys() | new.keys()) - free
    return new.get("unjudged") in (None, old.get("unjudged")) and all(old.get(name) == new.get(name) for name in kept)
