"""Rows that are stored as JSON: to readers they are what they were, and they take little memory."""

import copy
import random
import tracemalloc
from typing import Any

from local.engine.packed_rows import ROW_BYTES_MAX, PackedRows
from local.functions.quick_json import encode

ROWS = 1_000


def row_of(number: int) -> dict[str, Any]:
    return {
        "pk": {"S": f"{number:040}"},
        "n": {"N": "1"},
        "l": {"L": [{"S": f"{number:0200}"}]},
        "m": {"M": {"a": {"B": "AQ=="}}},
    }


def test_rows_are_read_and_written_as_those_of_a_dictionary_whatever_their_length() -> None:
    dice = random.Random(1)
    rows, plain = PackedRows(), dict[str, Any]()
    for number in range(2_000):
        key, row = dice.choice("abcdef"), {"n": {"N": str(number)}, "b": {"S": "x" * dice.choice((1, ROW_BYTES_MAX))}}
        match dice.randrange(5):
            case 0:
                rows[key] = plain[key] = row
            case 1:
                assert rows.pop(key, None) == plain.pop(key, None)
            case 2:
                assert (rows.get(key), key in rows, len(rows)) == (plain.get(key), key in plain, len(plain))
            case 3:
                assert (list(rows), rows.values(), rows.items()) == (list(plain), [*plain.values()], [*plain.items()])
            case 4:
                assert copy.deepcopy(rows) == plain == rows.copy() == PackedRows(plain)
                assert [encode(rows.json_of(each)) for each in plain] == [encode(each) for each in plain.values()]


def test_a_row_takes_little_more_than_its_text_and_a_long_row_is_not_copied() -> None:
    rows = PackedRows()
    tracemalloc.start()
    for number in range(ROWS):
        rows[number] = row_of(number)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / ROWS < 600
    rows["long"] = long = {"b": {"S": "x" * ROW_BYTES_MAX}}
    assert rows["long"] is long
