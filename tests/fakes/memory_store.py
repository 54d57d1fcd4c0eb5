"""The port ``Store`` in memory, with the real conditions and transactions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Self, cast

from tagcast.errors import ConditionLostError
from tagcast.ports import ABSENT, Delete, Key, Page, Put, Row, Table, Update, Write
from tagcast.rows.listed import FOUND_ATTRIBUTES
from tagcast.tables import UPDATES_MAX, Check, Expectation

TRANSACTION_MAX = 100
SEARCH_PAGE = 1_000
SEARCHED = ("pk", "sk", *FOUND_ATTRIBUTES)


def lanes_of_index(rows: Iterable[Row], shard: int, limit: int, after: Row | None) -> list[Row]:
    """Return a page of the index of lanes to wake."""

    def place(row: Row) -> tuple[int, str, str]:
        return cast("int", row["wake_at"]), cast("str", row["pk"]), cast("str", row["sk"])

    due = (row for row in rows if row.get("wake_shard") == str(shard))
    return sorted((row for row in due if after is None or place(row) > place(after)), key=place)[:limit]


def search_rows(
    rows: Mapping[Key, Row], page: int, open_before: int, over_before: int, cursor: str | None
) -> Page[Row]:
    """Search the next *page* rows; the cursor is the partition key at which it goes on."""
    keys = sorted(key.pk for key in rows if key.table is Table.MESSAGES and key.sk == "MSG")
    part = [pk for pk in keys if cursor is None or pk >= cursor]
    found = []
    for pk in part[:page]:
        row = rows[Key(Table.MESSAGES, pk, "MSG")]
        is_open = "open" in (row.get("round"), row.get("apart_round")) and cast("int", row["accepted_at"]) < open_before
        is_over = cast("int", row["expires_at"]) < over_before
        if (row["pending"] and (is_open or is_over)) or ("kept" in row and is_over):
            found.append({name: value for name, value in row.items() if name in SEARCHED})
    return Page(tuple(found), part[page] if len(part) > page else None)


def kept_rows(
    rows: Mapping[Key, Row],
    page: int,
    topic: str,
    accepted_from: int,
    before_version: int,
    alive_at: int,
    cursor: str | None,
) -> Page[Row]:
    """Look through the next *page* messages for what is kept, in no order of time."""
    keys = sorted((key.pk for key in rows if key.table is Table.MESSAGES and key.sk == "MSG"), key=lambda pk: pk[::-1])
    at = 0 if cursor is None else int(cursor)
    found = []
    for pk in keys[at : at + page]:
        row = rows[Key(Table.MESSAGES, pk, "MSG")]
        is_known = cast("int", row["subscriptions_version"]) >= before_version or "replay_of" in row
        has_body = "body" in row or "deflated" in row
        lives = cast("int", row["accepted_at"]) >= accepted_from and cast("int", row["expires_at"]) > alive_at
        if row["topic"] == topic and has_body and lives and not is_known:
            found.append({"message_id": row["message_id"]})
    return Page(tuple(found), str(at + page) if len(keys) > at + page else None)


class PartitionedRows(dict[Key, dict[str, Any]]):
    """Rows by key; *partitions* has the keys of each partition by their sort keys."""

    def __init__(self) -> None:
        super().__init__()
        self.partitions: dict[tuple[Table, str], dict[str, Key]] = defaultdict(dict)

    def __setitem__(self, key: Key, row: dict[str, Any]) -> None:
        super().__setitem__(key, row)
        self.partitions[key.table, key.pk][key.sk] = key

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        del self.partitions[key.table, key.pk][key.sk]

    def pop(self, key: Key, default: Any = None) -> Any:
        """Unlike a dictionary's, it returns None for a key that does not exist."""
        row = self.get(key, default)
        if key in self:
            del self[key]
        return row

    def clear(self) -> None:
        super().clear()
        self.partitions.clear()

    setdefault = MutableMapping.setdefault
    update = MutableMapping.update

    def __ior__(self, rows: Mapping[Key, dict[str, Any]]) -> Self:  # type: ignore[override, misc]
        self.update(rows)
        return self


class MemoryStore:
    """Rows in a dictionary; a transaction is applied whole or not at all."""

    def __init__(self) -> None:
        self.rows = PartitionedRows()
        self.writes = 0
        self.rows_read = self.most_rows_at_once = 0
        self.kept_page = SEARCH_PAGE
        self.before_transact: Callable[[Sequence[Write]], object] = lambda writes: None
        self.after_query: Callable[[str, list[Row]], object] = lambda pk, rows: None

    def get(self, key: Key) -> Row | None:
        row = self.rows.get(key)
        self.rows_read += 1
        return None if row is None else dict(row)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        assert len(keys) <= TRANSACTION_MAX
        self.rows_read += len(keys)
        return {key: dict(self.rows[key]) for key in keys if key in self.rows}

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        assert (sk_from or "\x00") <= sk_to, "DynamoDB refuses a range whose end is before its beginning"
        partition = self.rows.partitions.get((table, pk), {})
        found = sorted(sk for sk in partition if sk_from <= sk <= sk_to)[:limit]
        self.rows_read += len(found)
        self.most_rows_at_once = max(self.most_rows_at_once, len(found))
        rows: list[Row] = [dict(self.rows[partition[sk]]) for sk in found]
        self.after_query(pk, rows)
        return rows

    def lanes_to_wake(self, shard: int, limit: int, *, after: Row | None = None) -> list[Row]:
        return lanes_of_index(map(dict, self.rows.values()), shard, limit, after)

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Page[Row]:
        return search_rows(self.rows, SEARCH_PAGE, open_before, over_before, cursor)

    def find_kept(
        self, topic: str, *, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
    ) -> Page[Row]:
        return kept_rows(self.rows, self.kept_page, topic, accepted_from, before_version, alive_at, cursor)

    def write(self, write: Write) -> None:
        assert not isinstance(write, Check)
        self.transact((write,))

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        assert 0 < len(updates) <= UPDATES_MAX
        assert len({update.key for update in updates}) == len(updates), "a request names no row twice"
        assert all(update.expect and not update.add for update in updates)
        return [self._is_written(update) for update in updates]

    def _is_written(self, update: Update) -> bool:
        """Write one update of several that go each by itself; say whether its condition held."""
        try:
            self.write(update)
        except ConditionLostError:
            return False
        return True

    def transact(self, writes: Sequence[Write]) -> None:
        self.before_transact(writes)
        assert 0 < len(writes) <= TRANSACTION_MAX
        assert len({write.key for write in writes}) == len(writes), "a transaction names no row twice"
        if not all(self._holds(write.key, write.expect) for write in writes):
            raise ConditionLostError
        for write in writes:
            self._apply(write)
            self.writes += not isinstance(write, Check)

    def _holds(self, key: Key, expect: Expectation) -> bool:
        row = self.rows.get(key, {})
        return all(
            name not in row if wanted is ABSENT else name in row and row[name] == wanted
            for name, wanted in expect.items()
        )

    def _apply(self, write: Write) -> None:
        match write:
            case Put():
                self.rows[write.key] = {"pk": write.key.pk, "sk": write.key.sk, **write.row}
            case Update():
                row = self.rows.setdefault(write.key, {"pk": write.key.pk, "sk": write.key.sk})
                row.update(write.changes)
                row.update({name: row.get(name, 0) + number for name, number in write.add.items()})
                for name in write.remove:
                    row.pop(name, None)
            case Delete():
                self.rows.pop(write.key, None)
            case Check():
                pass
