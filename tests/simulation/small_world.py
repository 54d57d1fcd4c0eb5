"""The promises as plain functions of rows and pushes, for the explorer: it has no history to look back on."""

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
            _message(key.pk, before, after)
    _lanes(after)
    if lane is not None:
        _fenced(before, after, keys, *lane)


def receipts(rows: Rows) -> dict[str, Receipt]:
    """Return the receipts of all messages by their ids."""
    parts: dict[str, dict[str, Mapping[str, Any]]] = {}
    for key, row in rows.items():
        if key.pk.startswith("MSG#"):
            parts.setdefault(key.pk.rpartition("#")[2], {})[key.sk] = row
    return {message_id: Receipt.of(each) for message_id, each in parts.items()}


def check_push(rows: Rows, pushed: Pushed, push: Push) -> None:
    """Check a push at its start: what stands before it has ended, if only so that it is not yet written."""
    message_id, ordinal = push.message.message_id, push.subscription.ordinal
    if push.attempt > RETRIES + 1:
        raise Broken("attempts and gaps", f"attempt {push.attempt} of {message_id} to #{ordinal}")
    for earlier, known in receipts(rows).items():
        if earlier >= message_id:
            continue
        over = any(
            (each, owner) == (earlier, ordinal) and (success or (success is False and number > RETRIES))
            for each, owner, number, success in pushed
        )
        if ordinal in known.pending and not over:
            raise Broken("order", f"{message_id} is pushed to #{ordinal} while {earlier} is pending before it")


def check_end(rows: Rows) -> None:
    """Check a world in which nothing can happen any more: only a lane that sleeps may have a backlog."""
    asleep = {
        ordinal_in(key.sk) for key, row in rows.items() if key.pk.startswith("LANES#") and row["state"] == "paused"
    }
    for message_id, known in receipts(rows).items():
        if known.pending - asleep:
            raise Broken("liveness", f"{message_id} still has pending {sorted(known.pending - asleep)}")
    for key in rows:
        if key.pk.startswith("DUE#") and ordinal_in(key.pk) not in asleep:
            raise Broken("liveness", f"{key.sk} stays in the backlog of #{ordinal_in(key.pk)}")


def _message(pk: str, rows_before: Rows, rows_after: Rows) -> None:
    message_id = pk.rpartition("#")[2]
    own, now = rows_after[Key(Table.MESSAGES, pk, "MSG")], receipts(rows_after)[message_id]
    if now.pending and not (own["pending"] and "body" in own):
        raise Broken("2 content", f"{message_id}: pending {now.pending}, pending {own['pending']}")
    listed = Key(Table.MESSAGES, f"RETAINED#{own['topic']}", message_id) in rows_after
    if (now.in_backlogs and not listed) or (listed and not own["pending"]):
        raise Broken("2 retained list", f"{message_id}: listed {listed}, pending {now.pending}")
    before = receipts(rows_before).get(message_id)
    if before is None:
        return
    for ordinal in before.matched - before.pending:
        same = before.exceptions.get(ordinal) == now.exceptions.get(ordinal)
        if not same or before.finished.get(ordinal) != now.finished.get(ordinal):
            raise Broken("3 terminal is final", f"{message_id} #{ordinal} changed after its end")


def _lanes(after: Rows) -> None:
    blocked = {key.sk for key in after if key.pk.startswith("LANES#")}
    backlogs = {(key.pk.removeprefix("DUE#"), key.sk.partition("#")[2]) for key in after if key.pk.startswith("DUE#")}
    active = sorted({sid for sid, _ in backlogs} - blocked)
    if active:
        raise Broken("4 an active lane has nothing pending", f"{active} are active and have due rows")
    due = {(ordinal_in(sid), message_id) for sid, message_id in backlogs}
    for message_id, known in receipts(after).items():
        for ordinal in known.in_backlogs:
            if (ordinal, message_id) not in due:
                raise Broken("5 pending has a due row", f"{message_id} #{ordinal} is in nobody's backlog")


def _fenced(before: Rows, after: Rows, keys: Sequence[Key], sid: str, generation: str) -> None:
    """Invariant 6: a worker of another generation removes stale due rows at most."""
    lanes = [row for key, row in before.items() if key.pk.startswith("LANES#") and key.sk == sid]
    if lanes and lanes[0]["generation"] == generation:
        return
    for key in keys:
        is_due = key.pk.startswith("DUE#") and key not in after
        if is_due and ordinal_in(sid) not in receipts(before)[key.sk.partition("#")[2]].pending:
            continue
        raise Broken("6 fencing", f"a worker of {generation} wrote {key.pk}/{key.sk}")
