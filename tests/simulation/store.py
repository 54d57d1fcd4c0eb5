"""The table behind a gate: every call is a point where another worker may move, and where an accident may happen."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tagcast.errors import ConditionLostError, ContendedError
from tagcast.model import BODY_BYTES_MAX
from tagcast.ports import Key, Page, Put, Row, Table, Update, Write
from tagcast.tables import Check

from tests.fakes.memory_store import TRANSACTION_MAX, MemoryStore, kept_rows, lanes_of_index, search_rows
from tests.simulation.baton import Crashed, UnavailableError, Worker
from tests.simulation.ledger import Change, body_in, ordinals_in

if TYPE_CHECKING:
    from tests.simulation.history import History

CONFLICTS_MAX = 3
CONTENDING = ("retry", "operate")
PAGE_ROWS = 3


class Gate:
    """What happens around each call of a port: a turn for somebody else, then perhaps an accident."""

    def __init__(self, history: History) -> None:
        self._history = history

    def call(self, label: object, effect: Callable[[], Any], *also: str) -> Any:
        """Carry out *effect*; *also* are the accidents that only calls of this kind can have.

        The *label* is made a text only where the history is told.
        """
        history = self._history
        worker = history.baton.current
        if worker is None:
            return effect()
        history.calls.called(label.called() if isinstance(label, _Told) else str(label))
        history.baton.park(worker)
        history.pass_time()
        fault = history.draw_fault(*also)
        if fault is None:
            history.note("{} {}", worker.name, label)
            return effect()
        history.note("{} {} !! {}", worker.name, label, fault)
        match fault:
            case "crash":
                if history.chance.random() < 0.5:
                    _quietly(effect)
                worker.doomed = True
                raise Crashed
            case "error" | "throttle":
                raise UnavailableError(fault)
            case "applied_error":
                effect()
                raise UnavailableError(fault)
            case "sdk_retry":
                effect()
                history.baton.park(worker)
            case "conflict":
                self._conflicts(worker)
        return effect()

    def _conflicts(self, worker: Worker) -> None:
        """Let the adapter try again as often as it does; in the end it gives up."""
        conflicts = self._history.chance.randrange(1, CONFLICTS_MAX + 1)
        for pause in range(conflicts):
            self._history.baton.park(worker, self._history.now + 20 * (pause + 1))
        if conflicts == CONFLICTS_MAX:
            raise ContendedError


@dataclass(frozen=True)
class _Told:
    """Writes for people."""

    call: str
    writes: Sequence[Write]

    def __str__(self) -> str:
        return f"{self.call} {' + '.join(map(told, self.writes))}"

    def called(self) -> str:
        """Return the call without attributes."""
        keys = (f"{type(each).__name__} {each.key.pk} {each.key.sk}" for each in self.writes)
        return f"{self.call} {' + '.join(keys)}"


def _quietly(effect: Callable[[], Any]) -> None:
    try:
        effect()
    except ConditionLostError:
        return


class SimStore(MemoryStore):
    """The table in memory behind the gate; what it commits is checked, and goes to the stream."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._gate = Gate(history)
        self._herds: dict[Key, int] = {}
        self._lane_log: list[tuple[Key, dict[str, Any] | None]] = []
        self._wakeable: dict[Key, dict[str, Any]] = {}
        """The index of lanes to wake, all of its partitions."""
        self._indexed_any = False

    def get(self, key: Key) -> Row | None:
        return cast("Row | None", self._gate.call(f"get {key.pk} {key.sk}", lambda: self._read((key,)).get(key)))

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        label = f"get_many {' '.join(key.pk for key in keys)}"
        if len(keys) > 1 and self._history.draws("unprocessed", 0.3):
            first = self._history.chance.randrange(1, len(keys))
            self._history.note("!! only {} of {} keys are processed", first, len(keys))
            found = self._gate.call(label, lambda: self._read(keys[:first]))
            rest = self._gate.call(label, lambda: self._read(keys[first:]))
            return {**found, **rest}
        return cast("dict[Key, Row]", self._gate.call(label, lambda: self._read(keys)))

    def _read(self, keys: Sequence[Key]) -> dict[Key, Row]:
        worker = self._history.baton.current
        if worker is not None:
            ids = [key.pk.rpartition("#")[2] for key in keys if key.pk.startswith("MSG#") and key.sk == "MSG"]
            self._history.checks.message_read(worker, ids)
        return MemoryStore.get_many(self, keys)

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        def page(after: str, most: int | None) -> list[Row]:
            return MemoryStore.query(self, table, pk, sk_from=after, sk_to=sk_to, limit=most)

        label = f"query {pk} {sk_from}.."
        if pk.startswith("UNSENT#") and not self.rows.partitions.get((table, pk)):
            return []
        if not self._history.draws("unprocessed", 0.1):
            return cast("list[Row]", self._gate.call(label, lambda: page(sk_from, limit)))
        rows: list[Row] = []
        after = sk_from
        while limit is None or len(rows) < limit:
            most = PAGE_ROWS if limit is None else min(PAGE_ROWS, limit - len(rows))
            found = self._gate.call(label, partial(page, after, most))
            rows += found
            if len(found) < most:
                break
            after = f"{found[-1]['sk']}\x00"
        return rows

    def lanes_to_wake(self, shard: int, limit: int, *, after: Row | None = None) -> list[Row]:
        def effect() -> list[Row]:
            rows = self._wakeable
            if self._history.draws("stale_index", 0.5):
                forgotten = self._history.chance.randrange(1, 8)
                rows = {}
                for key, row in self._lane_log[:-forgotten]:
                    rows.pop(key, None)
                    if row is not None and "wake_shard" in row:
                        rows[key] = row
            return [dict(row) for row in lanes_of_index(rows.values(), shard, limit, after)]

        if not self._indexed_any:
            return []
        return cast("list[Row]", self._gate.call(f"lanes_to_wake {shard}", effect))

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Page[Row]:
        def effect() -> Page[Row]:
            return search_rows(self.rows, PAGE_ROWS, open_before, over_before, cursor)

        return cast("Page[Row]", self._gate.call(f"search {cursor}", effect))

    def find_kept(
        self, topic: str, *, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
    ) -> Page[Row]:
        def effect() -> Page[Row]:
            return kept_rows(self.rows, PAGE_ROWS, topic, accepted_from, before_version, alive_at, cursor)

        return cast("Page[Row]", self._gate.call(f"kept {topic} {cursor}", effect))

    def write(self, write: Write) -> None:
        assert not isinstance(write, Check)
        adds = isinstance(write, Update) and bool(write.add)
        also = ("conflict",) if adds else ("conflict", "sdk_retry")
        self._gate.call(_Told("write", (write,)), lambda: self.commit((write,)), *also)

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        """Apply each when it is its turn; then the answer travels, and may get lost."""
        label = f"update_each of {len(updates)} is answered"
        done = super().update_each(updates)
        return cast("list[bool]", self._gate.call(label, lambda: done))

    def _is_written(self, update: Update) -> bool:
        try:
            return super()._is_written(update)
        except UnavailableError:
            return False

    def transact(self, writes: Sequence[Write]) -> None:
        assert 0 < len(writes) <= TRANSACTION_MAX
        assert len({write.key for write in writes}) == len(writes), "a transaction names no row twice"
        self._gate.call(_Told("transact", writes), lambda: self._commit_in_turn(writes), "conflict")

    def _commit_in_turn(self, writes: Sequence[Write]) -> None:
        """Commit, unless a herd of others writes one of the messages: it lasts for a while."""
        history = self._history
        worker = history.baton.current
        if worker is not None and worker.kind in CONTENDING and history.faulty:
            for message in (write.key for write in writes if write.key.pk.startswith("MSG#")):
                if history.now >= self._herds.get(message, 0) and history.draws("herd", 0.4):
                    self._herds[message] = history.now + history.chance.choice((200, 2_000, 15_000, 90_000))
                if history.now < self._herds.get(message, 0):
                    history.note("    a herd is at {}", message.pk)
                    raise ContendedError
        self.commit(writes)

    def commit(self, writes: Sequence[Write]) -> None:
        """Apply all or raise ConditionLostError, and let the history see what changed."""
        if not all(self._holds(write.key, write.expect) for write in writes):
            self._history.note("    condition lost")
            if (worker := self._history.baton.current) is not None:
                worker.lost += 1
            raise ConditionLostError
        changes: list[Change] = []
        for write in writes:
            if isinstance(write, Check):
                continue
            old = self.rows.get(write.key)
            old = None if old is None else dict(old)
            self._apply(write)
            changes.append((write.key, old, self._indexed(write.key)))
        self._history.committed(changes)

    def collect_garbage(self, key: Key) -> None:
        """Let the time to live take a row."""
        old = self.rows.pop(key)
        self._indexed(key)
        self._history.removed_by_ttl(key, old)

    def _indexed(self, key: Key) -> dict[str, Any] | None:
        new = self.rows.get(key)
        if new is not None:
            if key.pk.startswith("MSG#") and self._history.draws("other_form", 0.3):
                new.update(
                    {name: otherwise_packed(new[name]) for name in ("matched", "delivered", "enqueued") if name in new}
                )
                if key.sk == "MSG" and new["pending"] and not {"round_at", "apart_round_at"} & new.keys():
                    otherwise_bodied(new)
            new = dict(new)
        if key.pk.startswith("LANES#"):
            self._lane_log.append((key, new))
            self._wakeable.pop(key, None)
            if new is not None and "wake_shard" in new:
                self._wakeable[key] = new
                self._indexed_any = True
        return new


def otherwise_packed(packed: bytes) -> bytes:
    """Return a packed set of ordinals in the form that the present code did not choose."""
    members = sorted(ordinals_in(packed))
    if packed[0] == 0:
        bits = bytearray(members[-1] // 8 + 1 if members else 0)
        for member in members:
            bits[member // 8] |= 1 << member % 8
        return b"\x01" + bytes(bits)
    gaps = [member - before - 1 for before, member in zip((-1, *members), members, strict=False)]
    assert all(gap < 128 for gap in gaps)
    return b"\x00" + bytes(gaps)


def otherwise_bodied(row: dict[str, Any]) -> None:
    """Let a row have its body in the form that the present code did not choose, if the API allows such a body."""
    body = body_in(row)
    if body is None or len(body) > BODY_BYTES_MAX:
        return
    if "deflated" in row:
        del row["deflated"]
        row["body"] = body
    else:
        del row["body"]
        row["deflated"] = zlib.compress(body)


def told(write: Write) -> str:
    shown: Mapping[str, object] = {}
    match write:
        case Put():
            shown = {
                name: write.row[name] for name in ("state", "attempts", "generation", "claim") if name in write.row
            }
        case Update():
            shown = {name: value for name, value in write.changes.items() if not isinstance(value, bytes)}
    return f"{type(write).__name__} {write.key.pk}/{write.key.sk}" + "".join(f" {k}={v}" for k, v in shown.items())
