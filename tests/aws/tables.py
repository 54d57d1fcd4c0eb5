"""What a table of DynamoDB holds: partitions in order of their sort keys, indexes, recent writes, its stream."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.aws import limits
from tests.aws.attributes import Attribute, Item, comparable, invalid
from tests.aws.streams import TTL_IDENTITY, VIEW, Stream
from tests.aws.throughput import Throughput

Key = tuple[Any, Any]
"""Hash and range value by which rows are found and ordered; the range is "" in a table that has none."""


class Row(NamedTuple):
    """An item, its size, and where each index of the table has it (in the order of the indexes)."""

    item: Item
    size: int
    places: tuple[Key | None, ...] = ()


NOTHING = Row({}, 0)
"""What a reader finds where there is no row."""


class Schema:
    """The key of a table or of an index."""

    def __init__(self, declared: list[Mapping[str, str]], kinds: Mapping[str, str]) -> None:
        roles = {each["KeyType"]: each["AttributeName"] for each in declared}
        self.hash = roles["HASH"]
        self.range = roles.get("RANGE")
        self.names = (self.hash,) if self.range is None else (self.hash, self.range)
        self.kinds = {name: kinds[name] for name in self.names}
        self.bytes_max = {self.hash: limits.HASH_KEY_BYTES_MAX, self.range: limits.RANGE_KEY_BYTES_MAX}

    def part(self, name: str, value: Attribute, index: str | None = None) -> Any:
        """The ordered form of one attribute of the key, or DynamoDB's refusal."""
        kind = self.kinds[name]
        if kind not in value:
            what, where = ("key", "") if index is None else ("Index Key", f" IndexName: {index}")
            raise invalid(
                f"One or more parameter values were invalid: Type mismatch for {what} {name} "
                f"expected: {kind} actual: {next(iter(value))}{where}"
            )
        content = comparable(value)
        if kind != "N":
            if not content:
                raise invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain "
                    f"an empty {'string' if kind == 'S' else 'binary'} value. Key: {name}"
                )
            bound = self.bytes_max[name]
            if len(content) * 4 > bound and len(content.encode() if kind == "S" else content) > bound:
                raise invalid(
                    f"One or more parameter values were invalid: Size of {'hash' if name == self.hash else 'range'}key "
                    f"has exceeded the maximum size limit of {bound} bytes"
                )
        return content


class Index:
    """A global secondary index: for each hash value the keys of its rows in order of the index's range."""

    def __init__(self, declared: Mapping[str, Any], kinds: Mapping[str, str], table: Schema) -> None:
        self.name: str = declared["IndexName"]
        self.schema = Schema(declared["KeySchema"], kinds)
        assert declared["Projection"] == {"ProjectionType": "ALL"}, "no other projection is played"
        self.lines: dict[Any, list[tuple[Any, Key]]] = {}

    def place(self, item: Mapping[str, Attribute]) -> Key | None:
        """Where the index has the item; None: it is not in it."""
        schema = self.schema
        found = item.get(schema.hash)
        if found is None:
            return None
        line = schema.part(schema.hash, found, self.name)
        if schema.range is None:
            return line, ""
        found = item.get(schema.range)
        return None if found is None else (line, schema.part(schema.range, found, self.name))

    def move(self, key: Key, before: Key | None, after: Key | None) -> None:
        """Let the row of *key* go from one place to another."""
        if before is not None:
            line = self.lines[before[0]]
            del line[bisect_left(line, (before[1], key))]
            if not line:
                del self.lines[before[0]]
        if after is not None:
            insort(self.lines.setdefault(after[0], []), (after[1], key))


class Table:
    """One table, made of the properties that CloudFormation takes."""

    def __init__(self, name: str, arn: str, properties: Mapping[str, Any], region: str, shards: int = 1) -> None:
        self.name = name
        self.arn = arn
        kinds = {each["AttributeName"]: each["AttributeType"] for each in properties["AttributeDefinitions"]}
        self.schema = Schema(properties["KeySchema"], kinds)
        declared = properties.get("GlobalSecondaryIndexes", ())
        self.indexes = {each["IndexName"]: Index(each, kinds, self.schema) for each in declared}
        assert properties.get("StreamSpecification", {}).get("StreamViewType") == VIEW, "no other view is played"
        self.stream = Stream(f"{arn}/stream/2026-01-01T00:00:00.000", region, shards)
        ttl = properties.get("TimeToLiveSpecification", {})
        self.ttl = ttl.get("AttributeName") if ttl.get("Enabled") else None
        self.partitions: dict[Any, dict[Any, Row]] = {}
        self.ranges: dict[Any, list[Any]] = {}
        self.held: dict[Key, object] = {}
        """Rows of transactions under way."""
        self.recent: deque[tuple[int, Key, Row | None]] = deque(maxlen=limits.STALE_WRITES_MAX)
        """The last writes: when, which row, what it was before."""
        self.throughput = Throughput()
        self._of_indexes = {name: Throughput() for name in self.indexes}
        self.told: Callable[[Item | None, Item | None, bool], None] = lambda before, after, by_ttl: None
        """Is told of each change: the item before, the item after, whether the time to live made it."""
        self._expiring: list[tuple[int, Key]] = []

    def throughput_of(self, index: str) -> Throughput:
        """What an index gives a second."""
        return self._of_indexes[index]

    def key(self, given: Mapping[str, Attribute]) -> Key:
        """The key that a request names; it has to have the key's attributes and no others."""
        schema = self.schema
        if len(given) != len(schema.names) or any(
            name not in given or schema.kinds[name] not in given[name] for name in schema.names
        ):
            raise invalid("The provided key element does not match the schema")
        return self.key_of(given)

    def key_of(self, item: Mapping[str, Attribute]) -> Key:
        """The key of an item."""
        schema = self.schema
        for name in schema.names:
            if name not in item:
                raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
        line = schema.part(schema.hash, item[schema.hash])
        return line, "" if schema.range is None else schema.part(schema.range, item[schema.range])

    def get(self, key: Key) -> Row | None:
        """The row as it is now."""
        partition = self.partitions.get(key[0])
        return None if partition is None else partition.get(key[1])

    def rows(self) -> Iterator[Item]:
        """All items, for those who look at the table from outside."""
        for line, ranges in self.ranges.items():
            for place in ranges:
                yield self.partitions[line][place].item

    def row_of(self, item: Item, size: int) -> Row:
        """The row that an item makes; refuses values that cannot be keys of an index."""
        return Row(item, size, tuple([index.place(item) for index in self.indexes.values()]))

    def put(self, now: int, key: Key, row: Row | None, **by: Any) -> None:
        """Let *row* be what the table has at *key* (None: nothing); *by* tells the stream who did it."""
        before = self.get(key)
        old, new = None if before is None else before.item, None if row is None else row.item
        if old == new:
            return
        self.recent.append((now, key, before))
        for place, index in enumerate(self.indexes.values()):
            was = None if before is None else before.places[place]
            will = None if row is None else row.places[place]
            if was != will:
                index.move(key, was, will)
        self._store(key, before, row)
        if self.ttl is not None and new is not None:
            expires = new.get(self.ttl, {}).get("N")
            if expires is not None and (old is None or old.get(self.ttl) != new[self.ttl]):
                heapq.heappush(self._expiring, (int(float(expires)), key))
        item = old if new is None else new
        assert item is not None
        keys = {name: item[name] for name in self.schema.names}
        self.stream.append(now, key[0], keys, old, new, **by)
        self.told(old, new, bool(by))

    def remove_expired(self, now: int) -> int:
        """Remove what the time to live ended before *now*; AWS does that within a few days, the timeline says when."""
        removed = 0
        seconds = now // 1000
        kept = []
        while self._expiring and self._expiring[0][0] < seconds:
            expires, key = heapq.heappop(self._expiring)
            row = self.get(key)
            if row is None or self.ttl is None or int(float(row.item.get(self.ttl, {}).get("N", 0))) != expires:
                continue
            if key in self.held:
                kept.append((expires, key))
            elif expires > seconds - limits.TTL_YEARS_MAX * 365 * 86_400:
                self.put(now, key, None, userIdentity=TTL_IDENTITY)
                removed += 1
        for each in kept:
            heapq.heappush(self._expiring, each)
        return removed

    def before(self, now: int, writes: int) -> dict[Key, Row | None]:
        """What a replica that is some writes behind still has: the rows changed since, as they were."""
        older: dict[Key, Row | None] = {}
        if writes:
            for instant, key, row in list(self.recent)[-writes:][::-1]:
                if now - instant > limits.STALE_MS:
                    break
                older[key] = row
        return older

    def _store(self, key: Key, before: Row | None, row: Row | None) -> None:
        line, place = key
        if row is None:
            partition, ranges = self.partitions[line], self.ranges[line]
            del partition[place]
            del ranges[bisect_left(ranges, place)]
            if not ranges:
                del self.partitions[line], self.ranges[line]
            return
        if before is None:
            insort(self.ranges.setdefault(line, []), place)
        self.partitions.setdefault(line, {})[place] = row
