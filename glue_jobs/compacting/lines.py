"""Parses raw lines into Arrow tables, a whole file at once, if each line is one valid record in the usual form.

:func:`glue_jobs.io.raw.parse_lines` is the reference and handles damaged lines, but takes some fifteen times as long.
So this reader tries each file first. If it cannot parse a line, the reference reads the file instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyarrow import compute, json
from tagcast.archive.record import RecordKind

from glue_jobs.io.schemas import DAY_OF, INSTANT_MAX, REQUIRED, SCHEMAS

BLOCK_BYTES = 32 * 1024 * 1024
"""Bytes of text parsed at once."""
PARSED_BYTES = 4 * 1024 * 1024
_TEXT, _INT = pa.string(), pa.int32()
_PAIRS = pa.map_(_TEXT, _TEXT)
_LISTED = pa.list_(pa.struct([("key", _TEXT), ("value", _TEXT)]))
_TYPES: Mapping[str, pa.DataType] = {
    "string": _TEXT,
    "int": _INT,
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "array<int>": pa.list_(_INT),
    "array<string>": pa.list_(_TEXT),
    "map<string,string>": _PAIRS,
}
_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""Matches a JSON string without backtracking: otherwise a producer could choose a text that takes very long."""
_PAIR = re.compile(rb"(Q)\s*:\s*(Q)".replace(b"Q", _QUOTED))
_INNER = re.compile(rb"\s*(?:Q\s*:\s*Q\s*(?:,\s*Q\s*:\s*Q\s*)*)?".replace(b"Q", _QUOTED))
_MAPS = re.compile(rb'"(properties|salts|hashes)"\s*:\s*\{(I)\}'.replace(b"I", _INNER.pattern))
"""Matches the name of a map column and its map, but nothing inside a JSON string: quotes in it have a backslash."""


def arrow_schema(kind: RecordKind) -> pa.Schema:
    """Return the columns of a kind as an Arrow schema.

    >>> arrow_schema(RecordKind.LANES).field("changed_at").type
    DataType(int64)
    """
    return pa.schema([(each.name, _TYPES[each.dataType.simpleString()]) for each in SCHEMAS[kind].fields])


@dataclass(frozen=True, slots=True)
class Read:
    """The records of a file's lines. *unknown* has the names of columns that the lines have but the schema lacks."""

    records: pa.Table
    unknown: frozenset[str]


def read_file(content: bytes, kind: RecordKind, *, zipped: bool) -> Read | None:
    """Return the records of a raw file, or None if this reader cannot parse the file.

    Such a file is truncated, is *zipped* but not gzip, or has a line in an unusual form.
    """
    try:
        found = [_read(block, kind) for block in _blocks(content, zipped)]
    except OSError:
        return None  # Truncated, or no gzip: Spark reads it next and reports it.
    tables = [each.records for each in found if each is not None]
    if len(tables) < len(found):
        return None
    unknown = frozenset(name for each in found if each is not None for name in each.unknown)
    return Read(pa.concat_tables(tables) if tables else arrow_schema(kind).empty_table(), unknown)


def _blocks(content: bytes, zipped: bool) -> Iterator[bytes]:
    """Yield the text of a file in blocks of whole lines."""
    source = pa.BufferReader(content)
    stream = pa.CompressedInputStream(source, "gzip") if zipped else source
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest + b"\n"


def _read(text: bytes, kind: RecordKind) -> Read | None:
    """Return the records of whole lines, or None if this reader cannot parse a line."""
    breaks = text.count(b"\n") - 1
    if not text.startswith(b"{") or not text.endswith(b"}\n") or text.count(b"}\n{") != breaks or b"\r" in text:
        return None
    try:
        if not text.isascii():
            text.decode()
    except UnicodeDecodeError:
        return None
    for way in (_list_maps_quickly, _list_maps) if kind is RecordKind.MESSAGES else (_without_maps,):
        listed, maps = way(text)
        if (read := _parse(listed, maps, kind)) is not None and read.records.num_rows == breaks + 1:
            return read
    return None


def _parse(text: bytes, maps: int, kind: RecordKind) -> Read | None:
    """Return the records in *text*, in which *maps* maps are lists of pairs; None if a value breaks the schema."""
    schema = arrow_schema(kind)
    explicit = pa.schema([each.with_type(_LISTED) if each.type == _PAIRS else each for each in schema])
    options = json.ReadOptions(use_threads=False, block_size=max(PARSED_BYTES, len(text) // 8))
    parsing = json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer")
    try:
        read = json.read_json(pa.BufferReader(text), options, parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    unknown = frozenset(read.column_names[len(schema) :])
    read = read.select(schema.names).combine_chunks()
    if not _is_whole(read, kind, maps):
        return None
    columns = [_map_lists(each.chunk(0)) if each.type == _LISTED else each for each in read.columns]
    return Read(pa.Table.from_arrays(columns, schema=schema), unknown)


def _list_maps_quickly(text: bytes) -> tuple[bytes, int]:
    """Return *text* with properties as lists of pairs, which Arrow can read, and the number of these lists.

    The function handles only the form that tagcast's own writers produce.
    """
    name = b'"properties":'
    pieces = text.split(name + b"{")
    for place, piece in enumerate(pieces):
        if place:
            end = piece.find(b"}")
            listed = _pairs(piece[:end])
            pieces[place] = b"{" + piece if listed is None else listed + piece[end + 1 :]
    return name.join(pieces), len(pieces) - 1


def _without_maps(text: bytes) -> tuple[bytes, int]:
    return text, 0


def _list_maps(text: bytes) -> tuple[bytes, int]:
    """Convert all maps, in any form, like :func:`_list_maps_quickly`. Maps with a repeated key stay unchanged."""
    return _MAPS.subn(lambda found: b'"%b":%b' % (found[1], _pairs(found[2]) or b"{%b}" % found[2]), text)


@lru_cache(100_000)
def _pairs(inner: bytes) -> bytes | None:
    """Return ``"a":"b"`` as a list for :func:`_map_lists`, or None if the text has another form."""
    if not _INNER.fullmatch(inner):
        return None
    pairs = _PAIR.findall(inner)
    names = {name for name, _ in pairs}
    if len(names) < len(pairs) or any(b"\\" in name for name in names):
        return None
    return b"[%b]" % b",".join(b'{"key":%b,"value":%b}' % pair for pair in pairs)


def _is_whole(read: pa.Table, kind: RecordKind, maps: int) -> bool:
    """Return whether all records are complete, without nulls in lists and maps, and with all *maps* converted."""
    instants = compute.min_max(read[DAY_OF[kind]])
    low, high = instants["min"].as_py(), instants["max"].as_py()
    if any(read[name].null_count for name in REQUIRED[kind]) or low is None or low < 0 or high > INSTANT_MAX:
        return False
    found = 0
    for each in read.columns:
        if each.type == _LISTED:
            found += len(each) - each.null_count
            pairs = each.chunk(0).flatten()
            if pairs.null_count or any(pairs.field(place).null_count for place in (0, 1)):
                return False
        elif pa.types.is_list(each.type) and each.chunk(0).flatten().null_count:
            return False
    return found == maps


def _map_lists(lists: pa.ListArray) -> pa.MapArray:
    pairs = lists.values
    fields = [pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT)]
    entries = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=fields)
    return pa.Array.from_buffers(
        _PAIRS, len(lists), lists.buffers()[:2], null_count=lists.null_count, children=[entries]
    )
