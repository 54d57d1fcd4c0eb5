"""The leaves that an audit computes by columns are those of the recipe in plain Python."""

from __future__ import annotations

import random

import pyarrow as pa
from tagcast.archive.record import RecordKind

from glue_jobs.auditing.leaves import _odd, leaves
from glue_jobs.auditing.merkle import leaf_of
from glue_jobs.compacting.lines import arrow_schema
from glue_jobs.erasing.contents import Part, forgotten
from tests.spark.story import end, message

TEXTS = ["", "a", "ä€😀\u2028\x7f", "/", "a'b", 'a"b', "a\\b", "\x00", "\x1f", "\r\n\t\b\f", "x" * 200]


def test_leaves_by_columns_are_those_of_the_recipe() -> None:
    dice = random.Random(20261123)
    rows = []
    for number in range(600):
        record = message(number, salt=f"{number:032x}", matched=tuple(range(dice.randrange(3))))
        record["properties"] = dice.choice([None, {}, {dice.choice(TEXTS): dice.choice(TEXTS), "b": "c"}])
        record["tags"] = dice.choice([None, [], dice.choices(TEXTS, k=3)])
        record["body"], record["body_is_text"] = dice.choice([None, dice.choice(TEXTS)]), dice.choice([None, True])
        record["routing_key"] = dice.choice([None, "a.b"])
        whole = {name: record.get(name) for name in arrow_schema(RecordKind.MESSAGES).names}
        gone = dice.sample(list(Part), dice.randrange(4)) if dice.random() < 0.1 else []
        rows.append(forgotten(whole, gone) if gone else whole)
    ends = [end(message(n), n % 3, outcome=dice.choice([None, *TEXTS])) for n in range(300)]
    names = arrow_schema(RecordKind.DELIVERIES).names
    for kind, records in (
        (RecordKind.MESSAGES, rows),
        (RecordKind.DELIVERIES, [{name: each.get(name) for name in names} for each in ends]),
        (RecordKind.LANES, []),
    ):
        batch = pa.RecordBatch.from_pylist(records, arrow_schema(kind))
        assert leaves(batch, kind) == [leaf_of(each) for each in records]
        columns = {name: batch.column(place) for place, name in enumerate(batch.schema.names)}
        assert len(_odd(columns)) < 0.8 * len(records) or not records, "most go the quick way"
