"""The conditions of writes to a lane in the table of docs/protocol.md are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tagcast.model import LaneState
from tagcast.rows.lane import Lane

from tests.architecture.test_documents import table_rows

LANE = Lane("t", "7.1", LaneState.BLOCKED, "7", 1, 1, 5, 5)


def names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"`(\w+)`", text))


def in_the_table() -> Iterator[frozenset[str]]:
    """The attributes of each alternative: what stands behind `also`, or in brackets, comes to those before it."""
    row, before = "", frozenset[str]()
    for name, _, condition in table_rows("docs/protocol.md", "row", "writers", "condition"):
        row = name or row
        if row != "lane":
            continue
        plain, _, bracket = condition.partition("(")
        for clause in plain.split(";"):
            always, _, more = clause.partition("also")
            found = names(always) | (before if "the same" in clause else frozenset())
            yield from ({found, found | names(more)} if found else ())
            before = found or before
        yield from (before | names(clause) for clause in bracket.split(";") if names(clause))


def in_the_code() -> set[frozenset[str]]:
    """Of each condition that a lane has, and of a batch that joins one that is asleep, which asks for two of them."""
    every = [
        LANE.same_generation(), LANE.as_read(), LANE.as_held(), LANE.as_handed_on(), LANE.as_planned(),
        LANE.as_joined(), LANE.as_asleep(), {**LANE.as_joined(), **LANE.as_asleep()},
    ]  # fmt: skip
    assert {name for name in vars(Lane) if name.startswith(("as_", "same_"))} == {
        "same_generation", "as_read", "as_held", "as_handed_on", "as_planned", "as_joined", "as_asleep",
    }  # fmt: skip
    return {frozenset(each) for each in every}


def test_the_conditions_of_a_lane_in_the_protocol_are_those_of_the_code() -> None:
    assert set(in_the_table()) == in_the_code()
