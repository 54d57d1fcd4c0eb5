"""A declared row is written and read back as its declaration says, in every shape that a field may have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from tagcast.rows.declaration import (
    AS_JSON,
    NOT_OPTIONAL,
    NOT_STORED,
    Beside,
    Declaration,
    Fields,
    From,
    InKey,
    Written,
    attribute,
)
from tagcast.tables import Table


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Thing:
    owner: str
    name: str
    weight: int
    colour: Colour
    size: Size
    case: Size | None = None
    note: str | None = None
    is_fragile: bool = False
    tags: tuple[str, ...] = ()
    price: float | None = None
    label: Colour = Colour.RED
    parts: dict[str, int] | None = None
    place: str = ""
    memo: str = "not stored"


THINGS = Declaration(
    Thing,
    (Table.MESSAGES, "THINGS#owner", "shelf#name"),
    "a thing",
    "never",
    owner=InKey("pk", 1),
    name=InKey("sk", 1),
    weight=attribute(named="grams"),
    size=Fields(),
    case=Fields(width=attribute(named="case_width"), height=attribute(named="case_height")),
    label=attribute(default=Colour.RED),
    parts=AS_JSON._replace(default=None),
    place=From(lambda row: str(row["sk"]).partition("#")[0]),
    memo=NOT_STORED,
    ttl=Written("{} // 1000", "weight"),
    half=Written(lambda thing: thing.weight // 2),
    note_length=Written(len, "note", beside="note"),
    counted=Beside(),
)
KEY = {"pk": "THINGS#ann", "sk": "shelf#vase"}
LEAST = Thing("ann", "vase", 3_000, Colour.BLUE, Size(5), place="shelf")
LEAST_ROW = {"grams": 3_000, "colour": "blue", "width": 5, "ttl": 3, "half": 1_500}


@pytest.mark.parametrize(
    ("thing", "row"),
    [
        (LEAST, LEAST_ROW),
        (
            Thing("ann", "vase", 3_000, Colour.BLUE, Size(5, 9), Size(6, 10), "n", True, ("a",), 0.5, Colour.BLUE,
                  {"lid": 1}, "shelf"),
            LEAST_ROW | {"height": 9, "case_width": 6, "case_height": 10, "note": "n", "note_length": 1,
                         "is_fragile": 1, "tags": ["a"], "price": "0.5", "label": "blue", "parts": '{"lid": 1}'},
        ),
    ],
)  # fmt: skip
def test_a_value_is_written_as_declared_and_read_back(thing: Thing, row: dict[str, Any]) -> None:
    assert THINGS.row_of(thing) == row
    assert THINGS.value_of(KEY | row) == thing


def test_every_attribute_is_listed_with_the_value_for_which_it_is_left_out() -> None:
    listed = {name: absent for name, _, absent in THINGS.attributes()}
    always = {"grams", "colour", "width", "ttl", "half"}

    assert {name for name, absent in listed.items() if absent is NOT_OPTIONAL} == always
    assert listed["label"] is Colour.RED
    assert (listed["is_fragile"], listed["tags"], listed["case_width"], listed["counted"]) == (False, (), None, None)
    assert not {"owner", "name", "place", "memo", "size", "case"} & listed.keys()
