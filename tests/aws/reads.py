"""Reading pages of a table or an index: queries and scans, consistent or some writes behind."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from operator import itemgetter
from typing import Any

from tests.aws import conditions, expressions, key_conditions, limits
from tests.aws.attributes import Attribute, Item, invalid
from tests.aws.key_conditions import Bounds
from tests.aws.tables import Index, Key, Row, Table

Older = Mapping[Key, "Row | None"]
Place = tuple[Any, Key]
"""Where a row stands in its line: its range value there, and its key in the table."""


@dataclass
class Page:
    """What one request reads."""

    items: list[Item] = field(default_factory=list)
    scanned: int = 0
    bytes: int = 0
    last: Item | None = None


@dataclass(frozen=True)
class Source:
    """A table or one of its indexes, as a reader sees it who may be some writes behind."""

    table: Table
    index: Index | None
    older: Older

    @property
    def schema(self) -> Any:
        return self.table.schema if self.index is None else self.index.schema

    def row(self, key: Key) -> Row | None:
        return self.older[key] if key in self.older else self.table.get(key)

    def line(self, line: Any) -> Sequence[Place]:
        """The places of one hash value, in order."""
        if self.index is None:
            places: Sequence[Place] = [(each, (line, each)) for each in self.table.ranges.get(line, ())]
        else:
            places = self.index.lines.get(line, ())
        if not self.older:
            return places
        kept = [place for place in places if place[1] not in self.older]
        for key, row in self.older.items():
            found = None if row is None else self._place(key, row.item)
            if found is not None and found[0] == line:
                kept.append((found[1], key))
        return sorted(kept)

    def _place(self, key: Key, item: Item) -> Key | None:
        return key if self.index is None else self.index.place(item)

    def start_key(self, item: Item) -> Item:
        """The key from which the next page starts."""
        names = dict.fromkeys(self.table.schema.names + (() if self.index is None else self.index.schema.names))
        return {name: item[name] for name in names}


def check_placeholders(parameters: Mapping[str, Any]) -> None:
    """Refuse a request whose expressions and placeholders do not belong together."""
    names: set[str] = set()
    marks: set[str] = set()
    if "KeyConditionExpression" in parameters:
        for clause in key_conditions.parsed(parameters["KeyConditionExpression"]):
            marks.update(clause.marks)
            if clause.name[0] == "#":
                names.add(clause.name)
    if "FilterExpression" in parameters:
        wanted = conditions.condition(parameters["FilterExpression"], "FilterExpression")
        names |= wanted.names
        marks |= wanted.marks
    if "ProjectionExpression" in parameters:
        names.update(name for name in expressions.projection(parameters["ProjectionExpression"]) if name[0] == "#")
    expressions.check_placeholders(parameters, frozenset(names), frozenset(marks))


def query(source: Source, line: Any, bounds: Bounds, parameters: Mapping[str, Any]) -> Page:
    """Read one page of a query: of the rows of hash value *line* within *bounds*."""
    cut = _table_cut if source.index is None and not source.older else _cut
    places = cut(source, line, bounds, parameters)
    return _read(source, places, parameters)


def _table_cut(source: Source, line: Any, bounds: Bounds, parameters: Mapping[str, Any]) -> Iterable[Place]:
    """The fast way for consistent reads of a table: only what is read is touched."""
    ranges = source.table.ranges.get(line, [])
    start, end = bounds.cut(ranges, None)
    after = parameters.get("ExclusiveStartKey")
    if after is not None:
        start = max(start, bisect_right(ranges, source.table.key(after)[1]))
    return ((ranges[each], (line, ranges[each])) for each in range(start, end))


def _cut(source: Source, line: Any, bounds: Bounds, parameters: Mapping[str, Any]) -> Iterable[Place]:
    places = source.line(line)
    start, end = bounds.cut(places, itemgetter(0))
    after = parameters.get("ExclusiveStartKey")
    if after is not None:
        start = max(start, bisect_right(places, _start_place(source, after)))
    return places[start:end]


def _start_place(source: Source, after: Mapping[str, Attribute]) -> Place:
    table, index = source.table, source.index
    if after.keys() != {*table.schema.names, *source.schema.names}:
        raise invalid("The provided starting key is invalid")
    key = table.key_of(after)
    if index is None:
        return key[1], key
    place = index.place(dict(after))
    assert place is not None
    return place[1], key


def _read(source: Source, places: Iterable[Place], parameters: Mapping[str, Any]) -> Page:
    """Read rows until the page is full: by `Limit`, or because the next row does not fit into 1 MB."""
    page = Page()
    limit = parameters.get("Limit")
    names = parameters.get("ExpressionAttributeNames", {})
    values = parameters.get("ExpressionAttributeValues", {})
    text = parameters.get("FilterExpression")
    wanted = None if text is None else conditions.condition(text, "FilterExpression").test
    last = None
    for _, key in places:
        row = source.row(key)
        assert row is not None
        item, size = row.item, row.size
        if page.scanned and page.bytes + size > limits.PAGE_BYTES_MAX:
            page.last = last
            break
        page.bytes += size
        page.scanned += 1
        last = item
        if wanted is None or wanted(item, names, values):
            page.items.append(item)
        if limit is not None and page.scanned >= limit:
            page.last = item
            break
    if page.last is not None:
        page.last = source.start_key(page.last)
    return page


def scan(source: Source, parameters: Mapping[str, Any]) -> Page:
    """Read one page of a scan: hash values come in no useful order, rows of one of them in theirs."""
    table, index = source.table, source.index
    lines: Iterable[Any] = table.ranges if index is None else index.lines
    extra = () if index is not None else [key[0] for key, row in source.older.items() if row is not None]
    ordered = sorted({*lines, *extra}, key=_scatter)
    after = parameters.get("ExclusiveStartKey")
    return _read(source, _behind(source, ordered, after), parameters)


def _behind(source: Source, lines: Sequence[Any], after: Mapping[str, Attribute] | None) -> Iterator[Place]:
    if after is None:
        for line in lines:
            yield from source.line(line)
        return
    start = _start_place(source, after)
    first = source.schema.part(source.schema.hash, after[source.schema.hash])
    for line in lines[bisect_left(lines, _scatter(first), key=_scatter) :]:
        places = source.line(line)
        yield from places[bisect_right(places, start) :] if line == first else places


def _scatter(line: Any) -> str:
    return md5(str(line).encode(), usedforsecurity=False).hexdigest()


def projected(item: Item, parameters: Mapping[str, Any]) -> Item:
    """The attributes of an item that `ProjectionExpression` names."""
    text = parameters.get("ProjectionExpression")
    if text is None:
        return dict(item)
    names = parameters.get("ExpressionAttributeNames", {})
    wanted = [expressions.resolved(name, names) for name in expressions.projection(text)]
    return {name: item[name] for name in wanted if name in item}
