"""The promises as plain functions of rows and pushes, for the explorer: it has no history to look back on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tagcast.model import Push
from tagcast.ports import Key, Table

from tests.simulation.ledger import Broken, Receipt, ordinal_in

Rows = Mapping[Key, Mapping[str, Any]]
Pushed = Sequence[tuple[str, int, int, bool | None]]
RETRIES = 1


def check_commit(before: Rows, after: Rows, keys: Sequence[Key], lane: tuple[str, str] | None) -> None:
    """Check one committed write or transaction; *lane* is the lane and generation of a worker that redelivers."""
    for key in keys:
        if key.pk.startswith("MSG#"):
            _message(before.get(key), after[key], after)
    _lanes(after)
    if lane is not None:
        _fenced(before, after, keys, *lane)


def check_push(rows: Rows, pushed: Pushed, push: Push) -> None:
    """Check a push at its start: what stands before it has ended, if only so that it is not yet written."""
    message_id, ordinal = push.message.message_id, push.subscription.ordinal
    if push.attempt > RETRIES + 1:
        raise Broken("attempts and gaps", f"attempt {push.attempt} of {message_id} to #{ordinal}")
    for key, row in rows.items():
        if not key.pk.startswith("MSG#") or row["message_id"] >= message_id:
            continue
        earlier = row["message_id"]
        over = any(
            (each, owner) == (earlier, ordinal) and (success or (success is False and number > RETRIES))
            for each, owner, number, success in pushed
        )
        if ordinal in Receipt.of(row).owed and not over:
            raise Broken("order", f"{message_id} is pushed to #{ordinal} while {earlier} is owed before it")


def check_end(rows: Rows) -> None:
    """Check a world in which nothing can happen any more: only a lane that sleeps may owe something."""
    asleep = {
        ordinal_in(key.sk) for key, row in rows.items() if key.pk.startswith("LANES#") and row["state"] == "paused"
    }
    for key, row in rows.items():
        if key.pk.startswith("MSG#"):
            owed = Receipt.of(row).owed - asleep
            if owed:
                raise Broken("liveness", f"{row['message_id']} still owes {sorted(owed)}")
        if key.pk.startswith("DUE#") and ordinal_in(key.pk) not in asleep:
            raise Broken("liveness", f"{key.sk} stays in the backlog of #{ordinal_in(key.pk)}")


def _message(old: Mapping[str, Any] | None, new: Mapping[str, Any], after: Rows) -> None:
    message_id, now = new["message_id"], Receipt.of(new)
    if now.pending != len(now.owed):
        raise Broken("2 pending counts", f"{message_id}: pending {now.pending}, owed {now.owed}")
    if len(now.owed) + len(now.finished) + len(now.exceptions) != len(now.matched):
        raise Broken("one state per entry", f"{message_id}: {now}")
    if now.has_body != bool(now.pending):
        raise Broken("2 content", f"{message_id}: pending {now.pending}, body {now.has_body}")
    listed = Key(Table.MESSAGES, f"RETAINED#{new['topic']}", message_id) in after
    if listed != bool(now.pending and not now.is_open):
        raise Broken("2 retained list", f"{message_id}: listed {listed}, pending {now.pending}")
    if old is None:
        return
    before = Receipt.of(old)
    if now.version != before.version + 1:
        raise Broken("3 version", f"{message_id}: {now.version} after {before.version}")
    for ordinal in before.matched - before.owed:
        same = before.exceptions.get(ordinal) == now.exceptions.get(ordinal)
        if not same or before.finished.get(ordinal) != now.finished.get(ordinal):
            raise Broken("3 terminal is final", f"{message_id} #{ordinal} changed after its end")


def _lanes(after: Rows) -> None:
    blocked = {key.sk for key in after if key.pk.startswith("LANES#")}
    backlogs = {(key.pk.removeprefix("DUE#"), key.sk.partition("#")[2]) for key in after if key.pk.startswith("DUE#")}
    active = sorted({sid for sid, _ in backlogs} - blocked)
    if active:
        raise Broken("4 an active lane owes nothing", f"{active} are active and have due rows")
    due = {(ordinal_in(sid), message_id) for sid, message_id in backlogs}
    for key, row in after.items():
        if key.pk.startswith("MSG#") and row["round"] == "done":
            for ordinal in Receipt.of(row).owed:
                if (ordinal, row["message_id"]) not in due:
                    raise Broken("5 owed has a due row", f"{row['message_id']} #{ordinal} is in nobody's backlog")


def _fenced(before: Rows, after: Rows, keys: Sequence[Key], sid: str, generation: str) -> None:
    """Invariant 6: a worker of another generation removes stale due rows at most."""
    lanes = [row for key, row in before.items() if key.pk.startswith("LANES#") and key.sk == sid]
    if lanes and lanes[0]["generation"] == generation:
        return
    for key in keys:
        if key.pk.startswith("DUE#") and key not in after:
            message = Key(Table.MESSAGES, f"MSG#t#{key.sk.partition('#')[2]}", "MSG")
            if ordinal_in(sid) not in Receipt.of(before[message]).owed:
                continue
        raise Broken("6 fencing", f"a worker of {generation} wrote {key.pk}/{key.sk}")
