"""Parses the service's PartiQL updates (names in double quotes, values as parameters) into UpdateItem."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_UPDATE = re.compile(
    r'UPDATE "(?P<table>[\w.-]+)"(?P<changes>(?: SET "\w+"=\?| REMOVE "\w+")+)'
    r' WHERE (?P<where>"\w+"=\?(?: AND "\w+"=\?)*)'
)
_CHANGE = re.compile(r'(SET|REMOVE) "(\w+)"')


@dataclass(frozen=True)
class UpdateStatement:
    """An update: the attributes to set, remove and compare. Its parameters are values of `sets`, then of `where`."""

    table: str
    sets: tuple[str, ...]
    removes: tuple[str, ...]
    where: tuple[str, ...]

    def update_item(self, keys: Collection[str], parameters: Sequence[Any]) -> dict[str, Any]:
        """Return the equivalent UpdateItem request; *keys* are the table's key attributes. Raises ValueError.

        The request does not create a missing row: its condition fails.

        >>> update = read('UPDATE "t" SET "a"=? REMOVE "b" WHERE "pk"=? AND "v"=?').update_item(["pk"], [1, "k", 2])
        >>> update["Key"], update["UpdateExpression"], update["ConditionExpression"]
        ({'pk': 'k'}, 'SET #s0 = :s0 REMOVE #r0', 'attribute_exists(#k) AND #w0 = :w0')
        >>> update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
        ({'#k': 'pk', '#s0': 'a', '#r0': 'b', '#w0': 'v'}, {':s0': 1, ':w0': 2})
        """
        if len(parameters) != len(self.sets) + len(self.where):
            raise ValueError("Number of parameters in request and statement don't match.")
        where = dict(zip(self.where, parameters[len(self.sets) :], strict=True))
        if not where.keys() >= set(keys):
            raise ValueError("Where clause does not contain a mandatory equality on all key attributes")
        key = {name: where.pop(name) for name in keys}
        sets = ", ".join(f"#s{place} = :s{place}" for place in range(len(self.sets)))
        removes = ", ".join(f"#r{place}" for place in range(len(self.removes)))
        names = {"#k": next(iter(keys))}
        for letter, named in (("s", self.sets), ("r", self.removes), ("w", where)):
            names |= {f"#{letter}{place}": name for place, name in enumerate(named)}
        values = {f":s{place}": value for place, value in enumerate(parameters[: len(self.sets)])}
        values |= {f":w{place}": value for place, value in enumerate(where.values())}
        update = {
            "TableName": self.table,
            "Key": key,
            "UpdateExpression": " ".join(filter(None, (sets and f"SET {sets}", removes and f"REMOVE {removes}"))),
            "ConditionExpression": " AND ".join(
                ("attribute_exists(#k)", *(f"#w{place} = :w{place}" for place in range(len(where))))
            ),
            "ExpressionAttributeNames": names,
        }
        return update | ({"ExpressionAttributeValues": values} if values else {})


@lru_cache(1024)
def read(statement: str) -> UpdateStatement | None:
    """Parse a statement; None if it is not an update of the form that the service uses.

    >>> read('SELECT * FROM "t"') is None
    True
    """
    found = _UPDATE.fullmatch(statement)
    if found is None:
        return None
    changes = _CHANGE.findall(found["changes"])
    sets = tuple(name for kind, name in changes if kind == "SET")
    removes = tuple(name for kind, name in changes if kind == "REMOVE")
    return UpdateStatement(found["table"], sets, removes, tuple(re.findall(r'"(\w+)"', found["where"])))
