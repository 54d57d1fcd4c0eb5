"""Updates as PartiQL statements. One request contains many statements, each with a condition of its own.

Separate requests would each cost a signature and a TLS exchange. DynamoDB bills the updates alike in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from tagcast.ports import Table, Update
from tagcast.tables import Value

from tagcast_aws.store.attributes import to_attribute


def statement_of(update: Update, tables: Mapping[Table, str]) -> dict[str, Any]:
    """Return the statement of an update of an existing row. The update must have a condition and no additions.

    >>> from tagcast.ports import Key
    >>> update = Update(Key(Table.MESSAGES, "MSG#t#1", "MSG"), {"pending": 0}, ("body",), {"version": 3})
    >>> statement_of(update, {Table.MESSAGES: "messages"})["Statement"]
    'UPDATE "messages" SET "pending"=? REMOVE "body" WHERE "pk"=? AND "sk"=? AND "version"=?'
    """
    assert update.expect
    assert not update.add
    key = update.key
    text = _text(tables[key.table], tuple(update.changes), update.remove, tuple(update.expect))
    expected = [cast("Value", wanted) for wanted in update.expect.values()]
    values = (*update.changes.values(), key.pk, key.sk, *expected)
    return {"Statement": text, "Parameters": [to_attribute(value) for value in values]}


@lru_cache(maxsize=256)
def _text(table: str, changed: tuple[str, ...], removed: tuple[str, ...], expected: tuple[str, ...]) -> str:
    sets = "".join(f' SET "{name}"=?' for name in changed)
    removes = "".join(f' REMOVE "{name}"' for name in removed)
    where = " AND ".join(f'"{name}"=?' for name in ("pk", "sk", *expected))
    return f'UPDATE "{table}"{sets}{removes} WHERE {where}'
