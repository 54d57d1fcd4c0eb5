"""Rows that are packed: to readers they are what they were, and they take little memory."""

import copy
import random
import tracemalloc
import weakref
from typing import Any

from local.engine.packed_rows import AT_ONCE, PackedRows, Packing

ROW = {"pk": {"S": "x" * 40}, "n": {"N": "1"}, "l": {"L": [{"S": "y" * 200}]}, "m": {"M": {"a": {"B": "AQ=="}}}}


def test_rows_are_read_and_written_as_those_of_a_dictionary_however_many_are_packed() -> None:
    dice = random.Random(1)
    rows, plain = PackedRows(), dict[str, Any]()
    for number in range(2_000):
        key, row = dice.choice("abcdef"), {"n": {"N": str(number)}}
        match dice.randrange(7):
            case 0:
                rows[key] = plain[key] = row
            case 1:
                assert rows.pop(key, None) == plain.pop(key, None)
            case 2:
                assert rows.setdefault(key, row) == plain.setdefault(key, row)
            case 3:
                assert (rows.get(key), key in rows, len(rows)) == (plain.get(key), key in plain, len(plain))
            case 4:
                assert (list(rows), rows.values(), rows.items()) == (list(plain), [*plain.values()], [*plain.items()])
            case 5:
                assert copy.deepcopy(rows) == plain == rows.copy()
            case 6 if key in plain:
                rows.pack(key, plain[key])
                assert rows[key] == plain[key]
    for key, row in plain.items():
        rows[key] = row
        rows.pack(key, row)
    assert rows.packed == len(plain)


def test_a_packed_row_takes_little_more_than_its_text() -> None:
    table: dict[str, Any] = {"items": {"p": {str(number): copy.deepcopy(ROW) for number in range(AT_ONCE)}}}
    packing = Packing(cold_s=10.0)
    packing.add_all(0.0, table)
    packing.pack(9.0)
    assert type(table["items"]["p"]) is dict
    tracemalloc.start()
    packing.pack(11.0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    packed = table["items"]["p"]
    assert isinstance(packed, PackedRows)
    assert packed.packed == AT_ONCE
    assert taken / AT_ONCE < 600


class Watched(dict[str, Any]):
    """A row of which a weak reference is possible."""


def test_a_replaced_row_is_not_kept_until_it_would_be_packed() -> None:
    table: dict[str, Any] = {"items": {"p": {}}}
    packing = Packing(cold_s=10.0)
    rows = [Watched(n=number) for number in range(3)]
    kept = [weakref.ref(row) for row in rows]
    while rows:
        table["items"]["p"]["s"] = rows.pop(0)
        packing.add(0.0, table, "p", "s", table["items"]["p"]["s"])
    assert [row() for row in kept] == [None, None, {"n": 2}]
    packing.pack(11.0)
    assert table["items"]["p"].packed == 1
