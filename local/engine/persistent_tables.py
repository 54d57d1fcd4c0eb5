"""Records changes of the engine's tables and streams in the journal. At the start it replays the recorded changes.

A stream record is stored until all readers have read it. Each reader stores its position in a file of its own.
"""

from collections import defaultdict
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from local.engine.checksums import read_position
from local.engine.journal import Journal
from local.engine.packed_rows import PackedRows, as_json, rows_with

BESIDE_TABLES = (
    *("tags", "ttl_settings", "pitr_settings", "kinesis_destinations", "contributor_insights"),
    *("backups", "resource_policies", "exports", "imports"),
)
"""Names of further data of tables in the engine's module for DynamoDB."""
EXPIRED_MAX = 10_000
"""After days without a running stack, all rows expire at once. The stream's record of a deletion takes 4 KiB."""


class PersistentTables:
    """Records changes of tables and streams in the journal. *tables* is the engine's module for DynamoDB.

    *positions* is the folder with the position files of stream readers. A file's name is READER.TABLE.
    """

    def __init__(self, tables: ModuleType, journal: Journal, positions: Path) -> None:
        self._tables = tables
        self._journal = journal
        self._positions = positions
        self._set, self._remove = tables._set_item, tables._remove_item
        self._was: tuple[Any, Any] = (None, None)
        self._known: dict[str, dict[str, Any]] | None = None

    def install(self) -> None:
        """Wrap the engine's functions that change items and streams."""
        tables, journal = self._tables, self._journal
        emit, replaced = tables._emit_stream_event, tables._items_replaced

        def set_item(table: dict[str, Any], pk: Any, sk: Any, item: Any) -> Any:
            old = self._put(table, pk, sk, item)
            journal.add("put", table["TableId"], pk, sk, table["items"][pk].json_of(sk))
            return old

        def remove_item(table: dict[str, Any], pk: Any, sk: Any) -> Any:
            journal.add("cut", table["TableId"], pk, sk)
            return self._remove(table, pk, sk)

        def emit_record(name: str, event: str, old: Any, new: Any, replicate: bool = True) -> None:
            before = _last(tables._stream_records.get(name))
            emit(name, event, old, new, replicate)
            record = _last(tables._stream_records.get(name))
            if record is not before:
                change = record["dynamodb"]
                of_it = [record["eventID"], change["SequenceNumber"], change["ApproximateCreationDateTime"]]
                journal.add("streamed", tables._tables[name]["TableId"], event, *of_it)

        def items_replaced(table: dict[str, Any]) -> None:
            replaced(table)
            journal.add("items", table["TableId"], as_json(table["items"]))

        for function in (set_item, remove_item, items_replaced):
            setattr(tables, f"_{function.__name__}", function)
        tables._emit_stream_event = emit_record  # type: ignore[attr-defined]

    def _put(self, table: dict[str, Any], pk: Any, sk: Any, item: Any) -> Any:
        if type(table["items"].get(pk)) is not PackedRows:
            table["items"][pk] = PackedRows()
        return self._set(table, pk, sk, item)

    def structure(self) -> dict[str, Any]:
        """Return the tables without their items, in the form of the engine's own stored state."""
        tables = self._tables
        bare = tables.AccountRegionScopedDict()
        for place, table in tables._tables.all_items():
            left = {name: value for name, value in table.items() if name != tables._INDEX_MEMBERS}
            bare.set_scoped(*place, left | {"items": {}, "ItemCount": 0, "TableSizeBytes": 0})
        return {"tables": bare, **{name: getattr(tables, f"_{name}") for name in BESIDE_TABLES}}

    def state(self) -> dict[str, Any]:
        """Return the items and the unread stream records of each table, by table id."""
        self.trim()
        return {
            table["TableId"]: {
                "items": as_json(table["items"]),
                "records": self._tables._stream_records.get_scoped(*place) or [],
                "trimmed": self._tables._stream_trimmed.get_scoped(*place) or 0,
            }
            for place, table in self._tables._tables.all_items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Put the items and stream records in *state* into the tables. The state of deleted tables is dropped."""
        for place, table in self._tables._tables.all_items():
            if (found := state.get(table["TableId"])) is not None:
                self._replace(table, found["items"])
                self._tables._stream_records.set_scoped(*place, found["records"])
                self._tables._stream_trimmed.set_scoped(*place, found["trimmed"])

    def _replace(self, table: dict[str, Any], items: dict[Any, dict[Any, Any]]) -> None:
        table["items"] = defaultdict(dict, {pk: PackedRows(rows) for pk, rows in items.items()})
        self._tables._update_counts(table)

    def replay_change(self, kind: str, table_id: str, *change: Any) -> None:
        """Replay one change of the journal; ignore a change of a deleted table. Call `end` after the last change."""
        if self._known is None:
            self._known = {table["TableId"]: table for table in self._tables._tables.all_values()}
        table = self._known.get(table_id)
        if table is None:
            return
        match kind:
            case "put":
                pk, sk, item = change
                self._was = (self._put(table, pk, sk, item), item)
            case "cut":
                self._was = (self._remove(table, *change), None)
            case "streamed":
                self._repeat_change(table, *change)
            case "items":
                self._replace(table, change[0])

    def end(self) -> None:
        """Finish the replay: drop the stream records that were read. Raises DamageError."""
        self._known = None
        self.trim()

    def _repeat_change(self, table: dict[str, Any], event: str, event_id: str, number: str, told_at: float) -> None:
        view = table["StreamSpecification"].get("StreamViewType", "NEW_AND_OLD_IMAGES")
        record = self._tables._build_change_record(table, event, *self._was, view)
        record["eventID"] = event_id
        record["dynamodb"] |= {"SequenceNumber": number, "ApproximateCreationDateTime": told_at}
        self._tables._stream_records.setdefault(table["TableName"], []).append(record)

    def expire(self, table: str, attribute: str, now_s: float) -> None:
        """Delete rows whose *attribute*, the time of expiry in seconds since 1970, is not after *now_s*.

        One call deletes at most :data:`EXPIRED_MAX` rows. The stream has a record of each deletion, as if a caller had
        deleted the row.
        """
        found = self._tables._tables[table]
        names = [name for name in (found["pk_name"], found["sk_name"]) if name]
        over = (row for row in rows_with(found["items"], attribute) if 0 <= float(row[attribute]["N"]) <= now_s)
        for key in [{name: row[name] for name in names} for row in islice(over, EXPIRED_MAX)]:
            self._tables._delete_item({"TableName": table, "Key": key})

    def trim(self) -> None:
        """Drop the stream records that all readers have read. The readers are those with a position file."""
        streams, trimmed = self._tables._stream_records, self._tables._stream_trimmed
        for place, records in streams.all_items():
            # Places are compared, because numbers begin with the time and decrease when the clock is set back.
            places = {each["dynamodb"]["SequenceNumber"]: last for last, each in enumerate(records, start=1)}
            paths = self._positions.glob(f"*.{place[2]}")
            number = min((places.get(read_position(path), 0) for path in paths), default=0)
            del records[:number]
            trimmed.set_scoped(*place, (trimmed.get_scoped(*place) or 0) + number)


def _last(records: list[Any] | None) -> Any:
    return records[-1] if records else None
